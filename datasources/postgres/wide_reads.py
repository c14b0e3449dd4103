"""Reads of all graphs of a workspace: nodes that use a value, and search.

Words are searched in all graphs as if they were one. Vectors of small graphs are compared together
in memory; a large graph is searched by its own index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from datasources.cache import Cache
from datasources.everywhere import FoundNode, NodeName, WideHit, WideHits
from datasources.hits import SearchField, Vector, VectorQuery
from datasources.postgres import statements as sql
from datasources.postgres.graph_header import is_text, limited, texts
from datasources.postgres.graph_in_tables import find_words
from datasources.postgres.server_pool import Row, Session
from datasources.search import SearchRequest
from datasources.text import tokenize
from datasources.types import Node, parse_document
from datasources.vectors import can_match, matrix_of, normalize

MAX_VECTORS = 100_000  # vectors of small graphs that are compared

Search = Callable[[str, VectorQuery], Sequence[tuple[str, float]]]
"""Searches one graph, given by its key."""


class WorkspaceGraph(NamedTuple):
    """A graph of a workspace."""

    id: int
    key: str
    nodes: int
    edges: int
    content_words: int
    name_words: int
    vectors_version: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WideReads:
    """A workspace: all of its graphs, or those named. Graphs of up to `small` nodes and edges are
    compared together.
    """

    session: Session
    cache: Cache
    workspace: str
    graphs: Sequence[str] | None
    small: int
    losses: int

    def _graphs(self) -> list[WorkspaceGraph]:
        chosen = None if self.graphs is None else texts(self.graphs)
        values = {"workspace": self.workspace, "graphs": chosen}
        return [WorkspaceGraph(*row) for row in self.session.rows(sql.WIDE_GRAPHS, values)]

    def users(self, entries: Sequence[str], limit: int) -> list[FoundNode]:
        """Returns the nodes that have one of the entries, by graph and key."""
        values = {
            "workspace": self.workspace,
            "graphs": None if self.graphs is None else texts(self.graphs),
            "entries": texts(entries),
            "limit": limited(limit),
        }
        return [_found_node(*row) for row in self.session.rows(sql.USERS, values)]

    def nodes(self, names: Sequence[NodeName]) -> dict[NodeName, FoundNode]:
        """Returns the nodes that exist."""
        values = {
            "workspace": self.workspace,
            "graphs": [graph for graph, _ in names],
            "keys": [key for _, key in names],
        }
        found = [_found_node(*row) for row in self.session.rows(sql.WIDE_NODES, values)]
        return {(node.graph_key, node.node.key): node for node in found}

    def search(self, request: SearchRequest, search_graph: Search) -> WideHits:
        """Searches by words and by vector. `search_graph` searches a large graph by vector."""
        graphs = self._graphs()
        return WideHits(
            text=self._find_words(request, "content", graphs),
            name=self._find_words(request, "name", graphs),
            vector=self._find_near(request, "content", graphs, search_graph),
            name_vector=self._find_near(request, "name", graphs, search_graph),
        )

    def _find_words(
        self, request: SearchRequest, search_field: SearchField, graphs: Sequence[WorkspaceGraph]
    ) -> list[WideHit]:
        keys = {graph.id: graph.key for graph in graphs}
        words = (
            graph.content_words if search_field == "content" else graph.name_words
            for graph in graphs
        )
        scores = find_words(
            self.session,
            workspace=self.workspace,
            graphs=list(keys),
            words=sorted(set(tokenize(request.query))),
            search_field=search_field,
            nodes=sum(graph.nodes for graph in graphs),
            total_words=sum(words),
        )
        hits = (
            ((keys[graph], key), score) for (graph, key), score in scores.items() if graph in keys
        )
        return _best(hits, request.limit)

    def _find_near(
        self,
        request: SearchRequest,
        search_field: SearchField,
        graphs: Sequence[WorkspaceGraph],
        search_graph: Search,
    ) -> list[WideHit]:
        if request.vector is None:
            return []
        model, vector = request.vector
        query = VectorQuery(vector=vector, model=model, limit=request.limit, field=search_field)
        if not can_match(query) or not is_text(model):
            return []
        small = [graph for graph in graphs if graph.nodes + graph.edges <= self.small]
        held = self.cache.get(
            ("wide vectors", self.workspace, model, vector.size, search_field, self._chosen(small)),
            (self.losses, *((graph.id, graph.vectors_version) for graph in small)),
            lambda _: self._vectors(model, vector.size, search_field, small),
        )
        scores = (held.unit @ normalize(vector)).tolist()
        hits: list[WideHit] = [
            (name, score) for name, score in zip(held.names, scores, strict=True) if score > -1e-9
        ]
        for graph in graphs:
            if graph.nodes + graph.edges > self.small:
                hits += [((graph.key, key), score) for key, score in search_graph(graph.key, query)]
        return _best(hits, request.limit)

    def _chosen(self, graphs: Sequence[WorkspaceGraph]) -> tuple[str, ...] | None:
        return None if self.graphs is None else tuple(graph.key for graph in graphs)

    def _vectors(
        self, model: str, dim: int, search_field: SearchField, graphs: Sequence[WorkspaceGraph]
    ) -> _WorkspaceVectors:
        keys = {graph.id: graph.key for graph in graphs}
        values = {"graphs": list(keys), "model": model, "dim": dim, "most": MAX_VECTORS}
        statement = sql.WIDE_VECTORS.format(vector=search_field)
        rows = self.session.rows(statement, values)
        names = [(keys[graph], key) for graph, key, _ in rows]
        return _WorkspaceVectors(names, normalize(matrix_of([vector for *_, vector in rows], dim)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _WorkspaceVectors:
    """Vectors of the nodes of several graphs, at length 1. Shapes: float32[names, dim]."""

    names: list[NodeName]
    unit: Vector

    @property
    def nbytes(self) -> int:
        return self.unit.nbytes + 200 * len(self.names)


def _best(hits: Iterable[WideHit], limit: int) -> list[WideHit]:
    """Returns the first hits, best first, ties in order of name."""
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[: max(0, limit)]


def _found_node(*row: Row) -> FoundNode:
    graph, name, body = row
    return FoundNode(graph_key=graph, graph_name=name, node=parse_document(Node, body, "nodes"))  # pyright: ignore[reportArgumentType]
