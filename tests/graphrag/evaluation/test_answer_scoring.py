"""Answers and changes are scored by the graph alone."""

from __future__ import annotations

from typing import Any

import pytest

from datasources.types import Edge, Graph, Node
from graphrag.evaluation.answer_cases import AskedChange, AskedQuestion, CaseGraph
from graphrag.evaluation.answer_scoring import has_fact, normalize, says_connected, score_answer
from graphrag.evaluation.expected_graph import check_change, score_change


def a_graph(*edges: tuple[str, str], **data: Any) -> CaseGraph:
    """Nodes `fetch`, `sort`, `mail` and `note`, called as their keys are, in capitals."""
    nodes = {
        key: Node(key=key, graph_key="g", type="t", data={"name": f"{key.capitalize()} it", **data})
        for key in ("fetch", "sort", "mail", "note")
    }
    made = {
        f"{source}-{target}": Edge(
            key=f"{source}-{target}", graph_key="g", source=source, target=target
        )
        for source, target in edges
    }
    return CaseGraph(graph=Graph(key="g", name="G", workspace="w"), nodes=nodes, edges=made)


GRAPH = a_graph(("fetch", "sort"), ("sort", "mail"))
FOLLOWS = AskedQuestion(
    ask="What follows?", must=("Sort it", "https://a.example/x"), must_not=("Note it",)
)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("**Sort it** reads `https://a.example/x`.", "right"),
        ("{{node:sort}} reads https://a.example/x", "right"),
        ("It is sort it.", "partly"),
        ("It is something else.", "wrong"),
        ("", "wrong"),
        ("Sort it reads https://a.example/x, and Note it.", "invented"),
        ("Sort it reads https://a.example/x; Sort it → Fetch it", "invented"),
    ],
)
def test_an_answer_is_right_partly_right_wrong_or_invented(answer: str, verdict: str) -> None:
    assert score_answer(answer, FOLLOWS, GRAPH).verdict == verdict


@pytest.mark.parametrize(
    ("text", "fact", "is_there"),
    [
        ("It is 10.", "10", True),
        ("from -10 on", "10", False),
        ("1.10 or 10.5", "10", False),
        ("-10 it is", "-10", True),
        ("There are three of them", "3", True),
        ("threefold", "3", False),
        ("prefetch", "fetch", False),
        ("gpt-4o-mini", "gpt-4", False),
        ("uses gpt-4.", "gpt-4", True),
        ("A  long\nname", "a long NAME", True),
    ],
)
def test_facts_are_whole_words_and_numbers(text: str, fact: str, is_there: bool) -> None:
    assert has_fact(normalize(text), fact) is is_there


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Yes.", True),
        ("Yes, no doubt about it.", True),
        ("No, it is not.", False),
        ("There is no direct edge between them.", False),
        ("Fetch it leads straight to Sort it.", True),
        ("They aren't linked.", False),
        ("Non, ils ne sont pas reliés.", False),
        ("Oui.", True),
        ("No model is configured. I do know nothing.", None),
    ],
)
def test_yes_and_no_are_told_apart(answer: str, said: bool | None) -> None:
    assert says_connected(answer) is said


@pytest.mark.parametrize(
    ("pair", "answer", "verdict"),
    [
        (("Fetch it", "Sort it"), "Yes.", "right"),
        (("Fetch it", "Sort it"), "fetch → sort", "right"),
        (("Fetch it", "Sort it"), "No.", "wrong"),
        (("Fetch it", "Sort it"), "I cannot tell.", "wrong"),
        (("Fetch it", "Note it"), "No.", "right"),
        (("Fetch it", "Note it"), "Yes, an edge does that.", "invented"),
    ],
)
def test_whether_nodes_are_connected_is_read_from_the_graph(
    pair: tuple[str, str], answer: str, verdict: str
) -> None:
    assert score_answer(answer, AskedQuestion(ask="?", connected=pair), GRAPH).verdict == verdict


def test_a_number_of_nodes_is_a_fact() -> None:
    asked = AskedQuestion(ask="How many?", counted=("Fetch it", "Sort it"))
    assert [score_answer(text, asked, GRAPH).verdict for text in ("Two.", "2", "12")] == [
        *("right", "right", "wrong")
    ]


RENAMED = AskedChange(ask="Rename it.", set={"Sort it": {"data.name": "Order it"}})


def _with(graph: CaseGraph, key: str, **data: Any) -> CaseGraph:
    node = graph.nodes[key]
    new = node.replace(data={**node.data, **data}, pos_x=5)
    return CaseGraph(graph=graph.graph, nodes={**graph.nodes, key: new}, edges=graph.edges)


def _without(graph: CaseGraph, *, node: str = "", edge: str = "") -> CaseGraph:
    nodes = {key: one for key, one in graph.nodes.items() if key != node}
    edges = {
        key: one
        for key, one in graph.edges.items()
        if key != edge and node not in (one.source, one.target)
    }
    return CaseGraph(graph=graph.graph, nodes=nodes, edges=edges)


def test_a_rename_is_right_also_where_references_follow_it() -> None:
    before = a_graph(text="after $('Sort it')")
    renamed = _with(before, "sort", name="Order it")
    for key in renamed.nodes:
        renamed = _with(renamed, key, text="after $('Order it')")
    assert score_change(before, renamed, RENAMED).verdict == "right"


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (GRAPH, "wrong"),
        (_with(GRAPH, "sort", name="Order it"), "right"),
        (_with(_with(GRAPH, "sort", name="Order it"), "mail", text="new"), "invented"),
        (_with(GRAPH, "sort", name="Other"), "wrong"),
        (_without(_with(GRAPH, "sort", name="Order it"), edge="sort-mail"), "invented"),
        (_without(_with(GRAPH, "sort", name="Order it"), node="note"), "invented"),
    ],
)
def test_a_change_is_compared_with_the_whole_graph(after: CaseGraph, verdict: str) -> None:
    assert score_change(GRAPH, after, RENAMED).verdict == verdict


def test_what_hangs_on_a_deleted_node_goes_with_it_and_parts_of_a_change_are_partly_right() -> None:
    asked = AskedChange(ask="Delete it.", gone=("Sort it", "Note it"))
    half = _without(GRAPH, node="sort")
    assert score_change(GRAPH, half, asked).verdict == "partly"
    assert score_change(GRAPH, _without(half, node="note"), asked).verdict == "right"


def test_edges_are_expected_to_be_there_or_gone() -> None:
    asked = AskedChange(
        ask="!", edges=(("Fetch it", "Mail it"),), no_edges=(("Fetch it", "Sort it"),)
    )
    new = a_graph(("fetch", "mail"), ("sort", "mail"))
    assert score_change(GRAPH, new, asked).verdict == "right"
    assert score_change(GRAPH, a_graph(("fetch", "mail")), asked).verdict == "invented"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (AskedChange(ask="!", gone=("Nobody",)), "0 nodes are called"),
        (AskedChange(ask="!", edges=(("Fetch it", "Sort it"),)), "it holds already"),
        (AskedChange(ask="!", set={"Sort it": {"data.name": "Sort it"}}), "it holds already"),
        (AskedChange(ask="!"), "expects nothing"),
    ],
)
def test_a_change_that_does_not_fit_its_graph_is_refused(asked: AskedChange, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_change(GRAPH, asked)
