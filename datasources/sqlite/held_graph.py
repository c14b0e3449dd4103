"""Reads of a graph that is held whole in memory: documents, edges by node, words and vectors.

Each part is loaded from the file on first use and again after a change. Documents are kept as
stored bytes and parsed on first use.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import final

from datasources.held_reads import breadth_first, page_of
from datasources.hits import Hit, SearchField, VectorQuery
from datasources.links import Direction, Link, TypedLink
from datasources.sqlite import statements as sql
from datasources.sqlite.cache import Cache
from datasources.sqlite.held_words import HeldWords
from datasources.sqlite.rows import GraphRow
from datasources.sqlite.vector_index import HeldVectors, VectorGroup
from datasources.types import Edge, Node, Subgraph, parse_document


@final
@dataclass(slots=True, eq=False)
class GraphElements:
    """The nodes and edges of one revision, both in key order.

    `edges_at` holds the keys of each node's edges, an edge to itself once; `ends` the nodes at the
    two ends of each edge.
    """

    node_bodies: dict[str, bytes]
    edge_bodies: dict[str, bytes]
    ends: dict[str, Link]
    edges_at: dict[str, list[str]]
    _nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    _edges: dict[str, Edge] = field(default_factory=dict[str, Edge])

    @staticmethod
    def load(connection: sqlite3.Connection, row: GraphRow) -> GraphElements:
        nodes = connection.execute(sql.ALL_NODES, row.range).fetchall()
        edges = connection.execute(sql.ALL_EDGES, {"graph": row.id}).fetchall()
        keys: dict[int, str] = {rid: key for rid, key, _ in nodes}
        edges_at: dict[str, list[str]] = {key: [] for key in keys.values()}
        ends: dict[str, Link] = {}
        for key, source, target, _ in edges:
            link = ends[key] = Link(keys[source], keys[target])
            edges_at[link.source].append(key)
            if source != target:
                edges_at[link.target].append(key)
        return GraphElements(
            node_bodies={key: body for _, key, body in nodes},
            edge_bodies={key: body for key, _, _, body in edges},
            ends=ends,
            edges_at=edges_at,
        )

    @property
    def nbytes(self) -> int:
        """An estimate of the bytes in memory once all documents are parsed."""
        bodies = (*self.node_bodies.values(), *self.edge_bodies.values())
        return 3 * sum(map(len, bodies)) + 400 * len(bodies)

    def node(self, key: str) -> Node:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = parse_document(Node, self.node_bodies[key], "nodes")
        return node

    def edge(self, key: str) -> Edge:
        edge = self._edges.get(key)
        if edge is None:
            edge = self._edges[key] = parse_document(Edge, self.edge_bodies[key], "edges")
        return edge

    def degree(self, key: str) -> int:
        return len(self.edges_at.get(key, ()))

    def edge_keys(self, nodes: Iterable[str], max_degree: int | None = None) -> list[str]:
        """Returns the keys of the edges of nodes, in order, without duplicates.

        Nodes with more than `max_degree` edges are skipped.
        """
        edges_at = (self.edges_at.get(key, ()) for key in nodes)
        return sorted(
            {
                key
                for keys in edges_at
                if max_degree is None or len(keys) <= max_degree
                for key in keys
            }
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class HeldGraphReads:
    """Implements GraphReads from memory."""

    connection: sqlite3.Connection
    row: GraphRow
    cache: Cache

    @property
    def _documents(self) -> GraphElements:
        return self.cache.get(
            ("documents", self.row.id),
            self.row.revision,
            lambda _: GraphElements.load(self.connection, self.row),
        )

    def nodes(self, sheet: str | None, after: str | None, limit: int | None) -> list[Node]:
        documents = self._documents
        return page_of(map(documents.node, documents.node_bodies), sheet, after, limit)

    def edges(self, sheet: str | None, after: str | None, limit: int | None) -> list[Edge]:
        documents = self._documents
        return page_of(map(documents.edge, documents.edge_bodies), sheet, after, limit)

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]:
        documents = self._documents
        return [documents.node(key) for key in dict.fromkeys(keys) if key in documents.node_bodies]

    def edges_by_key(self, keys: Sequence[str]) -> list[Edge]:
        documents = self._documents
        return [documents.edge(key) for key in dict.fromkeys(keys) if key in documents.edge_bodies]

    def edges_of(self, keys: Sequence[str]) -> list[Edge]:
        documents = self._documents
        return list(map(documents.edge, documents.edge_keys(keys)))

    def links(self, keys: Sequence[str], limit: int | None, max_degree: int | None) -> list[Link]:
        documents = self._documents
        edges = documents.edge_keys(keys, max_degree)
        return [documents.ends[key] for key in edges[: None if limit is None else max(0, limit)]]

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterable[TypedLink]:
        documents = self._documents
        nodes = sorted((k for k in keys if documents.degree(k) <= max_degree), key=documents.degree)
        for key in documents.edge_keys(nodes[:most]):
            edge = documents.edge(key)
            yield TypedLink(edge.source, edge.target, edge.label or "")

    def neighborhood(
        self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int
    ) -> Subgraph:
        documents = self._documents

        def next_of(level: Sequence[str]) -> Iterable[str]:
            for key in level:
                for edge in documents.edges_at[key]:
                    link = documents.ends[edge]
                    if direction != "in" and link.source == key:
                        yield link.target
                    if direction != "out" and link.target == key:
                        yield link.source

        seeds = (key for key in keys if key in documents.node_bodies)
        depths = breadth_first(seeds, next_of, max_depth=max_depth, limit=limit)
        inside = [
            key
            for key in documents.edge_keys(depths)
            if documents.ends[key].source in depths and documents.ends[key].target in depths
        ]
        return Subgraph(
            nodes=tuple(map(documents.node, depths)),
            edges=tuple(map(documents.edge, inside)),
            depths=depths,
        )

    def search_text(self, terms: Sequence[str], limit: int, search_field: SearchField) -> list[Hit]:
        words = self.cache.get(
            ("words", self.row.id, search_field),
            self.row.text_version,
            self._loaded_words(search_field),
        )
        return words.index.search(terms, limit)

    def _loaded_words(self, search_field: SearchField) -> Callable[[HeldWords | None], HeldWords]:
        return lambda older: HeldWords.load(self.connection, self.row, search_field, older)

    def search_vectors(self, query: VectorQuery) -> list[Hit]:
        group = VectorGroup.of(query)
        vectors = self.cache.get(
            ("vectors", self.row.id, group),
            self.row.vector_version,
            lambda _: HeldVectors.load(self.connection, self.row, group),
        )
        return vectors.search(self.connection, query)
