"""The vector index of a large graph: a file beside the database, mapped into memory.

It holds every vector at length 1, and what finds candidates among them fast: codes of 4 bits a
component, all of which are compared, or for millions of vectors a navigable graph of codes of 8
bits, which is walked. What either finds is scored again with the vectors themselves, and what
changed since the file was made is scored as it is stored, so a file that lags behind gives no wrong
score, only a slower answer.

Decision: codes are compared one and all for as long as that takes no more than a few milliseconds.
A walk that misses no more takes longer, and its graph takes a hundred times as long to make.

Source: Malkov & Yashunin, "Efficient and robust approximate nearest neighbor search using
Hierarchical Navigable Small World graphs" (2018), as implemented by usearch.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

from datasources.sqlite.array_file import read_arrays
from datasources.sqlite.node_table import NodeTable
from datasources.sqlite.rows import best_among, likely_bound
from datasources.sqlite.vector_codes import PackedHalves, codes_of
from datasources.types import SearchField, Vector

EXPANSION_SEARCH = 1024
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorGroup:
    """The vectors that one index holds: of one model, length and field."""

    model: str
    dim: int
    field: SearchField


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorIndex:
    """An opened file and the vector version of the graph that it knows.

    Shapes: `unit` float32[n, dim], row i is the vector of row i of `nodes`.
    """

    number: int
    nodes: NodeTable
    unit: Vector
    halves: PackedHalves | None
    walk: Index | None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def nearest(self, unit: Vector, count: int, hidden: Rows) -> Rows:
        """Return about the nearest rows, in no order and without the `hidden` ones. From any thread.

        Shapes: `unit` is float32[dim] of length 1.
        """
        if self.walk is not None:
            if not len(self.walk):  # usearch refuses to look in nothing
                return np.zeros(0, dtype=np.int64)
            with self._lock:  # two searches must not share the index's scratch space
                matches: Any = self.walk.search(codes_of(unit[None])[0], count + len(hidden), threads=1)
            found = self.nodes.rows(matches.keys.astype(np.int64))
        else:
            scores = self.unit @ unit if self.halves is None else self.halves.scores(unit)
            scores[hidden] = -np.inf
            found = best_rows(scores, count)
        return found[~np.isin(found, hidden)] if len(hidden) else found


def best_rows(scores: NDArray[np.float32], count: int) -> Rows:
    """Return the rows of the greatest scores, ascending, and those that tie with the last, within bounds."""
    if len(scores) <= count:
        return np.flatnonzero(scores > -np.inf)
    rows = np.flatnonzero(scores >= likely_bound(scores, count))
    if len(rows) < count:
        rows = np.arange(len(scores))
    best = best_among(rows, scores[rows], count)
    return best[scores[best] > -np.inf]


def open_vector_index(path: Path, number: int, dim: int) -> VectorIndex | None:
    """Open a file; None when it is damaged, or of vectors of another length."""
    arrays = read_arrays(path)
    try:
        return None if arrays is None else _of(arrays, number, dim)
    except (KeyError, ValueError, RuntimeError):
        return None


def _of(arrays: dict[str, NDArray[Any]], number: int, dim: int) -> VectorIndex | None:
    nodes = NodeTable.of(arrays)
    unit = arrays["unit"]
    if unit.size != len(nodes) * dim:
        return None
    walk = arrays.get("walk")
    index = None if walk is None else Index.restore(walk.data, view=True)
    if walk is not None and (index is None or index.ndim != dim):
        return None
    if index is not None:
        index.expansion_search = EXPANSION_SEARCH
    return VectorIndex(
        number=number,
        nodes=nodes,
        unit=unit.reshape(-1, dim),
        halves=PackedHalves.of(arrays["halves"].reshape(-1, (dim + 1) // 2), arrays["scales"]),
        walk=index,
    )
