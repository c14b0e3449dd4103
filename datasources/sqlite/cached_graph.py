"""Reads of a small graph, whose nodes and edges are held in memory while it is unchanged in the file."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from datasources.held_reads import breadth_first
from datasources.sqlite import statements as sql
from datasources.sqlite.rows import GraphRow, label_of
from datasources.types import Direction, Edge, Link, LinkTable, Node, Subgraph, TypedLink, parse_document


@dataclass(slots=True, eq=False)
class CachedGraph:
    """The nodes and edges of one revision. Bodies become documents when they are asked for.

    `around` gives, for each node key, the numbers of its edges, ascending (edge-key order).
    """

    bodies: dict[str, bytes]
    ends: list[Link]
    edge_bodies: list[bytes]
    around: dict[str, list[int]]
    _nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    _edges: dict[int, Edge] = field(default_factory=dict[int, Edge])
    _labels: dict[int, str] = field(default_factory=dict[int, str])
    _table: LinkTable = field(init=False)
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        self._table = LinkTable.of(self.ends)
        bodies = sum(map(len, self.bodies.values())) + sum(map(len, self.edge_bodies))
        self.nbytes = 3 * bodies + 100 * len(self._table.keys) + self._table.ends.nbytes

    @staticmethod
    def load(connection: sqlite3.Connection, row: GraphRow) -> CachedGraph:
        keys: dict[int, str] = {}
        bodies: dict[str, bytes] = {}
        for rid, key, body in connection.execute(sql.ALL_NODES, row.range):
            keys[rid] = key
            bodies[key] = body
        ends: list[Link] = []
        edge_bodies: list[bytes] = []
        around: dict[str, list[int]] = {}
        for source, target, body in connection.execute(sql.ALL_EDGES, row.range):
            link = Link(keys[source], keys[target])
            around.setdefault(link.source, []).append(len(ends))
            if link.target != link.source:
                around.setdefault(link.target, []).append(len(ends))
            ends.append(link)
            edge_bodies.append(body)
        return CachedGraph(bodies=bodies, ends=ends, edge_bodies=edge_bodies, around=around)

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

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]:
        return [self.node(key) for key in dict.fromkeys(keys) if key in self.bodies]

    def links(self, keys: Sequence[str], limit: int | None, max_degree: int | None = None) -> list[Link]:
        numbers: list[int] = self._edge_numbers(keys, limit, max_degree).tolist()
        return [self.ends[number] for number in numbers]

    def link_table(self, keys: Sequence[str], limit: int | None, max_degree: int | None = None) -> LinkTable:
        """Return the edges of nodes by number; of more than the limit, see LinkTables."""
        whole = self._table
        ends = whole.ends[self._edge_numbers(keys, None, max_degree)]
        if limit is not None and len(ends) > limit:
            return self.link_table(keys, None, limit // len(keys))
        used = np.zeros(len(whole.keys), dtype=np.bool_)
        used[ends] = True
        rows = np.flatnonzero(used)
        place = np.empty(len(whole.keys), dtype=np.int64)
        place[rows] = np.arange(len(rows))
        return LinkTable(keys=[whole.keys[row] for row in rows.tolist()], ends=place[ends])

    def _edge_numbers(
        self, keys: Sequence[str], limit: int | None, max_degree: int | None
    ) -> NDArray[np.int64]:
        at_each = (self.around.get(key, ()) for key in keys)
        if max_degree is not None:
            at_each = (numbers for numbers in at_each if len(numbers) <= max_degree)
        found = np.unique(np.fromiter(itertools.chain.from_iterable(at_each), dtype=np.int64))
        return found[: None if limit is None else max(0, limit)]

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterator[TypedLink]:
        """Yield the edges of nodes with their labels; see `datasources.held_reads.EdgesOf`."""
        labels, ends = self._labels, self.ends
        few = sorted(keys, key=lambda key: len(self.around.get(key, ())))[:most] if len(keys) > most else keys
        numbers: list[int] = self._edge_numbers(few, None, max_degree).tolist()
        for number in numbers:
            label = labels.get(number)
            if label is None:
                label = labels[number] = label_of(self.edge_bodies[number])
            yield TypedLink(*ends[number], label)

    def edges_of(self, keys: Sequence[str]) -> list[Edge]:
        return [self.edge(n) for n in sorted({n for key in keys for n in self.around.get(key, ())})]

    def neighborhood(self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int) -> Subgraph:
        """Search breadth first; see GraphDataSource.get_neighborhood."""
        seeds = (key for key in keys if key in self.bodies)
        depths = breadth_first(
            seeds, lambda key: self._next(key, direction), max_depth=max_depth, limit=limit
        )
        around, ends = self.around, self.ends
        inside = sorted(
            {
                number
                for key in depths
                for number in around.get(key, ())
                if ends[number].source in depths and ends[number].target in depths
            }
        )
        return Subgraph(
            nodes=tuple(self.node(key) for key in depths),
            edges=tuple(self.edge(number) for number in inside),
            depths=depths,
        )

    def _next(self, key: str, direction: Direction) -> list[str]:
        found: list[str] = []
        for number in self.around.get(key, ()):
            source, target = self.ends[number]
            if direction != "in" and source == key:
                found.append(target)
            if direction != "out" and target == key:
                found.append(source)
        return found
