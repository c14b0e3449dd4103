"""Vector search: exact in small graphs, in large ones by an approximate index with exact re-scoring."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasources.sqlite import statements as sql
from datasources.sqlite.rows import GraphRow, array, matrix_of
from datasources.sqlite.vector_index import Rids, VectorGroup, VectorIndex, vector_blocks, vectors_of
from datasources.types import Hit, SearchField, Vector
from datasources.vectors import VectorMatrix, normalize

FIELDS: tuple[SearchField, ...] = ("content", "name")
OVERSAMPLING = 1.3
"""Candidates taken of the approximate index for each hit asked for; their cosines are then exact."""

MAX_SPARE = 500


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
    return _hits(connection, best, query)


def search_index(
    connection: sqlite3.Connection, query: VectorQuery, index: VectorIndex, changed: Sequence[int]
) -> list[Hit]:
    """Ask the approximate index, add what changed since it was made, and score all of it exactly."""
    spare = min(len(changed), MAX_SPARE)  # a candidate that changed may be gone, or no longer near
    near = index.search(query.vector, int(query.limit * OVERSAMPLING) + 16 + spare)
    wanted = np.union1d(near, np.array(changed, dtype=np.int64))
    rids, vectors = vectors_of(connection, query.group, wanted.tolist())
    return _hits(connection, [(rids, vectors @ normalize(query.vector))], query)


def score_nodes(
    connection: sqlite3.Connection, row: GraphRow, query: VectorQuery, keys: Sequence[str]
) -> list[Hit]:
    """Return the exact cosines of some nodes."""
    values = {"graph": row.id, "keys": array(dict.fromkeys(keys))}
    wanted = [rid for _, rid in connection.execute(sql.NODE_RIDS, values)]
    rids, vectors = vectors_of(connection, query.group, wanted)
    return _hits(connection, [(rids, vectors @ normalize(query.vector))], query)


def _hits(
    connection: sqlite3.Connection, scored: Sequence[tuple[Rids, Vector]], query: VectorQuery
) -> list[Hit]:
    found = [
        (float(score), int(rid))
        for rids, scores in scored
        for rid, score in zip(rids.tolist(), scores.tolist(), strict=True)
        if score >= query.min_score
    ]
    found.sort(key=lambda pair: -pair[0])
    found = found[: query.limit]
    keys = _keys(connection, [rid for _, rid in found])
    return sorted((Hit(keys[rid], score) for score, rid in found), key=lambda hit: (-hit.score, hit.key))


def _keys(connection: sqlite3.Connection, rids: Sequence[int]) -> dict[int, str]:
    return dict(connection.execute(sql.NODE_KEYS, {"rids": array(rids)}).fetchall())
