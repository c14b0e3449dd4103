"""Makes the vector index file of a large graph from the stored vectors, and repairs an older one."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from usearch.index import Index

from datasources.sqlite import statements as sql
from datasources.sqlite.array_file import ArrayWriter, read_arrays, write_arrays
from datasources.sqlite.change_log import MAX_BEHIND, VECTOR_LOG
from datasources.sqlite.index_manager import IndexKind, Older
from datasources.sqlite.node_table import Rids, write_nodes
from datasources.sqlite.rows import GraphRow, array, matrix_of
from datasources.sqlite.vector_codes import LEAST_DIM, Halves, Scales, codes_of, halves_of
from datasources.sqlite.vector_index import VectorGroup, VectorIndex, open_vector_index
from datasources.types import Vector
from datasources.vectors import normalize

CONNECTIVITY = 32
EXPANSION_ADD = 256
BLOCK = 4_000
FILE_BLOCK = 16 << 20


@lru_cache(maxsize=200)
def vector_index_kind(group: VectorGroup, scanned: int) -> IndexKind[VectorIndex]:
    """Return how the index of a group of vectors is read and made; more than `scanned` are walked."""
    digest = hashlib.sha256(f"{group.model}\0{group.dim}".encode()).hexdigest()[:12]

    def write(
        connection: sqlite3.Connection,
        row: GraphRow,
        path: Path,
        older: Older,
        stop: Callable[[], None],
    ) -> None:
        with write_arrays(path) as writer:
            count = _write_vectors(connection, row, group, writer, scanned, stop)
            if count > scanned:
                _write_walk(connection, row, group, path, older, writer, stop)

    return IndexKind(
        name=f"vector-{digest}-{group.field}",
        open=lambda path, number: open_vector_index(path, number, group.dim),
        write=write,
        version=lambda row: row.vector_version,
        log=VECTOR_LOG,
        repair_at=MAX_BEHIND // 4,
    )


def _write_vectors(
    connection: sqlite3.Connection,
    row: GraphRow,
    group: VectorGroup,
    writer: ArrayWriter,
    scanned: int,
    stop: Callable[[], None],
) -> int:
    """Write the vectors and, unless they are too many to be scanned, their codes; return how many."""
    rids: list[Rids] = []
    coded: list[tuple[Halves, Scales]] = []
    count = 0
    writer.add("unit", np.zeros(0, dtype=np.float32))
    for found, vectors in vector_blocks(connection, row, group):
        stop()
        writer.add("unit", vectors)
        rids.append(found)
        count += len(found)
        coded = [*coded, halves_of(vectors)] if count <= scanned and group.dim >= LEAST_DIM else []
    writer.add("halves", np.zeros(0, dtype=np.uint8), *(halves for halves, _ in coded))
    writer.add("scales", np.zeros(0, dtype=np.float32), *(scales for _, scales in coded))
    known = np.concatenate([np.zeros(0, dtype=np.int64), *rids])
    write_nodes(writer, known, _keys(connection, known, stop))
    return count


def _keys(connection: sqlite3.Connection, rids: Rids, stop: Callable[[], None]) -> list[str]:
    keys: list[str] = []
    for start in range(0, len(rids), BLOCK):
        stop()
        some: list[int] = rids[start : start + BLOCK].tolist()
        found = dict(connection.execute(sql.NODE_KEYS, {"rids": array(some)}).fetchall())
        keys.extend(found[rid] for rid in some)
    return keys


def _write_walk(
    connection: sqlite3.Connection,
    row: GraphRow,
    group: VectorGroup,
    path: Path,
    older: Older,
    writer: ArrayWriter,
    stop: Callable[[], None],
) -> None:
    index = _repaired(connection, row, group, older) or _built(connection, row, group, stop)
    beside = path.with_suffix(
        ".walk.tmp"
    )  # usearch writes files of its own; in memory it would be there twice
    try:
        index.save(str(beside))
        del index
        with beside.open("rb") as file:
            while block := file.read(FILE_BLOCK):
                writer.add("walk", np.frombuffer(block, dtype=np.uint8))
    finally:
        beside.unlink(missing_ok=True)


def _built(
    connection: sqlite3.Connection, row: GraphRow, group: VectorGroup, stop: Callable[[], None]
) -> Index:
    index = Index(
        ndim=group.dim,
        metric="cos",
        dtype="i8",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
    )
    for rids, vectors in vector_blocks(connection, row, group):
        stop()
        index.add(rids, codes_of(vectors), threads=os.cpu_count() or 1)
    return index


def _repaired(
    connection: sqlite3.Connection, row: GraphRow, group: VectorGroup, older: Older
) -> Index | None:
    """Return an older index brought up to date, or None where a new one is to be built."""
    changed = VECTOR_LOG.changed(connection, row, older[0]) if older else None
    index = _restored(older[1], group.dim) if older and changed is not None else None
    if index is None or changed is None:
        return None
    index.remove(np.array([rid for rid in changed if rid in index], dtype=np.int64))
    rids, vectors = vectors_of(connection, group, changed)
    if len(rids):
        index.add(rids, codes_of(vectors), threads=os.cpu_count() or 1)
    return index


def _restored(path: Path, dim: int) -> Index | None:
    """Return the walkable graph of an older file as one that can be changed."""
    walk = (read_arrays(path) or {}).get("walk")
    try:
        index = None if walk is None else Index.restore(walk.data, view=False)
    except (RuntimeError, ValueError):
        return None
    if index is None or index.ndim != dim:
        return None
    index.expansion_add = EXPANSION_ADD
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
