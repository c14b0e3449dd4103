"""The approximate vector index of a large graph: a file beside the database, never trusted alone.

The file's name says what it holds: database, graph, model, field, and the vector version of the
graph that it knows. What changed since then is searched exactly, so an index that lags behind
gives no wrong answer, only a slower one; it is brought up to date in the background and put in
place by renaming. A missing or unreadable file is built anew.

Source: Malkov & Yashunin, "Efficient and robust approximate nearest neighbor search using
Hierarchical Navigable Small World graphs" (2018), as implemented by usearch.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

from datasources.sqlite import statements as sql
from datasources.sqlite.rows import GraphRow, array, matrix_of
from datasources.types import SearchField, Vector
from datasources.vectors import normalize

FORMAT = 1
CONNECTIVITY = 32
EXPANSION_ADD = 200
EXPANSION_SEARCH = 512
BLOCK = 20_000
LEFTOVER_S = 3600.0
MAX_BEHIND = 2_000
"""Changes that a search looks through itself; an index that lags further behind is not used."""

REPAIR_AT = MAX_BEHIND // 4
"""Changes at which a search asks for the index to be brought up to date."""

Rids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexName:
    """What one index is of."""

    identity: str
    graph: int
    model: str
    dim: int
    field: SearchField

    @property
    def stem(self) -> str:
        model = hashlib.sha256(f"{self.model}\0{self.dim}".encode()).hexdigest()[:12]
        return f"v{FORMAT}-{self.identity[:12]}-{self.graph}-{model}-{self.field}"


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


class IndexFiles:
    """The folder of index files of one database."""

    def __init__(self, database: Path) -> None:
        self.folder = database.with_name(database.name + "-vectors")

    def open(self, name: IndexName) -> VectorIndex | None:
        """Open the newest readable file of an index, mapped into memory; None when there is none."""
        return self._open(name, view=True)

    def load(self, name: IndexName) -> VectorIndex | None:
        """Read the newest readable file of an index into memory, to change it."""
        return self._open(name, view=False)

    def newest(self, name: IndexName) -> int:
        """Return the vector version of the newest file of an index, or -1."""
        return next((number for number, _ in self._files(name)), -1)

    def _open(self, name: IndexName, *, view: bool) -> VectorIndex | None:
        for number, path in self._files(name):
            try:
                index = Index.restore(str(path), view=view)
            except (RuntimeError, ValueError, OSError):
                index = None
            if index is None or index.ndim != name.dim:
                path.unlink(missing_ok=True)  # damaged: it will be built again
                continue
            index.expansion_search = EXPANSION_SEARCH
            return VectorIndex(index=index, number=number)
        return None

    def save(self, name: IndexName, index: Index, number: int) -> VectorIndex | None:
        """Put a built index in place; older files of it are removed. Returns it as reopened."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name.stem}-{number}.usearch"
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        index.save(str(temporary))
        temporary.replace(path)
        for older, old_path in self._files(name):
            if older < number:
                old_path.unlink(missing_ok=True)
        return self.open(name)

    def remove_leftovers(self) -> None:
        """Remove what a process left behind that was killed while it saved."""
        old = time.time() - LEFTOVER_S
        for path in self.folder.glob("*.tmp"):
            with suppress(OSError):
                if path.stat().st_mtime < old:
                    path.unlink()

    def remove_graph(self, identity: str, graph: int) -> None:
        """Remove every index file of a deleted graph."""
        for path in self.folder.glob(f"v*-{identity[:12]}-{graph}-*.usearch"):
            path.unlink(missing_ok=True)

    def _files(self, name: IndexName) -> list[tuple[int, Path]]:
        found: list[tuple[int, Path]] = []
        for path in self.folder.glob(f"{name.stem}-*.usearch"):
            number = path.stem.rpartition("-")[2]
            if number.isdigit():
                found.append((int(number), path))
        return sorted(found, reverse=True)


def build(
    connection: sqlite3.Connection,
    row: GraphRow,
    name: IndexName,
    progress: Callable[[int], None] = lambda _done: None,
) -> Index:
    """Build an index of all stored vectors. `progress` is told how many are in, and may raise to stop."""
    index = new_index(name.dim)
    done = 0
    for rids, vectors in vector_blocks(connection, row, name):
        index.add(rids, vectors, threads=os.cpu_count() or 1)
        done += len(rids)
        progress(done)
    return index


def repair(connection: sqlite3.Connection, name: IndexName, index: Index, changed: Sequence[int]) -> None:
    """Bring an index held in memory up to date with the nodes whose vectors changed."""
    index.remove(np.array([rid for rid in changed if rid in index], dtype=np.int64))
    rids, vectors = vectors_of(connection, name, changed)
    if len(rids):
        index.add(rids, vectors, threads=os.cpu_count() or 1)


def new_index(dim: int) -> Index:
    """Return an empty index for unit vectors."""
    return Index(
        ndim=dim,
        metric="cos",
        dtype="i8",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
        expansion_search=EXPANSION_SEARCH,
    )


def vector_blocks(connection: sqlite3.Connection, row: GraphRow, name: IndexName) -> Any:
    """Yield (row ids, float32[n, dim]) of all vectors of an index, BLOCK at a time, normalised."""
    statement = sql.CONTENT_VECTORS if name.field == "content" else sql.NAME_VECTORS
    cursor = connection.execute(statement, {**row.range, "model": name.model, "dim": name.dim})
    while rows := cursor.fetchmany(BLOCK):
        rids = np.array([rid for rid, _ in rows], dtype=np.int64)
        yield rids, normalize(matrix_of([blob for _, blob in rows], name.dim))


def vectors_of(connection: sqlite3.Connection, name: IndexName, rids: Sequence[int]) -> tuple[Rids, Vector]:
    """Return the stored vectors of some nodes, normalised. Shapes: int64[n], float32[n, dim]."""
    statement = sql.CONTENT_VECTORS_OF if name.field == "content" else sql.NAME_VECTORS_OF
    values = {"rids": array(rids), "model": name.model, "dim": name.dim}
    rows = connection.execute(statement, values).fetchall()
    found = np.array([rid for rid, _ in rows], dtype=np.int64)
    return found, normalize(matrix_of([blob for _, blob in rows], name.dim))


def changed_since(connection: sqlite3.Connection, graph: int, number: int) -> list[int] | None:
    """Return the nodes whose vectors changed after a vector version; None: too many, or not known."""
    (floor,) = connection.execute(sql.VECTOR_LOG_FLOOR, {"graph": graph}).fetchone()
    if number < floor:
        return None
    values = {"graph": graph, "number": number, "limit": MAX_BEHIND + 1}
    rows = connection.execute(sql.VECTOR_LOG_SINCE, values).fetchall()
    return None if len(rows) > MAX_BEHIND else [rid for (rid,) in rows]
