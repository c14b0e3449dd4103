"""The approximate vector index of a large graph: a file beside the database, never trusted alone.

What it finds is scored again with the stored vectors, and what changed since it was made is
scored as well, so an index that lags behind gives no wrong score, only a slower answer.

Source: Malkov & Yashunin, "Efficient and robust approximate nearest neighbor search using
Hierarchical Navigable Small World graphs" (2018), as implemented by usearch.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import MAX_BEHIND, VECTOR_LOG
from datasources.sqlite.keeper import IndexKind, Older
from datasources.sqlite.rows import GraphRow, array, matrix_of
from datasources.types import SearchField, Vector
from datasources.vectors import normalize

CONNECTIVITY = 32
EXPANSION_ADD = 128
EXPANSION_SEARCH = 512
BLOCK = 20_000

Rids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorGroup:
    """The vectors that one index holds: of one model, length and field."""

    model: str
    dim: int
    field: SearchField


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorIndex:
    """An opened index and the vector version of the graph that it knows."""

    index: Index
    number: int
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def search(self, vector: Vector, count: int) -> Rids:
        """Return the row ids of about the nearest `count` vectors. May be called from any thread."""
        with self._lock:  # two searches must not share the index's scratch space
            found: Any = self.index.search(normalize(vector), count, threads=1)
        return np.asarray(found.keys, dtype=np.int64)


@lru_cache(maxsize=200)
def vector_index_kind(group: VectorGroup) -> IndexKind[VectorIndex]:
    """Return how the index of a group of vectors is read and made."""
    digest = hashlib.sha256(f"{group.model}\0{group.dim}".encode()).hexdigest()[:12]

    def open_index(path: Path, number: int) -> VectorIndex | None:
        index = _restore(path, group.dim, view=True)
        return None if index is None else VectorIndex(index=index, number=number)

    def write(
        connection: sqlite3.Connection,
        row: GraphRow,
        path: Path,
        older: Older,
        stop: Callable[[], None],
    ) -> None:
        index = _repaired(connection, row, group, older) or _built(connection, row, group, stop)
        index.save(str(path))

    return IndexKind(
        name=f"vector-{digest}-{group.field}",
        open=open_index,
        write=write,
        version=lambda row: row.vector_version,
        log=VECTOR_LOG,
        repair_at=MAX_BEHIND // 4,
    )


def _restore(path: Path, dim: int, *, view: bool) -> Index | None:
    try:
        index = Index.restore(str(path), view=view)
    except (RuntimeError, ValueError, OSError):
        return None
    if index is None or index.ndim != dim:
        return None
    index.expansion_search = EXPANSION_SEARCH
    index.expansion_add = EXPANSION_ADD
    return index


def _built(
    connection: sqlite3.Connection, row: GraphRow, group: VectorGroup, stop: Callable[[], None]
) -> Index:
    index = Index(
        ndim=group.dim,
        metric="cos",
        dtype="i8",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
        expansion_search=EXPANSION_SEARCH,
    )
    for rids, vectors in vector_blocks(connection, row, group):
        stop()
        index.add(rids, vectors, threads=os.cpu_count() or 1)
    return index


def _repaired(
    connection: sqlite3.Connection, row: GraphRow, group: VectorGroup, older: Older
) -> Index | None:
    """Return an older index brought up to date, or None where a new one is to be built."""
    changed = VECTOR_LOG.changed(connection, row, older[0]) if older else None
    index = _restore(older[1], group.dim, view=False) if older and changed is not None else None
    if index is None or changed is None:
        return None
    index.remove(np.array([rid for rid in changed if rid in index], dtype=np.int64))
    rids, vectors = vectors_of(connection, group, changed)
    if len(rids):
        index.add(rids, vectors, threads=os.cpu_count() or 1)
    return index


def vector_blocks(
    connection: sqlite3.Connection, row: GraphRow, group: VectorGroup
) -> Generator[tuple[Rids, Vector]]:
    """Yield all vectors of a group, BLOCK at a time, normalised. Shapes: int64[n], float32[n, dim]."""
    statement = sql.CONTENT_VECTORS if group.field == "content" else sql.NAME_VECTORS
    cursor = connection.execute(statement, {**row.range, "model": group.model, "dim": group.dim})
    while rows := cursor.fetchmany(BLOCK):
        rids = np.array([rid for rid, _ in rows], dtype=np.int64)
        yield rids, normalize(matrix_of([blob for _, blob in rows], group.dim))


def vectors_of(
    connection: sqlite3.Connection, group: VectorGroup, rids: Sequence[int]
) -> tuple[Rids, Vector]:
    """Return the stored vectors of some nodes, normalised. Shapes: int64[n], float32[n, dim]."""
    statement = sql.CONTENT_VECTORS_OF if group.field == "content" else sql.NAME_VECTORS_OF
    values = {"rids": array(rids), "model": group.model, "dim": group.dim}
    rows = connection.execute(statement, values).fetchall()
    found = np.array([rid for rid, _ in rows], dtype=np.int64)
    return found, normalize(matrix_of([blob for _, blob in rows], group.dim))
