"""Conversions between rows and our shapes, the best of many scores, and the log of
nodes that changed.

The log says which nodes changed since an index was made, in their text or in their vectors: one row
a node, with the version at which it last changed. A write that changes more nodes than an index
would ever look through itself only raises the floor: every older index is then of no use.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from datasources.errors import GraphNotFound
from datasources.hits import Hit, Vector
from datasources.lexical import idf
from datasources.sqlite import statements as sql
from datasources.types import Graph, is_storable, parse_document

SHIFT = 32
MAX_TIES = 1_000
"""Nodes of equal score looked at beyond a limit, so that their keys decide."""

SAMPLE = 2_048
"""Scores looked at to guess how great the best are."""

LOWEST = float(np.finfo(np.float32).min)

_as_hit: Callable[[tuple[str, float]], Hit] = partial(tuple.__new__, Hit)


@dataclass(frozen=True)
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

    @cached_property
    def graph(self) -> Graph:
        """The graph's document. Raises: BadDocument."""
        return parse_document(Graph, self.body, "graphs")

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
        row = connection.execute(
            sql.GRAPH_ROW, {"key": graph_key, "workspace": workspace}
        ).fetchone()
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
    order = (-scores).argsort(kind="stable")
    values: list[float] = scores.take(order).tolist()
    hits = list(map(_as_hit, zip(map(keys.__getitem__, order.tolist()), values, strict=True)))
    if len(set(values)) < len(values):
        hits.sort(key=lambda hit: (-hit.score, hit.key))
    return hits[:limit]


def best_rows(
    scores: NDArray[np.floating[Any]], count: int, lowest: float = LOWEST
) -> NDArray[np.int64]:
    """Return the rows of the greatest scores, ascending, and some of those that tie with the last.

    Rows of less than `lowest` or of minus infinity are left out. Of many a guess of how great the
    best are, from a sample, spares ordering all of them; where it was wrong all are ordered.
    """
    bound = lowest = max(lowest, LOWEST)
    if 0 < count < len(scores) <= 4 * SAMPLE:
        bound = max(lowest, float(np.partition(scores, len(scores) - count)[len(scores) - count]))
    elif len(scores) > 4 * SAMPLE and count > 0:
        some = scores[:: len(scores) // SAMPLE]
        place = min(len(some), 8 + 2 * count * len(some) // len(scores))
        bound = max(lowest, float(np.partition(some, len(some) - place)[len(some) - place]))
    rows = np.flatnonzero(scores >= bound)
    if len(rows) < count and bound > lowest:
        rows = np.flatnonzero(scores >= lowest)
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
    """Return so many of the nodes found by words: those whose words weigh most, of
    `nodes` in all.
    """
    rids, place = np.unique(np.concatenate(list(found.values())), return_inverse=True)
    sizes = np.array([len(of_word) for of_word in found.values()])
    weights = np.bincount(place, np.repeat(idf(nodes, sizes), sizes)).astype(np.float64, copy=False)
    chosen: list[int] = rids[best_rows(weights, most)].tolist()
    return chosen


MAX_BEHIND = 2_000
"""Changes that a search looks through itself; an index that lags further behind is not used."""


class ChangeLog:
    """The log of one kind of change: the table `KIND_log`, and its floor in `graphs`."""

    def __init__(self, kind: Literal["text", "vector"]) -> None:
        self.add = f"""INSERT INTO {kind}_log (rid, graph, number) VALUES (?, ?, ?)
            ON CONFLICT (rid) DO UPDATE SET number = excluded.number"""
        self.floor = f"SELECT {kind}_log_floor FROM graphs WHERE id = :graph"
        self.raise_floor = f"UPDATE graphs SET {kind}_log_floor = :number WHERE id = :graph"
        self.since = (
            f"SELECT rid FROM {kind}_log WHERE graph = :graph AND number > :number LIMIT :limit"
        )

    def note(
        self, connection: sqlite3.Connection, graph: int, rids: Sequence[int], number: int
    ) -> None:
        """Note inside a write that nodes change with version `number`."""
        if len(rids) > MAX_BEHIND:
            connection.execute(self.raise_floor, {"graph": graph, "number": number})
        else:
            connection.executemany(self.add, ((rid, graph, number) for rid in rids))

    def changed(
        self, connection: sqlite3.Connection, row: GraphRow, number: int
    ) -> list[int] | None:
        """Return the nodes that changed after a version; None: too many, or no longer known."""
        (floor,) = connection.execute(self.floor, {"graph": row.id}).fetchone()
        if number < floor:
            return None
        values = {"graph": row.id, "number": number, "limit": MAX_BEHIND + 1}
        rows = connection.execute(self.since, values).fetchall()
        return None if len(rows) > MAX_BEHIND else [rid for (rid,) in rows]


TEXT_LOG = ChangeLog("text")
VECTOR_LOG = ChangeLog("vector")
