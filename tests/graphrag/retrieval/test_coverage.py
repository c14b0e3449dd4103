"""Who asks for a text by the text itself gets the node that holds it, whatever names and edges say."""

from __future__ import annotations

from collections.abc import Mapping

from datasources.mock import MemoryDatabase
from datasources.types import Hit, Mutation, ScoredNode
from graphrag.embedding import LocalEmbedder
from graphrag.embedding.refresh import embed_nodes
from graphrag.retrieval.coverage import MOST, compared, lift
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, an_edge

NOTES = {
    "libkettle1": "Kettle temperature library for small sensors",
    "kettle-sensors": "Sensors of the kettle: temperature temperature temperature library",
    "kettle-library": "Kettle library",
    "kettle-temperature": "Small sensors",
    "kettle": "Kettle temperature library for small sensors - documentation and more of it",
    "teapot": "Pours tea",
}


async def found(question: str, notes: Mapping[str, str] = NOTES) -> list[str]:
    """Return what is found, best first, in a graph where all depend on a hub."""
    async with MemoryDatabase() as database:
        source = database.source(WORKSPACE)
        await source.create_graph(a_graph(FLOW))
        nodes = [a_node(key, data={"name": key, "notes": text}) for key, text in notes.items()]
        edges = [an_edge(f"e-{key}", key, "kettle") for key in notes if key != "kettle"]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges))
        await embed_nodes(source, LocalEmbedder(), graph_keys=[FLOW])
        retrieved = await Retriever(source, LocalEmbedder()).retrieve(FLOW, question)
        scores = [scored.score for scored in retrieved.nodes]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == 1.0
        return [scored.node.key for scored in retrieved.nodes]


async def test_a_node_is_first_that_says_what_is_asked() -> None:
    assert (await found(NOTES["libkettle1"]))[:2] == ["libkettle1", "kettle"]  # both say it, one says more
    assert (await found(NOTES["kettle"]))[0] == "kettle"
    assert (await found("a temperature library of the Kettle, for the smallest sensor"))[0] != "teapot"
    in_any_order = await found("library small kettle sensors temperature")
    assert set(in_any_order[:2]) == {"libkettle1", "kettle"}


def scored(score: float, key: str, notes: str) -> ScoredNode:
    return ScoredNode(node=a_node(key, data={"notes": notes}), score=score, reasons=("text",))


def order(question: str, *nodes: ScoredNode, keys: tuple[str, ...] = ("x", "y")) -> list[str]:
    lifted = lift(nodes, question, question, keys)
    assert {n.node.key for n in lifted} == {n.node.key for n in nodes}
    return [n.node.key for n in lifted]


def test_only_nodes_that_hold_most_words_are_lifted() -> None:
    best, other = scored(1.0, "best", "something else"), scored(0.2, "x", "blue ferry boats leave harbour")
    assert order("blue ferry boats leave harbour", best, other) == ["x", "best"]
    assert order("blue ferry boats leave harbours at night again", best, other) == ["best", "x"]
    assert order("ferry boats", best, other) == ["best", "x"]  # too few words to mean one text
    assert order("blue ferry boats leave harbour", best, other, keys=()) == ["best", "x"]
    assert order("libraries of tiny queries", best, scored(0.1, "x", "tiny library query of")) == [
        "x",
        "best",
    ]
    assert order("", best, other) == order("?!", best, other) == ["best", "x"]
    unlike = scored(
        0.3, "y", "blue, ferry boats / leave: harbour (and many words more that say other things)"
    )
    assert order("blue ferry boats leave harbour", best, unlike, other) == ["x", "y", "best"]


def test_only_the_best_hits_of_words_are_compared() -> None:
    assert compared([Hit("a", 4.0), Hit("b", 3.0), Hit("c", 2.9)]) == ["a", "b"]
    assert compared([]) == []
    assert len(compared([Hit(str(i), 1.0) for i in range(50)])) == MOST
