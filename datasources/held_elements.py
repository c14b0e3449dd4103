"""The documents of one graph held in memory as stored bytes, each parsed on first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar, final

from datasources.held_reads import breadth_first, page_of
from datasources.hits import Hit, SearchField, VectorQuery
from datasources.links import Direction, Link, TypedLink
from datasources.types import Edge, Node, Subgraph, parse_document

D = TypeVar("D")


@final
@dataclass(slots=True, eq=False)
class HeldElements:
    """The nodes and edges of one revision, both in key order.

    `edges_at` holds the keys of each node's edges, an edge to itself once; `ends` the nodes at the
    two ends of each edge.
    """

    node_bodies: Mapping[str, bytes]
    edge_bodies: Mapping[str, bytes]
    ends: Mapping[str, Link]
    edges_at: Mapping[str, Sequence[str]]
    _nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    _edges: dict[str, Edge] = field(default_factory=dict[str, Edge])

    @staticmethod
    def of(nodes: Mapping[str, bytes], edges: Mapping[str, tuple[Link, bytes]]) -> HeldElements:
        """Returns the graph of these documents by key, both in key order."""
        edges_at: dict[str, list[str]] = {key: [] for key in nodes}
        for key, (link, _) in edges.items():
            edges_at[link.source].append(key)
            if link.source != link.target:
                edges_at[link.target].append(key)
        return HeldElements(
            node_bodies=nodes,
            edge_bodies={key: body for key, (_, body) in edges.items()},
            ends={key: link for key, (link, _) in edges.items()},
            edges_at=edges_at,
        )

    def changed(
        self, nodes: Mapping[str, bytes | None], edges: Mapping[str, tuple[Link, bytes] | None]
    ) -> HeldElements:
        """Returns the graph with these documents put; None removes one.

        Unchanged documents are not parsed again.
        """
        if not edges and nodes.keys() <= self.node_bodies.keys() and None not in nodes.values():
            # Only documents of nodes: the edges by node take 50 ms for 30,000 edges.
            new = replace(self, node_bodies=_merged(self.node_bodies, nodes), _nodes={}, _edges={})
        else:
            old = {key: (self.ends[key], body) for key, body in self.edge_bodies.items()}
            new = HeldElements.of(_merged(self.node_bodies, nodes), _merged(old, edges))
        new._nodes.update((k, node) for k, node in self._nodes.items() if k not in nodes)
        new._edges.update((k, edge) for k, edge in self._edges.items() if k not in edges)
        return new

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

    def nodes(self, sheet: str | None, after: str | None, limit: int | None) -> list[Node]:
        return page_of(map(self.node, self.node_bodies), sheet, after, limit)

    def edges(self, sheet: str | None, after: str | None, limit: int | None) -> list[Edge]:
        return page_of(map(self.edge, self.edge_bodies), sheet, after, limit)

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]:
        return [self.node(key) for key in dict.fromkeys(keys) if key in self.node_bodies]

    def edges_by_key(self, keys: Sequence[str]) -> list[Edge]:
        return [self.edge(key) for key in dict.fromkeys(keys) if key in self.edge_bodies]

    def edges_of(self, keys: Sequence[str]) -> list[Edge]:
        return list(map(self.edge, self.edge_keys(keys)))

    def links(self, keys: Sequence[str], limit: int | None, max_degree: int | None) -> list[Link]:
        edges = self.edge_keys(keys, max_degree)
        return [self.ends[key] for key in edges[: None if limit is None else max(0, limit)]]

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterable[TypedLink]:
        nodes = sorted((k for k in keys if self.degree(k) <= max_degree), key=self.degree)
        for key in self.edge_keys(nodes[:most]):
            edge = self.edge(key)
            yield TypedLink(edge.source, edge.target, edge.label or "")

    def neighborhood(
        self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int
    ) -> Subgraph:

        def next_of(level: Sequence[str]) -> Iterable[str]:
            for key in level:
                for edge in self.edges_at[key]:
                    link = self.ends[edge]
                    if direction != "in" and link.source == key:
                        yield link.target
                    if direction != "out" and link.target == key:
                        yield link.source

        seeds = (key for key in keys if key in self.node_bodies)
        depths = breadth_first(seeds, next_of, max_depth=max_depth, limit=limit)
        inside = [
            key
            for key in self.edge_keys(depths)
            if self.ends[key].source in depths and self.ends[key].target in depths
        ]
        return Subgraph(
            nodes=tuple(map(self.node, depths)),
            edges=tuple(map(self.edge, inside)),
            depths=depths,
        )


class HeldParts(Protocol):
    """The parts of a graph held in memory, each read from the store when it is first used."""

    @property
    def elements(self) -> HeldElements: ...

    def search_text(self, terms: Sequence[str], limit: int, search_field: SearchField) -> list[Hit]:
        """Searches for the words of `datasources.text.tokenize`."""
        ...

    def search_vectors(self, query: VectorQuery) -> list[Hit]: ...


@final
@dataclass(frozen=True, slots=True)
class HeldGraphReads:
    """Implements `datasources.moment_reads.GraphReads` from memory."""

    parts: HeldParts

    def nodes(self, sheet: str | None, after: str | None, limit: int | None) -> list[Node]:
        return self.parts.elements.nodes(sheet, after, limit)

    def edges(self, sheet: str | None, after: str | None, limit: int | None) -> list[Edge]:
        return self.parts.elements.edges(sheet, after, limit)

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]:
        return self.parts.elements.nodes_by_key(keys)

    def edges_by_key(self, keys: Sequence[str]) -> list[Edge]:
        return self.parts.elements.edges_by_key(keys)

    def edges_of(self, keys: Sequence[str]) -> list[Edge]:
        return self.parts.elements.edges_of(keys)

    def links(self, keys: Sequence[str], limit: int | None, max_degree: int | None) -> list[Link]:
        return self.parts.elements.links(keys, limit, max_degree)

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterable[TypedLink]:
        return self.parts.elements.typed_links(keys, max_degree, most)

    def neighborhood(
        self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int
    ) -> Subgraph:
        return self.parts.elements.neighborhood(keys, max_depth, direction, limit)

    def search_text(self, terms: Sequence[str], limit: int, search_field: SearchField) -> list[Hit]:
        return self.parts.search_text(terms, limit, search_field)

    def search_vectors(self, query: VectorQuery) -> list[Hit]:
        return self.parts.search_vectors(query)


def _merged(old: Mapping[str, D], changes: Mapping[str, D | None]) -> dict[str, D]:
    """Returns documents in key order after these changes; None removes one."""
    merged = {key: document for key, document in old.items() if key not in changes}
    merged.update((key, document) for key, document in changes.items() if document is not None)
    return dict(sorted(merged.items())) if changes else merged
