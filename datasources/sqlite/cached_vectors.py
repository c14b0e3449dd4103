"""The vectors of a small graph, held in memory: all are compared, many by their codes first.

To read every vector takes longer than all else of a question from some thousand on, and drives what
else is held out of the processor's cache. Codes of 4 bits a component are an eighth as long; what they
find is scored again with the vectors themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasources.sqlite.rows import best_of
from datasources.sqlite.vector_codes import LEAST_DIM, PackedHalves, halves_of
from datasources.sqlite.vector_index import best_rows
from datasources.sqlite.vector_search import OVERSAMPLING, SPARE
from datasources.types import Hit, Vector
from datasources.vectors import VectorMatrix, normalize

CODED_FROM = 3_000
"""Fewer vectors are compared as they are: that is as fast."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldVectors:
    """Vectors of one model and field. `halves` are the codes of `matrix`, where it has any."""

    matrix: VectorMatrix
    halves: PackedHalves | None

    @staticmethod
    def of(matrix: VectorMatrix) -> HeldVectors:
        coded = len(matrix.keys) >= CODED_FROM and matrix.dim >= LEAST_DIM
        return HeldVectors(matrix=matrix, halves=PackedHalves.of(*halves_of(matrix.unit)) if coded else None)

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + (0 if self.halves is None else self.matrix.unit.nbytes // 8)

    def search(self, vector: Vector, limit: int, min_score: float = 0.0) -> list[Hit]:
        """Return about the rows of greatest cosine ≥ `min_score`, with exact scores; see VectorMatrix."""
        matrix, count = self.matrix, limit * OVERSAMPLING + SPARE
        if self.halves is None or count >= len(matrix.keys) // 2:
            return matrix.search(vector, limit, min_score)
        if vector.shape != (matrix.dim,) or not np.isfinite(vector).all():
            return []
        unit = normalize(vector)
        rows = best_rows(self.halves.scores(unit), count)
        scores = matrix.unit[rows] @ unit
        good = scores >= min_score
        found: list[int] = rows[good].tolist()
        return best_of([matrix.keys[row] for row in found], scores[good], limit)
