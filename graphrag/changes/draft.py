"""A graph in memory, and drafts with changes that are not applied yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from datasources.types import Document, Edge, Graph, Mutation, Node
from graphrag.workers import free

D = TypeVar("D", bound=Document)


@dataclass(slots=True, kw_only=True)
class Changes:
    """The new versions of documents by key, None for a deletion. `graph` is None if it is
    unchanged.
    """

    nodes: dict[str, Node | None] = field(default_factory=dict[str, Node | None])
    edges: dict[str, Edge | None] = field(default_factory=dict[str, Edge | None])
    graph: Graph | None = None

    def __bool__(self) -> bool:
        return bool(self.nodes or self.edges or self.graph is not None)

    def mutation(self, graph_key: str) -> Mutation:
        """Returns the changes as a mutation for a store."""
        return Mutation(
            graph_key=graph_key,
            put_nodes=[node for node in self.nodes.values() if node is not None],
            put_edges=[edge for edge in self.edges.values() if edge is not None],
            delete_nodes=[key for key, node in self.nodes.items() if node is None],
            delete_edges=[key for key, edge in self.edges.items() if edge is None],
            graph=self.graph,
        )


def same_document(first: Document | None, second: Document | None) -> bool:
    """Returns whether two documents have the same stored form. Python's == does not tell 1 from
    True, and a default value from a missing one.
    """
    if first is second:
        return True
    if first is None or second is None or first != second:
        return False
    return first.to_json() == second.to_json()


def changed_documents(
    keys: Iterable[str], before: Callable[[str], D | None], after: Callable[[str], D | None]
) -> dict[str, D | None]:
    """Returns the new versions of those documents that differ."""
    return {key: after(key) for key in keys if not same_document(after(key), before(key))}


class Readable(Protocol):
    """A graph at one moment: a working copy or a draft."""

    @property
    def graph(self) -> Graph: ...

    def node(self, key: str) -> Node | None: ...

    def edge(self, key: str) -> Edge | None: ...

    def edges_of(self, node_key: str) -> list[Edge]:
        """Returns the edges from or to a node, ordered by key."""
        ...

    def iter_nodes(self) -> Iterator[Node]: ...

    def iter_edges(self) -> Iterator[Edge]: ...


class LiveState:
    """The nodes and edges of one graph, with an index of edges by node."""

    __slots__ = ("_around", "edges", "graph", "nodes")

    def __init__(self, graph: Graph, nodes: Iterable[Node], edges: Iterable[Edge]) -> None:
        self.graph = graph
        self.nodes = {node.key: node for node in nodes}
        self.edges: dict[str, Edge] = {}
        self._around: dict[str, set[str]] = {}
        for edge in edges:
            self._put_edge(edge)

    def __del__(self) -> None:
        free([*self.nodes.values(), *self.edges.values()])

    def node(self, key: str) -> Node | None:
        return self.nodes.get(key)

    def edge(self, key: str) -> Edge | None:
        return self.edges.get(key)

    def edges_of(self, node_key: str) -> list[Edge]:
        return [self.edges[key] for key in sorted(self._around.get(node_key, ()))]

    def iter_nodes(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def iter_edges(self) -> Iterator[Edge]:
        return iter(self.edges.values())

    def commit(self, changes: Changes) -> None:
        """Applies the changes."""
        if changes.graph is not None:
            self.graph = changes.graph
        for key, edge in changes.edges.items():
            self._drop_edge(key)
            if edge is not None:
                self._put_edge(edge)
        for key, node in changes.nodes.items():
            if node is None:
                self.nodes.pop(key, None)
            else:
                self.nodes[key] = node

    def _put_edge(self, edge: Edge) -> None:
        self.edges[edge.key] = edge
        for end in {edge.source, edge.target}:
            self._around.setdefault(end, set()).add(edge.key)

    def _drop_edge(self, key: str) -> None:
        edge = self.edges.pop(key, None)
        for end in {edge.source, edge.target} if edge else ():
            around = self._around[end]
            around.discard(key)
            if not around:
                del self._around[end]


class GraphDraft:
    """A graph with changes that are not applied yet; the graph below stays unchanged."""

    __slots__ = ("_below", "_edges", "_graph", "_nodes")

    def __init__(self, below: Readable) -> None:
        self._below = below
        self._nodes: dict[str, Node | None] = {}
        self._edges: dict[str, Edge | None] = {}
        self._graph: Graph | None = None

    @property
    def graph(self) -> Graph:
        return self._graph or self._below.graph

    def node(self, key: str) -> Node | None:
        return self._nodes[key] if key in self._nodes else self._below.node(key)

    def edge(self, key: str) -> Edge | None:
        return self._edges[key] if key in self._edges else self._below.edge(key)

    def edges_of(self, node_key: str) -> list[Edge]:
        by_key = {
            edge.key: edge for edge in self._below.edges_of(node_key) if edge.key not in self._edges
        }
        for edge in self._edges.values():
            if edge is not None and node_key in (edge.source, edge.target):
                by_key[edge.key] = edge
        return [by_key[key] for key in sorted(by_key)]

    def iter_nodes(self) -> Iterator[Node]:
        yield from (node for node in self._below.iter_nodes() if node.key not in self._nodes)
        yield from (node for node in self._nodes.values() if node is not None)

    def iter_edges(self) -> Iterator[Edge]:
        yield from (edge for edge in self._below.iter_edges() if edge.key not in self._edges)
        yield from (edge for edge in self._edges.values() if edge is not None)

    def put_node(self, node: Node) -> None:
        self._nodes[node.key] = node

    def put_edge(self, edge: Edge) -> None:
        self._edges[edge.key] = edge

    def delete_node(self, key: str) -> list[Edge]:
        """Deletes a node with its edges; returns the deleted edges."""
        edges = self.edges_of(key)
        for edge in edges:
            self._edges[edge.key] = None
        self._nodes[key] = None
        return edges

    def delete_edge(self, key: str) -> None:
        self._edges[key] = None

    def set_graph(self, graph: Graph) -> None:
        self._graph = graph

    def add(self, changes: Changes) -> None:
        """Adds further changes to the draft."""
        self._nodes |= changes.nodes
        self._edges |= changes.edges
        self._graph = changes.graph or self._graph

    def changes(self) -> Changes:
        """Returns the differences from the graph below."""
        return Changes(
            nodes=changed_documents(self._nodes, self._below.node, self.node),
            edges=changed_documents(self._edges, self._below.edge, self.edge),
            graph=None if same_document(self._graph, self._below.graph) else self._graph,
        )
