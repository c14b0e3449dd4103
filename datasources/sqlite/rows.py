"""Conversions between rows and the shapes of `datasources`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from datasources.errors import GraphNotFound
from datasources.hits import Hit
from datasources.ranking import LOWEST, best_rows, ordered
from datasources.sqlite import statements as sql
from datasources.types import Graph, is_storable, parse_document

SHIFT = 32  # bits of a row id that number the rows of one graph

Rids = NDArray[np.int64]


@dataclass(frozen=True)
class GraphRow:
    """A row of the table `graphs`. `low` and `high` are the range of its nodes' row ids."""

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
    def size(self) -> int:
        """The number of nodes and edges of the graph."""
        return self.nodes + self.edges

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
    """Reads a graph's row. Raises: GraphNotFound, also for a graph of another workspace."""
    try:
        row = connection.execute(
            sql.GRAPH_ROW, {"key": graph_key, "workspace": workspace}
        ).fetchone()
    except UnicodeEncodeError:  # a lone surrogate: no graph can have such a key
        row = None
    if row is None:
        raise GraphNotFound(graph_key=graph_key)
    return GraphRow(*row)


def graph_row_by_id(connection: sqlite3.Connection, graph: int) -> GraphRow | None:
    """Returns a graph's row, None if the graph was deleted."""
    row = connection.execute(sql.GRAPH_ROW_BY_ID, {"graph": graph}).fetchone()
    return None if row is None else GraphRow(*row)


def array(values: Iterable[str] | Iterable[int]) -> str:
    """Returns a JSON array to bind for json_each."""
    try:
        return orjson.dumps(list(values)).decode()
    except TypeError:  # a lone surrogate: no document can have such a key
        return orjson.dumps([v for v in values if isinstance(v, int) or is_storable(v)]).decode()


def keys_of(connection: sqlite3.Connection, rids: Iterable[int]) -> dict[int, str]:
    """Returns row id → key of the nodes that exist."""
    return dict(connection.execute(sql.NODE_KEYS, {"rids": array(rids)}).fetchall())


def best_hits(
    connection: sqlite3.Connection,
    rids: Rids,
    scores: NDArray[np.floating[Any]],
    limit: int,
    lowest: float = LOWEST,
) -> list[Hit]:
    """Returns the best nodes as hits, best first, ties by key.

    Nodes that do not exist at this moment are left out: an index may be newer than the moment.
    Shapes: `scores` is [len(rids)].
    """
    rows = best_rows(scores, limit, lowest)
    best: list[int] = rids[rows].tolist()
    values: list[float] = scores[rows].tolist()
    keys = keys_of(connection, best)
    hits = [Hit(keys[rid], score) for rid, score in zip(best, values, strict=True) if rid in keys]
    return ordered(hits, limit)
