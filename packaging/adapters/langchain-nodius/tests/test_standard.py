"""LangChain's own tests of retrievers and tools, against the service at NODIUS_URL; then
what is ours.
"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import BaseTool
from langchain_nodius import NodiusAsk, NodiusContext, NodiusRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

GRAPH = {"graph": "testgraph001"}
QUESTION = "What happens when fetching the players fails?"
CHANGE = 'rename error-handler to "Report error"'


class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[NodiusRetriever]:
        return NodiusRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return GRAPH

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class _ContextTool:
    tool_constructor: type[BaseTool] = NodiusContext
    tool_constructor_params = GRAPH
    tool_invoke_params_example = {"message": QUESTION}


class _AskTool(_ContextTool):
    tool_constructor: type[BaseTool] = NodiusAsk
    tool_invoke_params_example = {"message": "Who logs errors?"}


class TestContextUnit(_ContextTool, ToolsUnitTests):
    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        expected = {"url": "http://127.0.0.1:1", "token": "abc"}
        return {"NODIUS_URL": "http://127.0.0.1:1", "NODIUS_TOKEN": "abc"}, GRAPH, expected


class TestContext(_ContextTool, ToolsIntegrationTests):
    pass


class TestAskUnit(_AskTool, ToolsUnitTests):
    pass


class TestAsk(_AskTool, ToolsIntegrationTests):
    pass


def test_documents_say_which_node_they_are_and_why_they_were_found() -> None:
    first = NodiusRetriever(**GRAPH).invoke(QUESTION)[0]
    assert first.id == "testgraph001/error-handler"
    assert first.metadata["score"] == 1.0
    assert first.metadata["reasons"]
    assert '"_key":"error-handler"' in first.page_content


def test_a_context_is_in_tables() -> None:
    said = NodiusContext(**GRAPH).invoke({"message": QUESTION})
    assert {"FLOW", "ALL NODES", "TYPES USED"} <= set(said.splitlines())
    assert "fetch-api --error--> error-handler" in said.splitlines()


def test_a_change_is_proposed_through_this_program_and_changes_nothing() -> None:
    tool = NodiusAsk(**GRAPH)
    said = tool.invoke({"message": CHANGE})
    assert "/#graph=testgraph001&panel=review&approval=ap_" in said
    id_ = said.rpartition("approval=")[2]
    stored = tool._request("GET", f"/api/approvals/{id_}")
    assert (stored["status"], stored["client"]["name"]) == ("pending", "langchain-nodius")
    assert (
        NodiusRetriever(**GRAPH, k=100).invoke("error-handler")[0].metadata["name"]
        != "Report error"
    )


@pytest.mark.parametrize(
    "given", [{"graph": "nowhere"}, {**GRAPH, "token": "x"}, {"graph": "../approvals?x=#"}]
)
def test_a_refusal_is_told_to_the_model(given: dict[str, str]) -> None:
    said = NodiusContext(**given).invoke({"message": QUESTION})
    assert said[:3] in ("401", "404")
