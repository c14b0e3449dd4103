"""The best of many scores, and vectors in 8 bits: a search finds what comparing all finds."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from datasources.hits import Hit, Vector, VectorQuery
from datasources.ranking import MAX_TIES, best_rows, ordered
from datasources.sqlite.vector_index import GREATEST, int8_codes
from datasources.types import Mutation
from datasources.vectors import nearest, normalize
from tests.contracts.samples import FLOW, MODEL, a_graph, a_node, a_vector
from tests.contracts.searches import search_vectors
from tests.datasources.sqlite.helpers import NOTHING_IS_SMALL, opened

vectors = st.tuples(st.integers(1, 9), st.integers(1, 70)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-1, 1, width=32))
)


def clustered(count: int, dim: int) -> Vector:
    """Return vectors in groups, as those of real texts are."""
    random = np.random.default_rng(dim)
    centres = random.normal(size=(count // 30, dim))
    return normalize(
        (centres[np.arange(count) % len(centres)] + random.normal(size=(count, dim))).astype(
            np.float32
        )
    )


@given(vectors)
def test_a_code_is_near_its_component(unit: Vector) -> None:
    codes, scales = int8_codes(unit)
    assert np.abs(codes).max() <= GREATEST
    peak = np.abs(unit).max(axis=1, keepdims=True)
    assert np.all(np.abs(codes * scales[:, None] - unit) <= 0.51 * peak / GREATEST + 1e-30)


@pytest.mark.parametrize("limits", [None, NOTHING_IS_SMALL], ids=["memory", "file"])
@pytest.mark.parametrize(("count", "dim"), [(3_000, 64), (3_000, 63), (90, 3)])
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
                found = await search_vectors(
                    source,
                    FLOW,
                    VectorQuery(vector=question, model=MODEL, limit=25, min_score=least),
                )
                exact = nearest(whole, question, 25, least)
                assert [hit.score for hit in found] == pytest.approx(
                    [h.score for h in exact], abs=1e-5
                )
        found = await search_vectors(
            source, FLOW, VectorQuery(vector=unit[9], model=MODEL, limit=31)
        )
        assert [hit.key for hit in found] == keys[9:40]


@pytest.mark.parametrize("size", [0, 1, 50, 8_193, 30_000])
@pytest.mark.parametrize("digits", [1, 7])
@pytest.mark.parametrize("share", [0.02, 1.0])
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


def test_hits_that_tie_are_in_key_order_up_to_the_limit() -> None:
    hits = [Hit("d", 0.5), Hit("b", 0.25), Hit("c", 0.5), Hit("e", 0.75), Hit("a", 0.25)]
    assert ordered(hits, 4) == [Hit("e", 0.75), Hit("c", 0.5), Hit("d", 0.5), Hit("a", 0.25)]
    assert ordered([], 4) == []


def test_rows_left_out_are_never_among_the_best() -> None:
    for size in (20, 16_384):
        scores = np.full(size, -np.inf, dtype=np.float32)
        scores[[3, 9]] = 0.5, -0.5
        assert best_rows(scores, 30).tolist() == [3, 9]
        assert best_rows(scores, 5).tolist() == [3, 9]
