"""Ranking: what fusion and spreading promise."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from datasources.hits import Hit
from datasources.links import Link, LinkTable
from datasources.mock import MemoryDatabase
from datasources.types import Mutation, ScoredNode
from graphrag.embedding import LocalEmbedder
from graphrag.embedding.refresh import embed_nodes
from graphrag.retrieval.coverage import MOST, compared, lift
from graphrag.retrieval.rank import (
    Adjacency,
    RankOptions,
    adjacency,
    frontier,
    fuse,
    name_vector_agreement,
    rank,
    spread,
)
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, an_edge

keys = st.sampled_from([f"n{i}" for i in range(12)])
scores = st.just(0.0) | st.floats(1e-50, 100)  # products of smaller ones are 0
hits = st.lists(st.builds(Hit, keys, scores), max_size=12, unique_by=lambda hit: hit.key).map(
    lambda found: sorted(found, key=lambda hit: -hit.score)
)
signals = st.dictionaries(
    st.sampled_from(["text", "name", "vector", "name-vector"]), hits, max_size=4
)
links = st.lists(st.builds(Link, keys, keys), max_size=30)


def test_fusion_normalises_each_signal_to_its_own_best() -> None:
    fused = fuse(
        {"text": [Hit("a", 40), Hit("b", 10)], "vector": [Hit("b", 0.5)]}, {"text": 1, "vector": 2}
    )
    assert fused == {"a": 1.0, "b": 0.25 + 2.0}


def test_signal_without_weight_or_score_changes_nothing() -> None:
    found = {
        "text": [Hit("a", 1)],
        "other": [Hit("b", 9)],
        "vector": [Hit("c", 0.0), Hit("d", -1.0)],
    }
    assert fuse(found, {"text": 1, "vector": 1}) == {"a": 1.0}


def test_names_that_say_nothing_do_not_drown_what_all_text_says() -> None:
    text = [Hit("right", 30.0), Hit("other", 10.0), *(Hit(f"t{i:02}", 9.0) for i in range(20))]
    near = [Hit("right", 0.8), Hit("other", 0.4)]
    by_chance = [Hit("wrong", 0.3), Hit("other", 0.2)]
    found = {"text": text, "vector": near, "name": [Hit("wrong", 6.0)], "name-vector": by_chance}
    fused = fuse(found, RankOptions().weights)
    assert max(fused, key=fused.__getitem__) == "right"
    assert fused["right"] == pytest.approx(1.0)
    assert fused["wrong"] == pytest.approx(0.6 * 6.0 / 30.0 + 1.0 * 0.08 / 0.8)


def test_a_name_of_one_word_is_less_than_a_text_of_all_words() -> None:
    text = [Hit("all", 20.0), Hit("one", 5.0)]
    names = [Hit("one", 7.0), Hit("all", 2.0)]
    fused = fuse({"text": text, "name": names}, {"text": 1.0, "name": 1.0})
    assert fused == {"all": pytest.approx(1.1), "one": pytest.approx(0.6)}
    # never more than all words
    same = fuse({"text": names, "name": text}, {"text": 1.0, "name": 1.0})
    assert same == {"all": pytest.approx(2 / 7 + 1.0), "one": pytest.approx(1.25)}


def test_names_that_all_text_bears_out_weigh_in_full() -> None:
    whole = [Hit("a", 0.8), Hit("b", 0.6)]
    assert name_vector_agreement([Hit("b", 0.9), Hit("a", 0.5)], whole) == pytest.approx(0.94)
    assert name_vector_agreement(whole, whole) == 1.0
    assert name_vector_agreement([Hit("a", 1.0), Hit("b", 0.6)], whole) == 1.0
    fused = fuse(
        {"vector": whole, "name-vector": [Hit("a", 1.0), Hit("b", 0.6)]}, RankOptions().weights
    )
    assert fused["a"] == pytest.approx(0.4 + 1.0)


def test_names_count_in_full_where_nothing_can_bear_them_out() -> None:
    names = [Hit("a", 2.0)]
    text = [Hit("b", 5.0)]
    assert fuse({"name": names, "text": text}, {"text": 0, "name": 1}) == {"a": 1.0}
    weights = {"vector": 1, "name": 1, "name-vector": 1}
    assert fuse({"name": names, "name-vector": names}, weights) == {"a": 2.0}
    assert fuse({"name": names, "name-vector": [], "vector": text}, weights) == {"a": 1.0, "b": 1.0}
    assert fuse({"name-vector": names, "vector": text}, {"name-vector": 1}) == {"a": 1.0}
    assert fuse({"name-vector": names, "vector": [Hit("b", -1.0)]}, weights) == {"a": 1.0}


@given(hits, hits, st.floats(1e-3, 1e3))
def test_agreement_of_names_does_not_depend_on_the_unit(
    names: list[Hit], whole: list[Hit], unit: float
) -> None:
    share = name_vector_agreement(names, whole)
    assert 0 <= share <= 1
    scaled = [[Hit(key, score * unit) for key, score in found] for found in (names, whole)]
    assert name_vector_agreement(*scaled) == pytest.approx(share, abs=1e-6)


def test_node_between_two_good_ones_outranks_an_equal_one_alone() -> None:
    found = {"text": [Hit("a", 10), Hit("c", 9), Hit("b", 5), Hit("alone", 5)]}
    ranked = rank(found, [Link("a", "b"), Link("b", "c")], RankOptions(weights={"text": 1}), 10)
    order = [r.key for r in ranked]
    assert order.index("b") < order.index("alone")


def test_neighbour_no_search_found_is_reached_and_says_through_whom() -> None:
    ranked = rank({"text": [Hit("a", 3)]}, [Link("a", "b")], RankOptions(), 10)
    assert [(r.key, r.reasons) for r in ranked] == [("a", ("text",)), ("b", ("near:a",))]


def test_hub_does_not_win_by_the_number_of_its_neighbours() -> None:
    leaves = [Hit(f"leaf{i:02}", 2) for i in range(40)]
    ranked = rank(
        {"text": [Hit("best", 10), *leaves]},
        [Link("hub", hit.key) for hit in leaves],
        RankOptions(),
        50,
    )
    assert ranked[0].key == "best"


def test_the_second_step_begins_at_the_best_nodes_whose_edges_were_not_read() -> None:
    found = {"good": 2.0, "weak": 1.0, "late": 0.5}
    edges = [Link("good", "next"), Link("weak", "other"), Link("good", "weak")]
    read = LinkTable.of(edges, found)
    assert frontier(read, found, 2, RankOptions()) == ["next", "other", "late"]
    assert frontier(read, found, 2, RankOptions(candidates=3)) == ["next"]
    assert frontier(read, found, 2, RankOptions(damping=0.0)) == []
    among = LinkTable.of(edges[-1:], found)
    assert frontier(among, found, 2, RankOptions()) == []  # they lead to nothing else


def test_damping_zero_keeps_the_order_of_fusion() -> None:
    found = {"text": [Hit("a", 3), Hit("b", 2), Hit("c", 1)]}
    ranked = rank(found, [Link("c", "b"), Link("c", "x")], RankOptions(damping=0), 10)
    assert [r.key for r in ranked] == ["a", "b", "c"]


@given(signals, links, st.integers(1, 8))
@example({"text": [Hit("n0", 5e-324)]}, [], 1)
def test_ranking_is_bounded_ordered_unique_and_repeatable(
    found: dict[str, list[Hit]], edges: list[Link], limit: int
) -> None:
    ranked = rank(found, edges, RankOptions(), limit)
    scores = [r.score for r in ranked]
    assert len(ranked) <= limit
    assert len({r.key for r in ranked}) == len(ranked)
    assert scores == sorted(scores, reverse=True)
    assert all(0 < s <= 1 for s in scores)
    assert all(r.reasons for r in ranked)
    assert rank(found, list(reversed(edges)), RankOptions(), limit) == ranked
    table = LinkTable.of(edges, fuse(found, RankOptions().weights))
    assert rank(found, table, RankOptions(), limit) == ranked


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12), st.data())
def test_spreading_never_makes_a_score_from_nothing(
    seeds: list[float], data: st.DataObject
) -> None:
    size = len(seeds)
    ends = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    matrix = adjacency(size, data.draw(st.lists(ends, max_size=20)))
    out = spread(np.array(seeds), matrix, RankOptions())
    assert np.isfinite(out).all()
    assert (out >= 0).all()
    if sum(seeds) == 0:
        assert out.sum() == 0


def dense(matrix: Adjacency, size: int) -> NDArray[np.float64]:
    """Return a matrix by its products with unit vectors."""
    return np.array([matrix.times(unit) for unit in np.eye(size)])


def test_adjacency_is_symmetric_without_doubles_or_loops() -> None:
    matrix = adjacency(3, [(0, 1), (1, 0), (0, 1), (2, 2)])
    assert dense(matrix, 3).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert matrix.neighbours(range(3)) == {0: [(1, 1.0)], 1: [(0, 1.0)], 2: []}


def test_a_pair_that_is_weak_as_well_counts_in_full() -> None:
    matrix = adjacency(3, [(0, 1)], np.array([(1, 0), (1, 2), (2, 1), (0, 0)]), 0.1)
    assert dense(matrix, 3).tolist() == [[0, 1, 0], [1, 0, 0.1], [0, 0.1, 0]]
    assert {row: sorted(found) for row, found in matrix.neighbours([1]).items()} == {
        1: [(0, 1.0), (2, 0.1)]
    }


def test_spread_agrees_with_the_closed_form() -> None:
    matrix = adjacency(3, [(0, 1), (1, 2)])
    options = RankOptions(damping=0.4, sharpness=1, iterations=80)
    seeds = np.array([1.0, 0.0, 0.0])
    degree = dense(matrix, 3).sum(axis=1)
    normalised = dense(matrix, 3) / np.sqrt(np.outer(degree, degree))
    exact = 0.6 * np.linalg.solve(np.eye(3) - 0.4 * normalised, seeds)
    assert spread(seeds, matrix, options) == pytest.approx(exact, abs=1e-9)


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
    assert (await found(NOTES["libkettle1"]))[:2] == [
        "libkettle1",
        "kettle",
    ]  # both say it, one says more
    assert (await found(NOTES["kettle"]))[0] == "kettle"
    assert (await found("a temperature library of the Kettle, for the smallest sensor"))[
        0
    ] != "teapot"
    in_any_order = await found("library small kettle sensors temperature")
    assert set(in_any_order[:2]) == {"libkettle1", "kettle"}


def scored(score: float, key: str, notes: str) -> ScoredNode:
    return ScoredNode(node=a_node(key, data={"notes": notes}), score=score, reasons=("text",))


def order(question: str, *nodes: ScoredNode, keys: tuple[str, ...] = ("x", "y")) -> list[str]:
    lifted = lift(nodes, question, question, keys)
    assert {n.node.key for n in lifted} == {n.node.key for n in nodes}
    return [n.node.key for n in lifted]


def test_only_nodes_that_hold_most_words_are_lifted() -> None:
    best = scored(1.0, "best", "something else")
    other = scored(0.2, "x", "blue ferry boats leave harbour")
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
