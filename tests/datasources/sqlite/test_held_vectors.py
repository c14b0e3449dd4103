"""Vectors held in memory: codes only spare work, what is found is what comparing all finds."""

from __future__ import annotations

import numpy as np
import pytest

from datasources.sqlite.cached_vectors import CODED_FROM, HeldVectors
from datasources.sqlite.vector_codes import LEAST_DIM
from datasources.types import Vector
from datasources.vectors import VectorMatrix

DIM = 96


def clustered(count: int, dim: int = DIM) -> Vector:
    """Return vectors in groups, as texts of a kind are: near each other, and some quite the same."""
    chance = np.random.default_rng(5)
    centres = chance.standard_normal((20, dim))
    vectors = centres[chance.integers(0, 20, count)] + 0.6 * chance.standard_normal((count, dim))
    vectors[10:40] = vectors[9]
    return vectors.astype(np.float32)


def matrix(count: int, dim: int = DIM) -> VectorMatrix:
    return VectorMatrix.build([f"n{i:05}" for i in range(count)], clustered(count, dim))


def test_many_vectors_are_found_as_if_all_were_compared() -> None:
    whole = matrix(CODED_FROM)
    held = HeldVectors.of(whole)
    assert held.halves is not None
    assert held.nbytes > whole.nbytes
    shares: list[float] = []
    for question in clustered(CODED_FROM + 40)[-40:]:
        exact, found = whole.search(question, 100, 0.1), held.search(question, 100, 0.1)
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        assert found[0].key == exact[0].key
        true = dict(whole.search(question, len(whole.keys), -1.0))
        assert [hit.score for hit in found] == pytest.approx([true[hit.key] for hit in found], abs=1e-6)
        shares.append(len({hit.key for hit in exact} & {hit.key for hit in found}) / max(1, len(exact)))
    assert np.mean(shares) >= 0.98


def test_equal_vectors_come_in_the_order_of_their_keys() -> None:
    held = HeldVectors.of(matrix(CODED_FROM))
    found = held.search(held.matrix.unit[9], 31)
    assert [hit.key for hit in found] == [f"n{i:05}" for i in range(9, 40)]


@pytest.mark.parametrize("min_score", [0.99, 2.0])
def test_none_is_found_below_the_least_score(min_score: float) -> None:
    held = HeldVectors.of(matrix(CODED_FROM))
    for hit in held.search(held.matrix.unit[200], 50, min_score):
        assert hit.score >= min_score


def test_a_question_that_cannot_be_compared_finds_nothing() -> None:
    held = HeldVectors.of(matrix(CODED_FROM))
    assert held.search(np.ones(DIM - 1, dtype=np.float32), 5) == []
    assert held.search(np.full(DIM, np.nan, dtype=np.float32), 5) == []


@pytest.mark.parametrize(("count", "dim"), [(CODED_FROM - 1, DIM), (CODED_FROM, LEAST_DIM - 1), (0, DIM)])
def test_few_or_short_vectors_are_compared_as_they_are(count: int, dim: int) -> None:
    held = HeldVectors.of(
        matrix(count, dim) if count else VectorMatrix.build([], np.zeros((0, dim), np.float32))
    )
    assert held.halves is None
    question = clustered(50, dim)[-1]
    assert held.search(question, 7) == held.matrix.search(question, 7)
