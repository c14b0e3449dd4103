"""What docs/connect.md says in Python, run with the real packages against the
service at NODIUS_URL.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_nodius import NodiusAsk, NodiusContext, NodiusRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index_nodius import NodiusRetriever as LlamaIndexRetriever

GRAPH = "testgraph001"
DOCUMENT = (Path(__file__).parents[2] / "docs/connect.md").read_text(encoding="utf-8")


class Scripted(GenericFakeChatModel):
    """A model that says what a test gives it; it may be given tools."""

    def bind_tools(self, tools: Any, **options: Any) -> Scripted:
        return self


async def run(heading: str, **names: Any) -> dict[str, Any]:
    """Run the block under a heading; return the names that it leaves."""
    found = re.search(
        rf"^## {heading}\n.*?^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    assert len(ast.parse(found[1]).body) == 2
    code = compile(found[1], f"connect.md, {heading}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if inspect.isawaitable(waits := eval(code, names)):
        await waits
    return names


async def test_langchain() -> None:
    names = await run(
        "LangChain",
        NodiusRetriever=NodiusRetriever,
        NodiusContext=NodiusContext,
        NodiusAsk=NodiusAsk,
    )
    assert names["documents"][0].metadata["key"] == "error-handler"
    assert [tool.name for tool in names["tools"]] == ["nodius_context", "nodius_ask"]


async def test_llama_index() -> None:
    given = {"RetrieverQueryEngine": RetrieverQueryEngine, "NodiusRetriever": LlamaIndexRetriever}
    names = await run("LlamaIndex", **given, llm=MockLLM())
    assert "error-handler" in names["answer"].response


async def test_langgraph_reads_and_proposes_over_mcp() -> None:
    arguments = {
        "graphKey": GRAPH,
        "nodeKey": "error-handler",
        "changes": {"data.level": "warning"},
    }
    asked = {"name": "propose_update_node", "args": {**arguments, "reason": "asked for"}, "id": "1"}
    model = Scripted(messages=iter([AIMessage("", tool_calls=[asked]), AIMessage("It waits.")]))
    where = {"url": os.environ["NODIUS_URL"], "token": os.environ["NODIUS_TOKEN"]}
    given = {"create_agent": create_agent, "MultiServerMCPClient": MultiServerMCPClient}
    names = await run("LangGraph", **given, **where, model=model)
    said = await names["agent"].ainvoke({"messages": [("user", "Make it a warning")]})
    result = said["messages"][-2]
    assert result.name == "propose_update_node"
    assert "&panel=review&approval=ap_" in str(result.content)
