"""Rows of a context: what is remembered of a node is never shown for another, or for an older state of it."""

from __future__ import annotations

import gc

from datasources.types import Graph, HandleGroup, HandlePoint, Node, NodeTypeConfig, ScoredNode, TypeTemplate
from graphrag.retrieval import context_rows
from graphrag.retrieval.context_rows import Row, node_row

GRAPH = Graph(key="g", name="G", workspace="w")


def a_type(point: str) -> NodeTypeConfig:
    handles = {"L": HandleGroup(point=(HandlePoint(id=point, type="in"),))}
    template = TypeTemplate.model_validate({"type": "filter", "handles": handles})
    return NodeTypeConfig(key="filter", workspace="w", display_name="Filter", node=template)


def a_node(text: str, config: NodeTypeConfig | None = None) -> Node:
    given = {"_key": "n", "graphKey": "g", "type": "filter", "data": {"text": text}}
    return Node.model_validate(given | ({"handles": config.node.handles} if config else {}))


def row(node: Node, config: NodeTypeConfig | None = None, *, truncate_data: int = 200) -> Row:
    scored = ScoredNode(node=node, score=1.0)
    return node_row(scored, config, GRAPH, truncate_process=500, truncate_data=truncate_data)


def test_a_node_at_the_place_of_one_that_is_gone_has_its_own_row() -> None:
    places: set[int] = set()
    for i in range(300):
        node = a_node(f"number {i}")
        places.add(id(node))
        assert row(node)["data"] == f"text:number {i}"
        del node
        gc.collect(0)
    assert len(places) < 300  # places were given again


def test_handles_are_those_that_differ_from_the_type_as_it_is_now() -> None:
    before, now = a_type("0"), a_type("1")
    node = a_node("x", before)
    assert row(node, before)["handles"] is None
    assert row(node, now)["handles"] == row(node, None)["handles"] == "in L:0"
    assert row(node, before)["handles"] is None


def test_names_are_compared_by_their_letters_in_any_script() -> None:
    for key, name, same in [
        ("api-call", "API Call", True),
        ("flow.api-call", "api call", True),
        ("ete", "Été", True),
        ("发送", "发 送", True),
        ("api-call", "API Caller", False),
    ]:
        assert context_rows.says_same(key, name) == same
