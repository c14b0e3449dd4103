"""Vector search: exact in small graphs, in large ones by an index beside the file with exact re-scoring."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasources.sqlite import statements as sql
from datasources.sqlite.node_table import Rids
from datasources.sqlite.rows import GraphRow, array, best_of, matrix_of
from datasources.sqlite.vector_build import vector_blocks, vectors_of
from datasources.sqlite.vector_index import VectorGroup, VectorIndex
from datasources.types import Hit, SearchField, Vector
from datasources.vectors import VectorMatrix, normalize

FIELDS: tuple[SearchField, ...] = ("content", "name")
OVERSAMPLING, SPARE = 3, 32
"""Candidates taken of the index for each hit asked for, and so many more; their cosines are then exact."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorQuery:
    """One search. Shapes: `vector` is float32[dim]."""

    group: VectorGroup
    vector: Vector
    limit: int
    min_score: float


def count_vectors(connection: sqlite3.Connection, row: GraphRow, group: VectorGroup) -> int:
    """Return how many vectors of a model and length a graph has."""
    values = {"graph": row.id, "model": group.model, "dim": group.dim}
    found = connection.execute(sql.VECTOR_COUNT, values).fetchone()
    return 0 if found is None else found[0]


def vector_groups(connection: sqlite3.Connection, row: GraphRow) -> list[tuple[VectorGroup, int]]:
    """Return every group of vectors of a graph and how many nodes it concerns."""
    rows = connection.execute(sql.VECTOR_GROUPS, {"graph": row.id}).fetchall()
    return [
        (VectorGroup(model=model, dim=dim, field=name), count)
        for model, dim, count in rows
        for name in FIELDS
    ]


def load_matrix(connection: sqlite3.Connection, row: GraphRow, group: VectorGroup) -> VectorMatrix:
    """Read all vectors of a small graph."""
    statement = sql.CONTENT_VECTORS if group.field == "content" else sql.NAME_VECTORS
    rows = connection.execute(statement, {**row.range, "model": group.model, "dim": group.dim}).fetchall()
    keys = _keys(connection, [rid for rid, _ in rows])
    return VectorMatrix.build([keys[rid] for rid, _ in rows], matrix_of([b for _, b in rows], group.dim))


def search_exactly(connection: sqlite3.Connection, row: GraphRow, query: VectorQuery) -> list[Hit]:
    """Scan every vector of a graph, block by block."""
    unit = normalize(query.vector)
    best: list[tuple[Rids, Vector]] = []
    for rids, vectors in vector_blocks(connection, row, query.group):
        scores = vectors @ unit
        if len(scores) > query.limit:
            kept = np.argpartition(-scores, query.limit)[: query.limit]
            rids, scores = rids[kept], scores[kept]
        best.append((rids, scores))
    if not best:
        return []
    return _stored_hits(
        connection, np.concatenate([r for r, _ in best]), np.concatenate([s for _, s in best]), query
    )


def search_index(
    connection: sqlite3.Connection, query: VectorQuery, index: VectorIndex, changed: Sequence[int]
) -> list[Hit]:
    """Ask the index, score what it names exactly, and what changed since it was made as it is stored."""
    unit = normalize(query.vector)
    hidden = index.nodes.rows(changed)
    count = min(query.limit * OVERSAMPLING + SPARE, len(index.nodes))
    rows = index.nearest(unit, count, hidden)
    return _merged(connection, query, index, rows, changed, unit)


def score_nodes(
    connection: sqlite3.Connection,
    row: GraphRow,
    query: VectorQuery,
    keys: Sequence[str],
    usable: tuple[VectorIndex, Sequence[int]] | None,
) -> list[Hit]:
    """Return the exact cosines of some nodes. `usable` is an index and the nodes that changed since."""
    values = {"graph": row.id, "keys": array(dict.fromkeys(keys))}
    wanted = [rid for _, rid in connection.execute(sql.NODE_RIDS, values)]
    unit = normalize(query.vector)
    if usable is None:
        rids, vectors = vectors_of(connection, query.group, wanted)
        return _stored_hits(connection, rids, vectors @ unit, query)
    index, changed = usable
    stale = set(changed).intersection(wanted)
    rows = index.nodes.rows([rid for rid in wanted if rid not in stale])
    return _merged(connection, query, index, rows, list(stale), unit)


def _merged(
    connection: sqlite3.Connection,
    query: VectorQuery,
    index: VectorIndex,
    rows: NDArray[np.int64],
    changed: Sequence[int],
    unit: Vector,
) -> list[Hit]:
    hits = _hits(rows, index.unit[rows] @ unit, query, index.nodes.keys)
    if not changed:
        return hits
    rids, vectors = vectors_of(connection, query.group, changed)
    both = [*hits, *_stored_hits(connection, rids, vectors @ unit, query)]
    return sorted(both, key=lambda hit: (-hit.score, hit.key))[: query.limit]


def _stored_hits(connection: sqlite3.Connection, rids: Rids, scores: Vector, query: VectorQuery) -> list[Hit]:
    def keys(some: Rids) -> list[str]:
        found = _keys(connection, some.tolist())
        return [found[rid] for rid in some.tolist()]

    return _hits(rids, scores, query, keys)


def _hits(
    numbers: NDArray[np.int64],
    scores: Vector,
    query: VectorQuery,
    keys: Callable[[NDArray[np.int64]], list[str]],
) -> list[Hit]:
    """Return the best of these nodes as hits, ties by key. `keys` tells the keys of numbers."""
    good = np.flatnonzero(scores >= query.min_score)
    if len(good) > query.limit:
        least = np.partition(scores[good], len(good) - query.limit)[len(good) - query.limit]
        good = good[scores[good] >= least]
    return best_of(keys(numbers[good]), scores[good], query.limit)


def _keys(connection: sqlite3.Connection, rids: Sequence[int]) -> dict[int, str]:
    return dict(connection.execute(sql.NODE_KEYS, {"rids": array(rids)}).fetchall())
