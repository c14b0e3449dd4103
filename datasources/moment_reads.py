"""Reads of one graph at one moment, for stores that read with a connection in a worker thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from datasources.held_reads import walk_typed
from datasources.hits import FIELDS, Hit, SearchField, VectorQuery
from datasources.links import Direction, Link, LinkWalk, TypedLink
from datasources.search import SearchHits, SearchRequest, keys_to_name, names_by_key
from datasources.text import tokenize
from datasources.types import Edge, Node, Subgraph
from datasources.vectors import can_match

T = TypeVar("T")


class GraphReads(Protocol):
    """Reads of one graph at one moment. See GraphDataSource for what each method returns."""

    def nodes(self, sheet: str | None, after: str | None, limit: int | None) -> list[Node]: ...

    def edges(self, sheet: str | None, after: str | None, limit: int | None) -> list[Edge]: ...

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]: ...

    def edges_by_key(self, keys: Sequence[str]) -> list[Edge]: ...

    def edges_of(self, keys: Sequence[str]) -> list[Edge]: ...

    def links(
        self, keys: Sequence[str], limit: int | None, max_degree: int | None
    ) -> list[Link]: ...

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterable[TypedLink]:
        """Yields edges with their labels; see `datasources.held_reads.EdgesOf`."""
        ...

    def neighborhood(
        self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int
    ) -> Subgraph: ...

    def search_text(self, terms: Sequence[str], limit: int, search_field: SearchField) -> list[Hit]:
        """Searches for the words of `datasources.text.tokenize`."""
        ...

    def search_vectors(self, query: VectorQuery) -> list[Hit]: ...


class ReadsOfOneMoment(ABC):
    """The methods of GraphDataSource that are one call of GraphReads."""

    @abstractmethod
    async def read_graph(self, graph_key: str, work: Callable[[GraphReads], T]) -> T:
        """Runs `work` on one moment of a graph, in a worker thread. Raises: GraphNotFound."""

    async def get_nodes(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        return await self.read_graph(graph_key, lambda graph: graph.nodes(sheet, after, limit))

    async def get_edges(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        return await self.read_graph(graph_key, lambda graph: graph.edges(sheet, after, limit))

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        return await self.read_graph(graph_key, lambda graph: graph.nodes_by_key(keys))

    async def get_edges_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return await self.read_graph(graph_key, lambda graph: graph.edges_by_key(keys))

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return await self.read_graph(graph_key, lambda graph: graph.edges_of(keys))

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        return await self.read_graph(graph_key, lambda graph: graph.links(keys, limit, max_degree))

    async def get_typed_links(self, graph_key: str, wanted: LinkWalk) -> list[TypedLink]:
        return await self.read_graph(graph_key, lambda graph: walk_typed(graph.typed_links, wanted))


def search_graph(graph: GraphReads, nodes: int, request: SearchRequest) -> SearchHits:
    """Answers a request from one moment of a graph with this number of `nodes`."""
    terms = tokenize(request.query)
    text, name = (
        graph.search_text(terms, request.limit, part) if request.searches_words(part) else []
        for part in FIELDS
    )
    queries = (request.vector_query(part) for part in FIELDS)
    vector, name_vector = (
        graph.search_vectors(query) if query is not None and can_match(query) else []
        for query in queries
    )
    named = keys_to_name(text, name) if request.with_names else []
    names = names_by_key(graph.nodes_by_key(named) if named else ())
    hits = SearchHits(
        text=text,
        name=name,
        vector=vector,
        name_vector=name_vector,
        names=names,
        nodes=nodes,
    )
    if request.first <= 0 or not hits.is_empty:
        return hits
    return hits.or_first(node.key for node in graph.nodes(None, None, request.first))
