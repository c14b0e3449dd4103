"""Small conversions between rows and our shapes that every part of the source uses."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from datasources.errors import GraphNotFound
from datasources.sqlite import statements as sql
from datasources.types import Hit, Vector

SHIFT = 32
MAX_TIES = 1_000
"""Nodes of equal score looked at beyond a limit, so that their keys decide."""

SAMPLE = 2_048
"""Scores looked at to guess how great the best are."""

_as_hit: Callable[[tuple[str, float]], Hit] = partial(tuple.__new__, Hit)


@dataclass(frozen=True, slots=True)
class GraphRow:
    """What a statement needs to know of a graph. `low` and `high` are its range of row ids."""

    id: int
    revision: int
    text_version: int
    vector_version: int
    nodes: int
    edges: int = 0
    content_words: int = 0
    name_words: int = 0
    body: bytes = b""

    @property
    def low(self) -> int:
        return self.id << SHIFT

    @property
    def high(self) -> int:
        return ((self.id + 1) << SHIFT) - 1

    @property
    def range(self) -> dict[str, int]:
        return {"low": self.low, "high": self.high}


def graph_row(connection: sqlite3.Connection, workspace: str, graph_key: str) -> GraphRow:
    """Read a graph's row. Raises: GraphNotFound, also for a graph of another workspace."""
    return _found(connection, sql.GRAPH_ROW, workspace, graph_key)


def graph_versions(connection: sqlite3.Connection, workspace: str, graph_key: str) -> GraphRow:
    """Read just what tells whether something held in memory is still true. Raises: GraphNotFound."""
    return _found(connection, sql.GRAPH_VERSIONS, workspace, graph_key)


def _found(connection: sqlite3.Connection, statement: str, workspace: str, graph_key: str) -> GraphRow:
    try:
        row = connection.execute(statement, {"key": graph_key, "workspace": workspace}).fetchone()
    except UnicodeEncodeError:  # a lone surrogate: nothing can be stored under such a key
        row = None
    if row is None:
        raise GraphNotFound(graph_key=graph_key)
    return GraphRow(*row)


def array(values: Iterable[str] | Iterable[int]) -> str:
    """Return a JSON array to bind for json_each."""
    try:
        return orjson.dumps(list(values)).decode()
    except TypeError:  # a key with a lone surrogate: nothing can be stored under it
        return orjson.dumps([v for v in values if isinstance(v, int) or storable(v)]).decode()


def storable(text: str) -> bool:
    """Return whether a text can be stored at all: not one with a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def vector_of(blob: bytes) -> Vector:
    """Return a stored vector, read-only."""
    return np.frombuffer(blob, dtype=np.float32)


def matrix_of(blobs: Sequence[bytes], dim: int) -> Vector:
    """Return stored vectors as float32[n, dim]."""
    return np.frombuffer(b"".join(blobs), dtype=np.float32).reshape(len(blobs), dim)


def best_of(keys: Sequence[str], scores: NDArray[np.floating[Any]], limit: int) -> list[Hit]:
    """Return nodes as hits, best first, ties by key. Shapes: `scores` is [len(keys)]."""
    ordered = sorted(zip((-scores).tolist(), keys, strict=True))[:limit]
    return [_as_hit((key, -score)) for score, key in ordered]


def likely_bound(scores: NDArray[np.floating[Any]], count: int) -> float:
    """Guess a score that the best `count` reach and few others: it spares ordering all of them.

    It may be wrong; of few scores it is minus infinity.
    """
    if len(scores) <= 4 * SAMPLE or count <= 0:
        return -np.inf
    some = scores[:: len(scores) // SAMPLE]
    place = min(len(some), 8 + 2 * count * len(some) // len(scores))
    return float(np.partition(some, len(some) - place)[len(some) - place])


def best_among(rows: NDArray[np.int64], scores: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
    """Return the rows of the `count` best scores and of some that tie with the last, ascending.

    Shapes: `scores` is [len(rows)]; `rows` ascend.
    """
    if len(rows) <= count:
        return rows
    least = np.partition(scores, len(rows) - count)[len(rows) - count]
    best = rows[scores >= least]
    if len(best) <= count + MAX_TIES:
        return best
    better = rows[scores > least]
    return np.sort(np.concatenate([better, rows[scores == least][: count + MAX_TIES - len(better)]]))
