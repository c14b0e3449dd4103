"""Reads of a graph by SQL, for a graph that is not held in memory. Each works on one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

import numpy as np

from datasources.sqlite import statements as sql
from datasources.sqlite.index_files import NodeTable, Rids
from datasources.sqlite.rows import GraphRow, array, keys_of, label_of
from datasources.types import (
    Direction,
    Edge,
    GraphStats,
    Link,
    LinkTable,
    Node,
    Subgraph,
    TypedLink,
    is_storable,
    parse_document,
)

_NEXT = {"out": sql.NEXT_OUT, "in": sql.NEXT_IN, "any": sql.NEXT_ANY}
_ALL = 2**63 - 1  # the greatest LIMIT there is


@dataclass(frozen=True, slots=True, eq=False)
class StoredGraph:
    """One moment of a graph. `table`, if there is one, knows most keys of the graph's nodes."""

    connection: sqlite3.Connection
    row: GraphRow
    table: NodeTable | None = None

    def stats(self) -> GraphStats:
        graph = {"graph": self.row.id}
        return GraphStats(
            nodes=self.row.nodes,
            edges=self.row.edges,
            types=dict(self.connection.execute(sql.TYPE_COUNTS, graph).fetchall()),
            vectors=dict(self.connection.execute(sql.VECTOR_COUNTS, graph).fetchall()),
        )

    def nodes(self, sheet: str | None, after: str | None, limit: int | None) -> list[Node]:
        """Return a page of nodes in key order."""
        return _nodes(self._page(sql.NODES, sheet, after, limit))

    def edges(self, sheet: str | None, after: str | None, limit: int | None) -> list[Edge]:
        """Return a page of edges in key order."""
        return _edges(self._page(sql.EDGES, sheet, after, limit))

    def _page(
        self, statement: str, sheet: str | None, after: str | None, limit: int | None
    ) -> Iterable[tuple[bytes]]:
        if not is_storable(sheet or "") or not is_storable(after or ""):
            return ()
        values = {"graph": self.row.id, "after": after or "", "sheet": sheet, "limit": _most(limit)}
        return self.connection.execute(statement, values)

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]:
        values = {"graph": self.row.id, "keys": array(dict.fromkeys(keys))}
        return _nodes(self.connection.execute(sql.NODES_BY_KEY, values))

    def edges_of(self, keys: Sequence[str]) -> list[Edge]:
        rids = array(self._rids(keys).values())
        return _edges((body,) for _, body in self.connection.execute(sql.EDGES_OF, {"rids": rids}))

    def links(self, keys: Sequence[str], limit: int | None, max_degree: int | None = None) -> list[Link]:
        values = {"rids": self._rids_of_degree(keys, max_degree), "limit": _most(limit)}
        return [Link(*ends) for ends in self.connection.execute(sql.LINKS_OF, values)]

    def _rids_of_degree(self, keys: Sequence[str], max_degree: int | None, limit: int | None = None) -> str:
        rids = array(self._rids(keys).values())
        if max_degree is None:
            return rids
        values = {"rids": rids, "most": max_degree, "limit": _most(limit)}
        return array(rid for (rid,) in self.connection.execute(sql.RIDS_OF_DEGREE, values))

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterator[TypedLink]:
        """Yield the edges of nodes with their labels; see `datasources.held_reads.EdgesOf`."""
        values = {"rids": self._rids_of_degree(keys, max_degree, most)}
        rows = sorted(self.connection.execute(sql.TYPED_LINKS_OF, values), key=itemgetter(0))
        rids = sorted({rid for row in rows for rid in row[1:3]})
        name = dict(zip(rids, self._keys(np.array(rids, dtype=np.int64)), strict=True))
        for _, source, target, body in rows:
            yield TypedLink(name[source], name[target], label_of(body))

    def link_table(self, keys: Sequence[str], limit: int | None, max_degree: int | None = None) -> LinkTable:
        """Return the edges of nodes by number; of more than the limit, see LinkTables."""
        most = _most(None if limit is None else limit + 1)
        values = {"rids": self._rids_of_degree(keys, max_degree), "limit": most}
        found = self.connection.execute(sql.ENDS_OF, values).fetchall()
        if limit is not None and len(found) > limit:
            return self.link_table(keys, None, limit // len(keys))
        pairs = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=2 * len(found))
        ends, places = np.unique(pairs, return_inverse=True)
        return LinkTable(keys=self._keys(ends), ends=places.reshape(-1, 2))

    def _keys(self, rids: Rids) -> list[str]:
        """Return the keys of nodes that exist."""
        if self.table is not None:
            rows = self.table.rows(rids)
            if len(rows) == len(rids):
                return self.table.keys(rows)
        return keys_of(self.connection, rids.tolist())

    def neighborhood(self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int) -> Subgraph:
        """Search breadth first; see GraphDataSource.get_neighborhood."""
        rids = dict(list(self._rids(keys).items())[: max(0, limit)])
        depths = dict.fromkeys(rids, 0)
        level = list(rids.values())
        for depth in range(1, max_depth + 1):
            room = limit - len(depths)
            if not level or room <= 0:
                break
            # Nodes seen before may come first in key order: with room for them none is missed.
            values = {"rids": array(level), "limit": _most(room + len(depths))}
            reached = self.connection.execute(_NEXT[direction], values).fetchall()
            new = [(key, rid) for key, rid in reached if key not in depths][:room]
            depths.update((key, depth) for key, _ in new)
            rids.update(new)
            level = [rid for _, rid in new]
        inside = {"rids": array(rids.values())}
        bodies = dict(self.connection.execute(sql.NODE_BODIES, inside).fetchall())
        return Subgraph(
            nodes=tuple(parse_document(Node, bodies[rid], "nodes") for rid in rids.values()),
            edges=tuple(_edges(self.connection.execute(sql.EDGES_INSIDE, inside))),
            depths=depths,
        )

    def _rids(self, keys: Sequence[str]) -> dict[str, int]:
        """Return key → row id of the nodes that exist, in the order asked for."""
        values = {"graph": self.row.id, "keys": array(dict.fromkeys(keys))}
        return dict(self.connection.execute(sql.NODE_RIDS, values).fetchall())


def _most(limit: int | None) -> int:
    return _ALL if limit is None else min(max(0, limit), _ALL)


def _nodes(rows: Iterable[tuple[bytes]]) -> list[Node]:
    return [parse_document(Node, body, "nodes") for (body,) in rows]


def _edges(rows: Iterable[tuple[bytes]]) -> list[Edge]:
    return [parse_document(Edge, body, "edges") for (body,) in rows]
