"""The retriever in LlamaIndex's own query engine, against the service at NODIUS_URL.

LlamaIndex has no standard tests of retrievers.
"""

from __future__ import annotations

import httpx
import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index_nodius import NodiusRetriever

QUESTION = "What happens when fetching the players fails?"


def test_nodes_come_with_scores_best_first() -> None:
    retriever = NodiusRetriever("testgraph001", similarity_top_k=3)
    assert isinstance(retriever, BaseRetriever)
    found = retriever.retrieve(QUESTION)
    assert len(found) == 3
    assert found[0].node.id_ == "testgraph001/error-handler"
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found[0].node.metadata["key"] == "error-handler"


async def test_waiting_for_them_finds_the_same() -> None:
    retriever = NodiusRetriever("testgraph001")
    waited = await retriever.aretrieve(QUESTION)
    assert [one.node_id for one in waited] == [one.node_id for one in retriever.retrieve(QUESTION)]


def test_a_query_engine_gives_its_model_each_node_once() -> None:
    # MockLLM answers with the prompt that it is given.
    engine = RetrieverQueryEngine.from_args(
        NodiusRetriever("testgraph001", similarity_top_k=2), llm=MockLLM()
    )
    answer = engine.query(QUESTION)
    assert answer.response.count('"_key":"error-handler"') == 1
    assert "reasons:" not in answer.response
    assert answer.source_nodes[0].node.metadata["key"] == "error-handler"


@pytest.mark.parametrize(
    ("graph", "token", "status"), [("nowhere", None, 404), ("testgraph001", "x", 401)]
)
def test_a_refusal_is_raised(graph: str, token: str | None, status: int) -> None:
    with pytest.raises(httpx.HTTPStatusError) as raised:
        NodiusRetriever(graph, token=token).retrieve(QUESTION)
    assert raised.value.response.status_code == status
