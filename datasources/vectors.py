"""An exact cosine index of one graph's embeddings, held in memory; knows no store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasources.lexical import best_hits
from datasources.types import Hit, Vector

Matrix = NDArray[np.float32]
LEAST_SQUARE, GREATEST_SQUARE = 1e-20, 1e20


def normalize(vectors: NDArray[np.floating[Any]]) -> Matrix:
    """Return the vectors (last axis) at length 1; a zero vector stays zero.

    Vectors of an extreme length are scaled by their greatest component first: the square of a huge
    or tiny float32 is inf or 0.
    """
    if vectors.dtype == np.float32 and vectors.size:
        squares = np.einsum("...i,...i->...", vectors, vectors)
        if squares.min() > LEAST_SQUARE and squares.max() < GREATEST_SQUARE:
            return np.divide(vectors, np.sqrt(squares)[..., None], dtype=np.float32)
    wide = np.asarray(vectors, dtype=np.float64)
    if wide.shape[-1] == 0:
        return wide.astype(np.float32)
    peak = np.abs(wide).max(axis=-1, keepdims=True)
    scaled = np.divide(wide, peak, out=np.zeros_like(wide), where=peak > 0)
    length = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.divide(scaled, length, out=scaled, where=length > 0).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorMatrix:
    """Embeddings of one model. `keys` ascend; row i of `unit` is the normalised vector of key i.

    Shapes: `unit` is float32[n, dim].
    """

    keys: list[str]
    unit: Matrix

    @staticmethod
    def build(keys: Sequence[str], vectors: Matrix) -> VectorMatrix:
        """Index the vectors of these keys, given in any order.

        Shapes: `vectors` is float32[len(keys), dim]. Raises: ValueError for another shape or a
        key given twice.
        """
        if vectors.ndim != 2 or len(vectors) != len(keys):
            raise ValueError(f"{len(keys)} keys need as many rows of vectors, not {vectors.shape}")
        if len(set(keys)) != len(keys):
            raise ValueError("a key was given twice")
        order = sorted(range(len(keys)), key=keys.__getitem__)
        if order != list(range(len(keys))):
            vectors = vectors[order]
        return VectorMatrix(keys=[keys[i] for i in order], unit=np.ascontiguousarray(normalize(vectors)))

    @property
    def dim(self) -> int:
        return self.unit.shape[1]

    @property
    def nbytes(self) -> int:
        """Roughly what the matrix occupies, by which a cache is bounded."""
        return self.unit.nbytes + sum(map(len, self.keys)) + 60 * len(self.keys)

    def scores(self, vectors: Vector) -> Matrix:
        """Return the cosine of each row with one vector or with each of a batch.

        Shapes: float32[dim] → float32[n]; float32[k, dim] → float32[k, n].
        Raises: ValueError for vectors of another length.
        """
        if vectors.shape[-1] != self.dim:
            raise ValueError(f"the vectors have {vectors.shape[-1]} dimensions, the matrix has {self.dim}")
        return normalize(vectors) @ self.unit.T

    def search(self, vector: Vector, limit: int, min_score: float = 0.0) -> list[Hit]:
        """Return the rows of greatest cosine ≥ `min_score`, best first, ties by key.

        A vector of another length, or with an infinite or undefined component, finds nothing.
        """
        if vector.shape != (self.dim,) or not np.isfinite(vector).all():
            return []
        scores = self.scores(vector)
        return best_hits(self.keys, scores, limit, candidates=np.flatnonzero(scores >= min_score))
