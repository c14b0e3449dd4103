"""Reads of a graph at one moment: of its nodes and edges as held in memory while unchanged,
or by SQL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter

import numpy as np
import orjson

from datasources.held_reads import breadth_first, page_of
from datasources.hits import NodeVector, VectorInfo
from datasources.links import Direction, Link, LinkTable, NodeChoice, TypedLink
from datasources.sqlite import statements as sql
from datasources.sqlite.index_manager import NodeTable, Rids
from datasources.sqlite.link_index import LinkIndex
from datasources.sqlite.rows import GraphRow, array, keys_of, label_of, vector_of
from datasources.text import names_of
from datasources.types import Edge, GraphStats, Node, Subgraph, is_storable, parse_document

LIGHT_EDGES = 5_000
LIGHT_BODIES = 1 << 20
"""How many edges the event loop follows by itself, and the bytes of documents
that it parses then.
"""


class NotHeld(Exception):
    """What was asked for is not in memory, or is too much for the event loop."""


@dataclass(slots=True, eq=False)
class CachedGraph:
    """The nodes and edges of one revision, both in key order. Bodies become documents
    when asked for.
    """

    bodies: dict[str, bytes]
    edge_bodies: list[bytes]
    index: LinkIndex
    _nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    _edges: dict[int, Edge] = field(default_factory=dict[int, Edge])
    _names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        bodies = sum(map(len, self.bodies.values())) + sum(map(len, self.edge_bodies))
        self.nbytes = 3 * bodies + self.index.nbytes

    @staticmethod
    def load(connection: sqlite3.Connection, row: GraphRow) -> CachedGraph:
        nodes: list[tuple[int, str, bytes]] = connection.execute(
            sql.ALL_NODES, row.range
        ).fetchall()
        edges: list[tuple[int, int, bytes]] = connection.execute(
            sql.ALL_EDGES, {"graph": row.id}
        ).fetchall()
        rids = np.array([rid for rid, _, _ in nodes], dtype=np.int64)
        bodies = {key: body for _, key, body in nodes}
        index = LinkIndex.of(list(bodies), rids, edges)
        return CachedGraph(bodies=bodies, edge_bodies=[body for _, _, body in edges], index=index)

    def node(self, key: str) -> Node:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = parse_document(Node, self.bodies[key], "nodes")
        return node

    def edge(self, number: int) -> Edge:
        edge = self._edges.get(number)
        if edge is None:
            edge = self._edges[number] = parse_document(Edge, self.edge_bodies[number], "edges")
        return edge

    def nodes(self, sheet: str | None, after: str | None, limit: int | None) -> list[Node]:
        """Return a page of nodes in key order."""
        return page_of(map(self.node, self.bodies), sheet, after, limit)

    def edges(self, sheet: str | None, after: str | None, limit: int | None) -> list[Edge]:
        """Return a page of edges in key order."""
        return page_of(map(self.edge, range(len(self.edge_bodies))), sheet, after, limit)

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]:
        return [self.node(key) for key in dict.fromkeys(keys) if key in self.bodies]

    def names(self, keys: Sequence[str]) -> dict[str, list[str]]:
        """Return what nodes are called; see LinkTables."""
        names = self._names
        for node in self.nodes_by_key([key for key in keys if key not in names]):
            names[node.key] = names_of(node.key, node.data)
        return {key: names[key] for key in keys if key in names}

    def links(
        self, keys: Sequence[str], limit: int | None, max_degree: int | None = None
    ) -> list[Link]:
        return self.index.links(self.index.numbers_at(keys, limit, max_degree))

    def link_table(self, wanted: NodeChoice) -> LinkTable:
        """Return edges to choose from."""
        return self.index.table(wanted)

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterator[TypedLink]:
        """Yield the edges of nodes with their labels; see `datasources.held_reads.EdgesOf`."""
        return self.index.typed_links(keys, max_degree, most)

    def edges_of(self, keys: Sequence[str]) -> list[Edge]:
        return [self.edge(number) for number in self.index.numbers_at(keys, None).tolist()]

    def neighborhood(
        self,
        keys: Sequence[str],
        max_depth: int,
        direction: Direction,
        limit: int,
        light: bool = False,
    ) -> Subgraph:
        """Search breadth first; see GraphDataSource.get_neighborhood. Raises: NotHeld,
        if only `light`.
        """
        index = self.index
        seeds: list[int] = index.rows_of(keys).tolist()

        def next_of(level: Sequence[int]) -> list[int]:
            reached = index.next_to(np.array(level, dtype=np.int64), direction)
            if light and len(reached) > LIGHT_EDGES:
                raise NotHeld
            return reached.tolist()

        # rows are in key order
        found = breadth_first(seeds, next_of, max_depth=max_depth, limit=limit)
        rows = np.array(list(found), dtype=np.int64)
        inside = index.numbers_inside(rows)
        depths: dict[str, int] = dict(
            zip(index.keys.take(rows).tolist(), found.values(), strict=True)
        )
        if light:
            bodies = [self.bodies[key] for key in depths if key not in self._nodes]
            bodies += [self.edge_bodies[i] for i in inside if i not in self._edges]
            if sum(map(len, bodies)) > LIGHT_BODIES:
                raise NotHeld
        return Subgraph(
            nodes=tuple(map(self.node, depths)), edges=tuple(map(self.edge, inside)), depths=depths
        )


_NEXT = {"out": sql.NEXT_OUT, "in": sql.NEXT_IN, "any": sql.NEXT_ANY}
_ALL = 2**63 - 1  # the greatest LIMIT there is


@dataclass(frozen=True, slots=True, eq=False)
class StoredGraph:
    """One moment of a graph. `table`, if there is one, knows most keys of the graph's nodes.

    `index` are its edges, where they are held; `rids` the row ids that were read at this
    moment, by key.
    """

    connection: sqlite3.Connection
    row: GraphRow
    table: NodeTable | None = None
    index: LinkIndex | None = None
    rids: dict[str, int] = field(default_factory=dict[str, int])

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

    def _at(self, statement: str, keys: Sequence[str]) -> sqlite3.Cursor:
        """Ask about the nodes or edges with these keys, each once."""
        values = {"graph": self.row.id, "keys": array(dict.fromkeys(keys))}
        return self.connection.execute(statement, values)

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]:
        return _nodes(self._at(sql.NODES_BY_KEY, keys))

    def edges_by_key(self, keys: Sequence[str]) -> list[Edge]:
        return _edges(self._at(sql.EDGES_BY_KEY, keys))

    def vector_info(self, keys: Sequence[str]) -> dict[str, VectorInfo]:
        """Return model and hash of the vectors of nodes that have one."""
        rows = self._at(sql.VECTOR_INFO, keys)
        return {key: VectorInfo(model, digest) for key, model, digest in rows}

    def vectors(self, keys: Sequence[str]) -> dict[str, NodeVector]:
        """Return the vectors of nodes that have one."""
        rows = self._at(sql.VECTORS_BY_KEY, keys)
        return {
            key: NodeVector(
                key=key,
                model=model,
                hash=digest,
                content=vector_of(content),
                name=None if name is None else vector_of(name),
            )
            for key, model, digest, content, name in rows
        }

    def names(self, keys: Sequence[str]) -> dict[str, list[str]]:
        """Return what nodes are called; see LinkTables."""
        found = (orjson.loads(body) for (body,) in self._at(sql.NODES_BY_KEY, keys))
        return {node["_key"]: names_of(node["_key"], node.get("data")) for node in found}

    def edges_of(self, keys: Sequence[str]) -> list[Edge]:
        rids = array(self._rids(keys).values())
        return _edges((body,) for _, body in self.connection.execute(sql.EDGES_OF, {"rids": rids}))

    def links(
        self, keys: Sequence[str], limit: int | None, max_degree: int | None = None
    ) -> list[Link]:
        if self.index is not None:
            return self.index.links(self.index.numbers_at(keys, limit, max_degree))
        values = {"rids": self._rids_of_degree(keys, max_degree), "limit": _most(limit)}
        return [Link(*ends) for ends in self.connection.execute(sql.LINKS_OF, values)]

    def _rids_of_degree(
        self, keys: Sequence[str], max_degree: int | None, limit: int | None = None
    ) -> str:
        rids = array(self._rids(keys).values())
        if max_degree is None:
            return rids
        values = {"rids": rids, "most": max_degree, "limit": _most(limit)}
        return array(rid for (rid,) in self.connection.execute(sql.RIDS_OF_DEGREE, values))

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterator[TypedLink]:
        """Yield the edges of nodes with their labels; see `datasources.held_reads.EdgesOf`."""
        if self.index is not None:
            yield from self.index.typed_links(keys, max_degree, most)
            return
        values = {"rids": self._rids_of_degree(keys, max_degree, most)}
        rows = sorted(self.connection.execute(sql.TYPED_LINKS_OF, values), key=itemgetter(0))
        rids = sorted({rid for row in rows for rid in row[1:3]})
        name = dict(zip(rids, self._keys(np.array(rids, dtype=np.int64)), strict=True))
        for _, source, target, body in rows:
            yield TypedLink(name[source], name[target], label_of(body))

    def link_table(self, wanted: NodeChoice) -> LinkTable:
        """Return edges to choose from."""
        if self.index is not None:
            return self.index.table(wanted)
        links = self._table_of(wanted.first, wanted.limit).led_by(wanted.keys)
        return links.joined(self._table_of(wanted.further(links), None, wanted.max_degree))

    def _table_of(
        self, keys: Sequence[str], limit: int | None, max_degree: int | None = None
    ) -> LinkTable:
        most = limit if max_degree is None else max_degree * len(keys)
        ends, places = self._ends(array(self._rids(keys).values()), most)
        is_cut = most is not None and len(places) > 2 * most
        if is_cut or (max_degree is not None and np.bincount(places).max(initial=0) > max_degree):
            share = most // len(keys) if most is not None else None
            ends, places = self._ends(self._rids_of_degree(keys, share))
        table = LinkTable(keys=self._keys(ends), ends=places.reshape(-1, 2))
        self.rids.update(zip(table.keys, ends.tolist(), strict=True))
        return table

    def _ends(self, rids: str, most: int | None = None) -> tuple[Rids, Rids]:
        """Return the nodes at the edges of some, and the places of both ends of each
        edge among these.

        Of more than `most` edges one more.
        """
        values = {"rids": rids, "limit": _most(None if most is None else most + 1)}
        found = self.connection.execute(sql.ENDS_OF, values).fetchall()
        pairs = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=2 * len(found))
        return np.unique(pairs, return_inverse=True)

    def _keys(self, rids: Rids) -> list[str]:
        """Return the keys of nodes that exist."""
        if self.table is not None:
            rows = self.table.rows(rids)
            if len(rows) == len(rids):
                return self.table.keys(rows)
        return keys_of(self.connection, rids.tolist())

    def neighborhood(
        self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int
    ) -> Subgraph:
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
        if self.index is not None:
            place = self.index.place
            known = self.index.rids
            return {key: int(known[place[key]]) for key in keys if key in place}
        rids = self.rids
        if missing := [key for key in keys if key not in rids]:
            rids.update(self._at(sql.NODE_RIDS, missing))
        return {key: rids[key] for key in keys if key in rids}


def _most(limit: int | None) -> int:
    return _ALL if limit is None else min(max(0, limit), _ALL)


def _nodes(rows: Iterable[tuple[bytes]]) -> list[Node]:
    return [parse_document(Node, body, "nodes") for (body,) in rows]


def _edges(rows: Iterable[tuple[bytes]]) -> list[Edge]:
    return [parse_document(Edge, body, "edges") for (body,) in rows]
