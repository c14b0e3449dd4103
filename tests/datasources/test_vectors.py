"""The vector matrix finds exactly the nearest by cosine, however large or small the components."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from datasources.vectors import nearest, normalize
from tests.support.each_row import each_row

DIM = 4
components = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e-3])
matrices = st.integers(0, 12).flatmap(lambda n: arrays(np.float32, (n, DIM), elements=components))
vectors = arrays(np.float32, DIM, elements=components)
any_finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


def keys_for(matrix: np.ndarray) -> list[str]:
    return [f"k{i:02}" for i in range(len(matrix))]


def cosines(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    wide, other = matrix.astype(float), vector.astype(float)
    lengths = np.linalg.norm(wide, axis=1) * np.linalg.norm(other)
    return np.divide(wide @ other, lengths, out=np.zeros(len(wide)), where=lengths > 0)


@given(matrices, vectors, st.integers(0, 15), st.sampled_from([-1.0, -0.35, 0.05, 0.45]))
def test_search_equals_brute_force(
    matrix: np.ndarray, vector: np.ndarray, limit: int, min_score: float
) -> None:
    keys = keys_for(matrix)
    hits = nearest(dict(zip(keys, matrix, strict=True)), vector, limit, min_score)
    exact = dict(zip(keys, cosines(matrix, vector).tolist(), strict=True))
    sure = sorted((s for s in exact.values() if s > min_score + 1e-5), reverse=True)
    possible = [s for s in exact.values() if s > min_score - 1e-5]
    assert min(limit, len(sure)) <= len(hits) <= min(limit, len(possible))
    assert len({hit.key for hit in hits}) == len(hits)
    for hit, best in zip(hits, sure, strict=False):
        assert hit.score == pytest.approx(exact[hit.key], abs=1e-5)
        assert hit.score == pytest.approx(best, abs=1e-5)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.key))


@given(arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(0, 6)), elements=any_finite))
def test_normalised_rows_have_length_one_or_zero_and_keep_their_direction(matrix: np.ndarray) -> None:
    unit = normalize(matrix)
    assert unit.dtype == np.float32
    assert unit.shape == matrix.shape
    for row, original in zip(unit, matrix, strict=True):
        if original.any():
            assert np.linalg.norm(row.astype(float)) == pytest.approx(1.0, abs=1e-5)
            assert (np.sign(row) * np.sign(original) >= 0).all()
        else:
            assert not row.any()


@each_row(
    "vector",
    np.ones(DIM + 1, dtype=np.float32),
    np.zeros(0, dtype=np.float32),
    np.ones((1, DIM), dtype=np.float32),
    np.array([1, np.nan, 0, 0], dtype=np.float32),
    np.array([1, np.inf, 0, 0], dtype=np.float32),
)
def test_a_vector_that_cannot_be_compared_finds_nothing(vector: np.ndarray) -> None:
    assert nearest({"a": np.ones(DIM, dtype=np.float32), "b": None}, vector, 5, -1.0) == []
