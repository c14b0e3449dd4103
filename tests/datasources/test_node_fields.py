"""A field of a node is declared once: a new one is searched, embedded, shown and proposed from there."""

from __future__ import annotations

from typing import Annotated

from datasources.memory_overlay import reads_the_same
from datasources.text import node_text
from datasources.types import Graph, Node, ScoredNode, Used, node_fields
from graphrag.embedding.embedder import content_text, embedding_hash
from graphrag.retrieval.context import ContextOptions, build_context
from graphrag.retrieval.retrieval_result import Retrieval
from tools.write_tools.field_changes import fault_of_change


class NotedNode(Node):
    note: Annotated[str | None, Used("searched", "embedded", "shown", "proposable")] = None
    checked_by: str | None = None


NOTED = NotedNode(
    key="a", graph_key="g", type="api", data={"name": "Fetch"}, note="ask Zoe", checked_by="Max"
)
PLAIN = Node(key="a", graph_key="g", type="api", data={"name": "Fetch"})


def test_a_field_is_searched_embedded_and_compared_where_it_says_so() -> None:
    assert "ask Zoe" in node_text(NOTED).content
    assert "ask Zoe" in content_text(NOTED, None)
    assert "Max" not in node_text(NOTED).content
    assert embedding_hash(NOTED, None) != embedding_hash(NOTED.replace(note="ask Kim"), None)
    assert embedding_hash(NOTED, None) == embedding_hash(NOTED.replace(checkedBy="Kim"), None)
    assert not reads_the_same(NOTED, NOTED.replace(note="ask Kim"), {})


def test_a_node_without_the_new_field_keeps_its_words_and_its_hash() -> None:
    without = NotedNode.model_validate(PLAIN.to_document())
    assert node_text(without) == node_text(PLAIN)
    assert embedding_hash(without, None) == embedding_hash(PLAIN, None)


def test_a_field_is_shown_to_the_model_where_it_says_so() -> None:
    graph = Graph(key="g", name="G", workspace="w")
    nodes = (ScoredNode(node=NOTED, score=1),)
    found = Retrieval(graph=graph, question="", mode="text", nodes=nodes, edges=(), configs={})
    context = build_context(found, ContextOptions(), len)
    assert context.tables["nodes"][0]["note"] == "ask Zoe"
    assert "ask Zoe" in context.text
    assert "Max" not in context.text


def test_a_field_is_proposable_where_it_says_so() -> None:
    assert fault_of_change(NOTED.replace(note=None), "note") is None
    assert fault_of_change(PLAIN, "note") is not None
    assert node_fields("proposable").items() >= {"pos_x": "posX", "process": "process"}.items()
    assert "sheet" not in node_fields("proposable")
