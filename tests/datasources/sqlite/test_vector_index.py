"""Codes of vectors and guesses of scores only spare work: what they find is what
comparing all finds.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from datasources.hits import Hit, Vector, VectorQuery
from datasources.sqlite.index_manager import NodeTable
from datasources.sqlite.rows import MAX_TIES, SAMPLE, best_of, best_rows
from datasources.sqlite.vector_index import (
    CODED_FROM,
    LEAST_DIM,
    PackedCodes,
    VectorIndex,
    int4_codes,
)
from datasources.types import Mutation
from datasources.vectors import nearest, normalize
from tests.contracts.samples import FLOW, MODEL, a_graph, a_node, a_vector
from tests.datasources.sqlite.helpers import NOTHING_IS_SMALL, opened
from tests.support.each_row import each_row

NONE = np.zeros(0, dtype=np.int64)
vectors = st.tuples(st.integers(1, 9), st.integers(1, 70)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-1, 1, width=32))
)


def index_of(unit: Vector) -> VectorIndex:
    nodes = NodeTable.of(np.arange(len(unit)) + 5, [f"n{i}" for i in range(len(unit))])
    return VectorIndex(number=1, nodes=nodes, unit=unit, codes=PackedCodes(*int4_codes(unit)))


def clustered(count: int, dim: int) -> Vector:
    """Return vectors in groups, as those of real texts are."""
    random = np.random.default_rng(dim)
    centres = random.normal(size=(count // 30, dim))
    return normalize(
        (centres[np.arange(count) % len(centres)] + random.normal(size=(count, dim))).astype(
            np.float32
        )
    )


def decoded(codes: NDArray[np.uint8], dim: int) -> NDArray[np.int8]:
    """Return the codes that were put two in a byte."""
    both = (
        np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)[:, :dim].astype(np.int8)
    )
    return np.where(both > 7, both - 16, both)


@given(vectors)
def test_a_code_is_near_its_component_and_scores_are_products_of_codes(found: Vector) -> None:
    packed, scales = int4_codes(found)
    codes = decoded(packed, found.shape[1])
    peak = np.abs(found).max(axis=1, keepdims=True)
    away = np.abs(codes * scales[:, None] - found)
    assert np.all(away <= np.maximum(np.abs(found) - 0.8 * peak, 0.8 / 14 * peak) + 1e-6)
    for one, code in zip(found, codes.astype(np.int64), strict=True):
        scores = PackedCodes(packed, scales).scores(one)
        np.testing.assert_allclose(scores, (codes.astype(np.int64) @ code) * scales, 1e-5, 1e-5)


@pytest.mark.parametrize("dim", [64, 65, 256])
@pytest.mark.slow
def test_the_nearest_of_ten_thousand_are_among_the_candidates(dim: int) -> None:
    unit = clustered(10_000, dim)
    index = index_of(unit)
    for query in clustered(11_000, dim)[-20:]:
        best = np.argsort(-(unit @ query))[:50]
        assert set(best.tolist()) <= set(index.nearest(query, 182, NONE).tolist())


def test_what_is_hidden_is_no_candidate() -> None:
    unit = clustered(9_000, 64)
    best = np.argsort(-(unit @ unit[7]))[:40]
    for count in (40, 20_000):
        found = index_of(unit).nearest(unit[7], count, best[:20])
        assert not set(best[:20].tolist()) & set(found.tolist())
        assert set(best[20:].tolist()) <= set(found.tolist()) or count == 40


def test_vectors_of_zeros_and_of_one_component_are_scored() -> None:
    unit = np.zeros((3, 64), dtype=np.float32)
    unit[1, 5] = 1.0
    unit[2, 5] = -1.0
    scores = PackedCodes(*int4_codes(unit)).scores(unit[1])
    assert scores[1] > scores[0] == 0 > scores[2]


@pytest.mark.parametrize("limits", [None, NOTHING_IS_SMALL], ids=["memory", "file"])
@pytest.mark.parametrize(
    ("count", "dim"), [(CODED_FROM, LEAST_DIM), (CODED_FROM, LEAST_DIM - 1), (90, LEAST_DIM)]
)
@pytest.mark.slow
async def test_a_search_finds_what_comparing_all_vectors_finds(
    tmp_path: Path, limits: object, count: int, dim: int
) -> None:
    unit = clustered(count, dim)
    keys = [f"n{i:05}" for i in range(count)]
    unit[10:40] = unit[9]  # equal ones come in the order of their keys
    whole = dict(zip(keys, unit, strict=True))
    async with opened(tmp_path / "graphs.db", limits) as source:  # pyright: ignore[reportArgumentType]
        await source.create_graph(a_graph())
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node(key) for key in keys]))
        await source.put_embeddings(
            FLOW, [a_vector(k, *row) for k, row in zip(keys, unit, strict=True)]
        )
        await source.build_indexes(FLOW)
        for question in (unit[9], *clustered(count + 60, dim)[-20:]):
            for least in (0.1, 0.99):
                found = await source.search_vectors(
                    FLOW, VectorQuery(vector=question, model=MODEL, limit=25, min_score=least)
                )
                exact = nearest(whole, question, 25, least)
                assert [hit.score for hit in found] == pytest.approx(
                    [h.score for h in exact], abs=1e-5
                )
        found = await source.search_vectors(
            FLOW, VectorQuery(vector=unit[9], model=MODEL, limit=31)
        )
        assert [hit.key for hit in found] == keys[9:40]


@given(
    st.lists(st.text(min_size=1).filter(lambda key: key.isprintable()), unique=True, max_size=20),
    st.data(),
)
def test_a_node_table_gives_back_every_key(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("table")
    NodeTable.of(np.arange(len(keys), dtype=np.int64) * 3 + 7, keys).save(folder)
    table = NodeTable.open(folder)
    asked = data.draw(st.lists(st.integers(0, 80)))
    rows = table.rows(asked)
    known = [rid for rid in asked if rid in set(table.rids.tolist())]
    assert table.rids[rows].tolist() == known
    assert table.keys(rows) == [keys[(rid - 7) // 3] for rid in known]


@each_row("size", 0, 1, 50, 4 * SAMPLE + 1, 30_000)
@each_row("digits", 1, 7)
@each_row("share", 0.02, 1.0)
def test_the_best_scores_are_found(size: int, digits: int, share: float) -> None:
    chance = np.random.default_rng(size + digits)
    scores = np.round(chance.random(size), digits).astype(np.float32)
    scores[chance.random(size) > share] = 0
    for count in (1, 7, 330):
        rows = best_rows(scores, count)
        assert (np.diff(rows) > 0).all()
        assert len(rows) <= count + MAX_TIES
        assert (
            np.sort(scores[rows])[::-1][:count].tolist() == np.sort(scores)[::-1][:count].tolist()
        )


def test_what_is_better_is_not_lost_among_many_that_tie() -> None:
    scores = np.ones(5 * MAX_TIES)
    scores[-3:] = 2
    rows = best_rows(scores, 10)
    assert len(rows) == 10 + MAX_TIES
    assert rows[-3:].tolist() == [len(scores) - 3, len(scores) - 2, len(scores) - 1]


def test_a_guess_from_scores_that_lie_unevenly_is_only_a_guess() -> None:
    scores = np.zeros(8 * SAMPLE)
    scores[::8] = 1.0  # each score that is looked at, and no other
    assert len(best_rows(scores, 3 * SAMPLE)) == 3 * SAMPLE + MAX_TIES


def test_hits_that_tie_are_in_key_order_up_to_the_limit() -> None:
    scores = np.array([0.5, 0.25, 0.5, 0.75, 0.25], dtype=np.float32)
    hits = best_of(["d", "b", "c", "e", "a"], scores, 4)
    assert hits == [Hit("e", 0.75), Hit("c", 0.5), Hit("d", 0.5), Hit("a", 0.25)]
    assert best_of([], scores[:0], 4) == []


def test_rows_left_out_are_never_among_the_best() -> None:
    for size in (20, 8 * SAMPLE):
        scores = np.full(size, -np.inf, dtype=np.float32)
        scores[[3, 9]] = 0.5, -0.5
        assert best_rows(scores, 30).tolist() == [3, 9]
        assert best_rows(scores, 5).tolist() == [3, 9]
