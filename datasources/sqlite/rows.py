"""Conversions between rows and our shapes, and the best of many scores, for every part of the source."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from datasources.errors import GraphNotFound
from datasources.lexical import idf
from datasources.sqlite import statements as sql
from datasources.types import Hit, Vector, is_storable

SHIFT = 32
MAX_TIES = 1_000
"""Nodes of equal score looked at beyond a limit, so that their keys decide."""

SAMPLE = 2_048
"""Scores looked at to guess how great the best are."""

LOWEST = float(np.finfo(np.float32).min)

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


def label_of(body: bytes) -> str:
    """Return the label of a stored edge, an empty one where it has none."""
    return orjson.loads(body).get("label") or ""


def graph_row(connection: sqlite3.Connection, workspace: str, graph_key: str) -> GraphRow:
    """Read a graph's row. Raises: GraphNotFound, also for a graph of another workspace."""
    try:
        row = connection.execute(sql.GRAPH_ROW, {"key": graph_key, "workspace": workspace}).fetchone()
    except UnicodeEncodeError:  # a lone surrogate: nothing can be stored under such a key
        row = None
    if row is None:
        raise GraphNotFound(graph_key=graph_key)
    return GraphRow(*row)


def graph_row_by_id(connection: sqlite3.Connection, graph: int) -> GraphRow | None:
    """Read a graph's row; None: it was deleted."""
    row = connection.execute(sql.GRAPH_ROW_BY_ID, {"graph": graph}).fetchone()
    return None if row is None else GraphRow(*row)


def array(values: Iterable[str] | Iterable[int]) -> str:
    """Return a JSON array to bind for json_each."""
    try:
        return orjson.dumps(list(values)).decode()
    except TypeError:  # a key with a lone surrogate: nothing can be stored under it
        return orjson.dumps([v for v in values if isinstance(v, int) or is_storable(v)]).decode()


def keys_of(connection: sqlite3.Connection, rids: Sequence[int]) -> list[str]:
    """Return the keys of nodes that exist."""
    found = dict(connection.execute(sql.NODE_KEYS, {"rids": array(rids)}).fetchall())
    return [found[rid] for rid in rids]


def vector_of(blob: bytes) -> Vector:
    """Return a stored vector, read-only."""
    return np.frombuffer(blob, dtype=np.float32)


def matrix_of(blobs: Sequence[bytes], dim: int) -> Vector:
    """Return stored vectors as float32[n, dim]."""
    return np.frombuffer(b"".join(blobs), dtype=np.float32).reshape(len(blobs), dim)


def best_of(keys: Sequence[str], scores: NDArray[np.floating[Any]], limit: int) -> list[Hit]:
    """Return nodes as hits, best first, ties by key. Shapes: `scores` is [len(keys)]."""
    ordered = sorted(zip((-scores).tolist(), keys, strict=True))[:limit]
    return list(map(_as_hit, [(key, -score) for score, key in ordered]))


def best_rows(scores: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
    """Return the rows of the greatest scores, ascending, and some of those that tie with the last.

    Rows of minus infinity are left out. A guess of how great the best are, from a sample, spares
    ordering all of them; where it was wrong all are ordered.
    """
    bound = LOWEST
    if len(scores) > 4 * SAMPLE and count > 0:
        some = scores[:: len(scores) // SAMPLE]
        place = min(len(some), 8 + 2 * count * len(some) // len(scores))
        bound = max(LOWEST, float(np.partition(some, len(some) - place)[len(some) - place]))
    rows = np.flatnonzero(scores >= bound)
    if len(rows) < count and bound > LOWEST:
        rows = np.flatnonzero(scores >= LOWEST)
    if len(rows) <= count:
        return rows
    found = scores[rows]
    least = np.partition(found, len(rows) - count)[len(rows) - count]
    best = rows[found >= least]
    if len(best) <= count + MAX_TIES:
        return best
    better = rows[found > least]
    return np.sort(np.concatenate([better, rows[found == least][: count + MAX_TIES - len(better)]]))


def with_rarest(found: Mapping[str, Sequence[int]], nodes: int, most: int) -> list[int]:
    """Return so many of the nodes found by words: those whose words weigh most, of `nodes` in all."""
    rids, place = np.unique(np.concatenate(list(found.values())), return_inverse=True)
    sizes = np.array([len(of_word) for of_word in found.values()])
    weights = np.bincount(place, np.repeat(idf(nodes, sizes), sizes)).astype(np.float64, copy=False)
    chosen: list[int] = rids[best_rows(weights, most)].tolist()
    return chosen
