"""The vectors of one model and field of a graph, and the search for those nearest to a question.

A small graph's are held in memory, a large graph's lie in an index folder and are mapped into
memory. Each is kept at length 1, and as codes of 4 bits a component, which take an eighth of the
memory: all codes are compared with the question, and what they find is scored again with the
vectors themselves. What changed since an index was made is scored as it is stored, so an index that
lags behind gives no wrong score, only a slower answer.

Decision: all codes are compared, none is skipped. That takes 10 ms for a million vectors, misses
nothing, and needs no graph of neighbours, which takes a hundred times as long to make.

Decision: a vector's codes have a scale of their own. One scale for all vectors would use a small
part of the range in some hundred dimensions, and lose neighbours that are as near as those found.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numkong
import numpy as np
from numpy.typing import NDArray

from datasources.hits import FIELDS, Hit, SearchField, Vector, VectorQuery
from datasources.sqlite import statements as sql
from datasources.sqlite.index_manager import IndexKind, NodeTable, Rids, mapped
from datasources.sqlite.rows import (
    VECTOR_LOG,
    GraphRow,
    array,
    best_of,
    best_rows,
    keys_of,
    matrix_of,
)
from datasources.vectors import normalize

OVERSAMPLING, SPARE = 3, 32
"""Candidates taken for each hit asked for, and so many more; their cosines are then exact."""

CODED_FROM = 3_000
"""Fewer vectors are compared as they are: that is as fast."""

LEAST_DIM = 64
"""Vectors of fewer dimensions are not coded: 4 bits a component tell too few of them apart."""

GREATEST = 7
"""The greatest code of 4 bits."""

CUT = 0.8
"""The share of a vector's greatest component that gets the greatest code; few are greater."""

BLOCK = 4_000

Scores = NDArray[np.float32]
Int4Codes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorGroup:
    """The vectors that one index holds: of one model, length and field."""

    model: str
    dim: int
    field: SearchField

    @staticmethod
    def of(query: VectorQuery) -> VectorGroup:
        return VectorGroup(model=query.model, dim=query.vector.size, field=query.field)


def int4_codes(unit: Vector) -> tuple[Int4Codes, Scores]:
    """Return vectors in 4 bits a component, two in a byte, and what to multiply each
    one's products by.

    Shapes: float32[n, dim] → uint8[n, (dim + 1) // 2], float32[n].
    """
    peak = np.abs(unit).max(axis=1, initial=0.0)
    wanted = (peak * (CUT / GREATEST)).astype(np.float32)
    scales = np.where(wanted >= np.finfo(np.float32).tiny, wanted, np.float32(CUT / GREATEST))
    codes = np.clip(np.rint(unit / scales[:, None]), -GREATEST, GREATEST).astype(np.int8)
    if codes.shape[1] % 2:
        codes = np.pad(codes, ((0, 0), (0, 1)))
    low = np.ascontiguousarray(codes[:, 0::2]).view(np.uint8)
    high = np.ascontiguousarray(codes[:, 1::2]).view(np.uint8)
    return np.bitwise_or(low & np.uint8(15), high << np.uint8(4)), scales


@lru_cache(maxsize=100)
def _codes_of(unit: bytes) -> numkong.Tensor:
    """Return one vector in 4 bits a component: all text and names are compared with the same."""
    return numkong.Tensor(int4_codes(np.frombuffer(unit, dtype=np.float32)[None])[0], dtype="int4")


class PackedCodes:
    """Codes in the order that the processor reads fastest."""

    def __init__(self, codes: Int4Codes, scales: Scores) -> None:
        self._packed = numkong.dots_pack(codes, dtype="int4")
        self._scales = scales

    def scores(self, unit: Vector) -> Scores:
        """Return about the cosine with every vector, but for a factor they
        share. Shapes: float32[n].

        The GIL is released meanwhile.
        """
        products = np.asarray(numkong.dots_packed(_codes_of(unit.tobytes()), self._packed)).reshape(
            -1
        )
        return np.multiply(products, self._scales, dtype=np.float32)


@lru_cache(maxsize=100)
def _unit_of(vector: bytes, dtype: str) -> Vector:
    """Return a vector at length 1: all text and names are compared with the same."""
    return normalize(np.frombuffer(vector, dtype=dtype))


_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorIndex:
    """Vectors and the vector version of the graph that they are of. `codes` None: too
    few, or too short.

    Shapes: `unit` float32[n, dim], row i is the vector of row i of `nodes`.
    """

    number: int
    nodes: NodeTable
    unit: Vector
    codes: PackedCodes | None

    @property
    def nbytes(self) -> int:
        """Roughly what it occupies in memory."""
        return self.unit.nbytes * 9 // 8 + 2 * self.nodes.text.nbytes + 80 * len(self.nodes)

    def nearest(self, unit: Vector, count: int, hidden: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return about the nearest rows by their codes, in no order and without the `hidden` ones.

        From any thread. Shapes: `unit` is float32[dim] of length 1.
        """
        scores = self.unit @ unit if self.codes is None else self.codes.scores(unit)
        scores[hidden] = -np.inf
        return best_rows(scores, count)

    def search(self, query: VectorQuery, hidden: Sequence[int] = ()) -> list[Hit]:
        """Return the best nodes that are not `hidden`, by exact cosine."""
        unit = _unit_of(query.vector.tobytes(), query.vector.dtype.str)
        gone = self.nodes.rows(hidden) if hidden else _NONE
        if self.codes is None:
            rows = None
            scores = self.unit @ unit
            if hidden:
                scores[gone] = -np.inf
        else:
            rows = self.nearest(unit, SPARE + query.limit * OVERSAMPLING, gone)
            scores = self.unit.take(rows, axis=0) @ unit
        # keys are read of no more than these
        best = best_rows(scores, query.limit, query.min_score)
        return best_of(
            self.nodes.keys(best if rows is None else rows[best]), scores[best], query.limit
        )


@lru_cache(maxsize=200)
def vector_index_kind(group: VectorGroup) -> IndexKind[VectorIndex]:
    """Return how the index of a group of vectors is read and made."""
    digest = hashlib.sha256(f"{group.model}\0{group.dim}".encode()).hexdigest()[:12]
    return IndexKind(
        name=f"vector-{digest}-{group.field}",
        open=_open,
        write=lambda connection, row, path, stop: _write(connection, row, group, path, stop),
        version=lambda row: row.vector_version,
        log=VECTOR_LOG,
    )


def _open(path: Path, number: int) -> VectorIndex | None:
    try:
        nodes = NodeTable.open(path)
        unit, codes, scales = (mapped(path / f"{name}.npy") for name in ("unit", "codes", "scales"))
    except (OSError, ValueError):
        return None
    packed = (
        PackedCodes(codes[: len(nodes)], scales[: len(nodes)])
        if codes.size and len(nodes)
        else None
    )
    return VectorIndex(number=number, nodes=nodes, unit=unit[: len(nodes)], codes=packed)


def _write(
    connection: sqlite3.Connection,
    row: GraphRow,
    group: VectorGroup,
    path: Path,
    stop: Callable[[], None],
) -> None:
    """Write all vectors of a group, block by block: they need not fit into memory."""
    most = count_vectors(connection, row, group)  # not every node with a vector has one of its name

    def new(name: str, dtype: type, *shape: int) -> NDArray[Any]:
        return np.lib.format.open_memmap(
            path / f"{name}.npy", mode="w+", dtype=dtype, shape=(most, *shape)
        )

    is_coded = most >= CODED_FROM and group.dim >= LEAST_DIM
    unit = new("unit", np.float32, group.dim)
    codes = new("codes", np.uint8, (group.dim + 1) // 2 if is_coded else 0)
    scales = new("scales", np.float32)
    rids: list[Rids] = [np.zeros(0, dtype=np.int64)]
    keys: list[str] = []
    for found, vectors in vector_blocks(connection, row, group):
        stop()
        part = slice(len(keys), len(keys) + len(found))
        unit[part] = vectors
        if is_coded:
            codes[part], scales[part] = int4_codes(vectors)
        rids.append(found)
        keys.extend(keys_of(connection, found.tolist()))
    NodeTable.of(np.concatenate(rids), keys).save(path)


def load_vectors(connection: sqlite3.Connection, row: GraphRow, group: VectorGroup) -> VectorIndex:
    """Read all vectors of a small graph into memory."""
    blocks = list(vector_blocks(connection, row, group))
    rids = np.concatenate([np.zeros(0, dtype=np.int64), *(found for found, _ in blocks)])
    none = np.zeros((0, group.dim), dtype=np.float32)
    unit = np.concatenate([none, *(vectors for _, vectors in blocks)])
    is_coded = len(rids) >= CODED_FROM and group.dim >= LEAST_DIM
    return VectorIndex(
        number=row.vector_version,
        nodes=NodeTable.of(rids, keys_of(connection, rids.tolist())),
        unit=unit,
        codes=PackedCodes(*int4_codes(unit)) if is_coded else None,
    )


def vector_blocks(
    connection: sqlite3.Connection, row: GraphRow, group: VectorGroup
) -> Generator[tuple[Rids, Vector]]:
    """Yield all vectors of a group, BLOCK at a time, normalised. Shapes:
    int64[n], float32[n, dim].
    """
    cursor = connection.execute(
        sql.VECTORS[group.field], {**row.range, "model": group.model, "dim": group.dim}
    )
    while rows := cursor.fetchmany(BLOCK):
        rids = np.array([rid for rid, _ in rows], dtype=np.int64)
        yield rids, normalize(matrix_of([blob for _, blob in rows], group.dim))


def count_vectors(connection: sqlite3.Connection, row: GraphRow, group: VectorGroup) -> int:
    """Return how many nodes of a graph have vectors of a model and length."""
    values = {"graph": row.id, "model": group.model, "dim": group.dim}
    found = connection.execute(sql.VECTOR_COUNT, values).fetchone()
    return 0 if found is None else found[0]


def vector_groups(connection: sqlite3.Connection, row: GraphRow) -> list[VectorGroup]:
    """Return every group of vectors of a graph."""
    rows = connection.execute(sql.VECTOR_GROUPS, {"graph": row.id}).fetchall()
    return [
        VectorGroup(model=model, dim=dim, field=field) for model, dim in rows for field in FIELDS
    ]


def search_index(
    connection: sqlite3.Connection, query: VectorQuery, index: VectorIndex, changed: Sequence[int]
) -> list[Hit]:
    """Search an index, and the nodes that changed since it was made as they are stored."""
    hits = index.search(query, changed)
    if changed:
        hits += _score(connection, query, *_vectors_of(connection, VectorGroup.of(query), changed))
        hits = sorted(hits, key=lambda hit: (-hit.score, hit.key))[: query.limit]
    return hits


def search_exactly(connection: sqlite3.Connection, row: GraphRow, query: VectorQuery) -> list[Hit]:
    """Compare every stored vector of a graph, block by block."""
    best: list[Hit] = []
    for rids, vectors in vector_blocks(connection, row, VectorGroup.of(query)):
        best += _score(connection, query, rids, vectors)
    return sorted(best, key=lambda hit: (-hit.score, hit.key))[: query.limit]


def _score(
    connection: sqlite3.Connection, query: VectorQuery, rids: Rids, vectors: Vector
) -> list[Hit]:
    """Return the best of some nodes by exact cosine."""
    scores = vectors @ normalize(query.vector)
    rows = best_rows(scores, query.limit, query.min_score)
    return best_of(keys_of(connection, rids[rows].tolist()), scores[rows], query.limit)


def _vectors_of(
    connection: sqlite3.Connection, group: VectorGroup, rids: Sequence[int]
) -> tuple[Rids, Vector]:
    """Return the stored vectors of some nodes, normalised. Shapes: int64[n], float32[n, dim]."""
    values = {"rids": array(rids), "model": group.model, "dim": group.dim}
    rows = connection.execute(sql.VECTORS_OF[group.field], values).fetchall()
    found = np.array([rid for rid, _ in rows], dtype=np.int64)
    return found, normalize(matrix_of([blob for _, blob in rows], group.dim))
