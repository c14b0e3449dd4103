"""Reads of a graph that is too large to be held: by SQL, a word index and a vector index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import orjson

from datasources.hits import Hit, NodeVector, SearchField, VectorInfo, VectorQuery
from datasources.links import Direction, Link, TypedLink
from datasources.sqlite import statements as sql
from datasources.sqlite.index_manager import IndexManager
from datasources.sqlite.rows import GraphRow, array
from datasources.sqlite.text_index import TEXT_INDEX, search_indexed
from datasources.sqlite.vector_index import search_exactly, vector_index_kind
from datasources.types import Edge, GraphStats, Node, Subgraph, is_storable, parse_document
from datasources.vectors import VectorGroup, vector_of

_NEXT = {"out": sql.NEXT_OUT, "in": sql.NEXT_IN, "any": sql.NEXT_ANY}
_NO_LIMIT = 2**63 - 1  # the greatest LIMIT of SQLite


@final
@dataclass(frozen=True, slots=True, eq=False)
class StoredGraph:
    """Implements GraphReads from the file."""

    connection: sqlite3.Connection
    row: GraphRow
    indexes: IndexManager

    def nodes(self, sheet: str | None, after: str | None, limit: int | None) -> list[Node]:
        return _nodes(self._page(sql.NODES, sheet, after, limit))

    def edges(self, sheet: str | None, after: str | None, limit: int | None) -> list[Edge]:
        return _edges(self._page(sql.EDGES, sheet, after, limit))

    def _page(
        self, statement: str, sheet: str | None, after: str | None, limit: int | None
    ) -> Iterable[tuple[bytes]]:
        if not is_storable(sheet or "") or not is_storable(after or ""):
            return ()
        values = {"graph": self.row.id, "after": after or "", "sheet": sheet, "limit": _sql(limit)}
        return self.connection.execute(statement, values)

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]:
        return _nodes(_rows_of(self.connection, self.row, sql.NODES_BY_KEY, keys))

    def edges_by_key(self, keys: Sequence[str]) -> list[Edge]:
        return _edges(_rows_of(self.connection, self.row, sql.EDGES_BY_KEY, keys))

    def edges_of(self, keys: Sequence[str]) -> list[Edge]:
        rids = array(self._rids(keys).values())
        return _edges((body,) for _, body in self.connection.execute(sql.EDGES_OF, {"rids": rids}))

    def links(self, keys: Sequence[str], limit: int | None, max_degree: int | None) -> list[Link]:
        rids = array(self._rids(keys).values())
        if max_degree is not None:
            rids = self._of_degree(rids, max_degree, None)
        values = {"rids": rids, "limit": _sql(limit)}
        return [Link(*ends) for ends in self.connection.execute(sql.LINKS_OF, values)]

    def _of_degree(self, rids: str, max_degree: int, limit: int | None) -> str:
        values = {"rids": rids, "most": max_degree, "limit": _sql(limit)}
        return array(rid for (rid,) in self.connection.execute(sql.RIDS_OF_DEGREE, values))

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterable[TypedLink]:
        rids = self._of_degree(array(self._rids(keys).values()), max_degree, most)
        rows = self.connection.execute(sql.TYPED_LINKS_OF, {"rids": rids})
        for source, target, body in rows:
            yield TypedLink(source, target, orjson.loads(body).get("label") or "")

    def neighborhood(
        self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int
    ) -> Subgraph:
        rids = dict(list(self._rids(keys).items())[: max(0, limit)])
        depths = dict.fromkeys(rids, 0)
        level = list(rids.values())
        for depth in range(1, max_depth + 1):
            room = limit - len(depths)
            if not level or room <= 0:
                break
            # Nodes seen before may come first in key order, so the limit leaves room for them.
            values = {"rids": array(level), "limit": _sql(room + len(depths))}
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
        """Returns key → row id of the nodes that exist, in the order asked for."""
        return dict(_rows_of(self.connection, self.row, sql.NODE_RIDS, keys).fetchall())

    def search_text(self, terms: Sequence[str], limit: int, search_field: SearchField) -> list[Hit]:
        usable = self.indexes.usable(self.connection, self.row, TEXT_INDEX)
        return search_indexed(self.connection, self.row, terms, limit, search_field, usable)

    def search_vectors(self, query: VectorQuery) -> list[Hit]:
        kind = vector_index_kind(VectorGroup.of(query))
        usable = self.indexes.usable(self.connection, self.row, kind)
        if usable is None:
            return search_exactly(self.connection, self.row, query)
        index, changed = usable
        return index.search(self.connection, query, changed)


def read_stats(connection: sqlite3.Connection, row: GraphRow) -> GraphStats:
    """Returns the counts of a graph."""
    graph = {"graph": row.id}
    return GraphStats(
        nodes=row.nodes,
        edges=row.edges,
        types=dict(connection.execute(sql.TYPE_COUNTS, graph).fetchall()),
        vectors=dict(connection.execute(sql.VECTOR_COUNTS, graph).fetchall()),
    )


def read_vector_info(
    connection: sqlite3.Connection, row: GraphRow, keys: Sequence[str]
) -> dict[str, VectorInfo]:
    """Returns model and hash of the vectors of nodes that have one."""
    rows = _rows_of(connection, row, sql.VECTOR_INFO, keys)
    return {key: VectorInfo(model, digest) for key, model, digest in rows}


def read_vectors(
    connection: sqlite3.Connection, row: GraphRow, keys: Sequence[str]
) -> dict[str, NodeVector]:
    """Returns the vectors of nodes that have one."""
    return {
        key: NodeVector(
            key=key,
            model=model,
            hash=digest,
            content=vector_of(content),
            name=None if name is None else vector_of(name),
        )
        for key, model, digest, content, name in _rows_of(connection, row, sql.VECTORS_BY_KEY, keys)
    }


def _rows_of(
    connection: sqlite3.Connection, row: GraphRow, statement: str, keys: Sequence[str]
) -> sqlite3.Cursor:
    """Runs a statement for the nodes or edges with these keys, without duplicates."""
    return connection.execute(statement, {"graph": row.id, "keys": array(dict.fromkeys(keys))})


def _sql(limit: int | None) -> int:
    """Returns a limit that SQLite accepts."""
    return _NO_LIMIT if limit is None else min(max(0, limit), _NO_LIMIT)


def _nodes(rows: Iterable[tuple[bytes]]) -> list[Node]:
    return [parse_document(Node, body, "nodes") for (body,) in rows]


def _edges(rows: Iterable[tuple[bytes]]) -> list[Edge]:
    return [parse_document(Edge, body, "edges") for (body,) in rows]
