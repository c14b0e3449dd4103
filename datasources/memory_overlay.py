"""A graph source that shows what people are editing: the live graph where there is one, else the store.

Decision: a live graph's text index is made again after an edit, from words that are kept for every node
that did not change: BM25 weighs a word by all nodes, and scores stay those of every other source.
Vectors are the stored ones. A node that was deleted is not found by its vector, nor is one whose words
have changed: it is found by its text until it is embedded again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from datasources.base import BatchHits, BatchSource, Further, GraphDataSource, LinkTables, MemoryGraphProvider
from datasources.builtin_types import types_by_name
from datasources.lexical import LexicalIndex
from datasources.text import node_text, tokenize
from datasources.types import (
    Direction,
    Edge,
    Graph,
    GraphStats,
    GraphVersions,
    Hit,
    Link,
    LinkTable,
    Node,
    NodeTypeConfig,
    NodeVector,
    SearchField,
    Subgraph,
    Vector,
    VectorInfo,
    links_of,
    node_fields,
    page_of,
)

MAX_VIEWS = 64
"""So many live graphs are kept in searchable form; the one used longest ago makes room."""


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a node as it read with a type."""

    node: Node
    config: NodeTypeConfig | None
    content: list[str]
    names: list[str]

    @staticmethod
    def of(node: Node, config: NodeTypeConfig | None) -> _Words:
        text = node_text(node, config)
        return _Words(node, config, tokenize(text.content), tokenize(text.names))


@dataclass(slots=True, kw_only=True, eq=False)
class _View:
    """A live graph at one moment, in key order. `words` are handed on from one moment to the next."""

    graph: Graph
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    words: dict[str, _Words] = field(default_factory=dict[str, _Words])
    types: list[NodeTypeConfig] | None = None
    indexes: dict[SearchField, LexicalIndex] = field(default_factory=dict[SearchField, LexicalIndex])

    def edges_of(self, keys: Iterable[str]) -> list[Edge]:
        wanted = set(keys)
        return [edge for edge in self.edges.values() if edge.source in wanted or edge.target in wanted]

    def index(self, search_field: SearchField, types: list[NodeTypeConfig]) -> LexicalIndex:
        """Return the index of the nodes' words as they read with these stored types."""
        if self.types is None or not _are_same(self.types, types):
            names = types_by_name(types)
            self.words = {key: self._words(node, names.get(node.type)) for key, node in self.nodes.items()}
            self.types = types
            self.indexes.clear()
        index = self.indexes.get(search_field)
        if index is None:
            documents = (
                (key, words.content if search_field == "content" else words.names)
                for key, words in self.words.items()
            )
            index = self.indexes[search_field] = LexicalIndex.build(documents)
        return index

    def _words(self, node: Node, config: NodeTypeConfig | None) -> _Words:
        known = self.words.get(node.key)
        if known is not None and known.node is node and known.config is config:
            return known
        return _Words.of(node, config)

    def neighborhood(self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int) -> Subgraph:
        """Search breadth first; see GraphDataSource.get_neighborhood."""
        around = _adjacency(self.edges.values(), direction)
        level = [key for key in dict.fromkeys(keys) if key in self.nodes][: max(0, limit)]
        depths = dict.fromkeys(level, 0)
        for depth in range(1, max_depth + 1):
            reached = {key for near in level for key in around.get(near, ())} - depths.keys()
            level = sorted(reached)[: limit - len(depths)]
            if not level:
                break
            depths.update(dict.fromkeys(level, depth))
        inside = [edge for edge in self.edges.values() if edge.source in depths and edge.target in depths]
        return Subgraph(nodes=tuple(self.nodes[key] for key in depths), edges=tuple(inside), depths=depths)


def _are_same(old: list[NodeTypeConfig], new: list[NodeTypeConfig]) -> bool:
    return len(old) == len(new) and all(a is b or a == b for a, b in zip(old, new, strict=True))


def _adjacency(edges: Iterable[Edge], direction: Direction) -> dict[str, list[str]]:
    around: dict[str, list[str]] = {}
    for edge in edges:
        if direction != "in":
            around.setdefault(edge.source, []).append(edge.target)
        if direction != "out":
            around.setdefault(edge.target, []).append(edge.source)
    return around


class MemoryOverlay:
    """Implements GraphDataSource over a stored source: the nodes and edges of a live graph win."""

    def __init__(self, source: GraphDataSource, live: MemoryGraphProvider) -> None:
        self.stored, self._live = source, live
        self._views: dict[str, _View] = {}

    @property
    def workspace(self) -> str:
        return self.stored.workspace

    async def _view(self, graph_key: str) -> _View | None:
        """Return the live graph as it is now. What was built for an earlier moment is used again."""
        graph = await self._live.get_live_graph(graph_key)
        if graph is None:
            self._views.pop(graph_key, None)
            return None
        old = self._views.pop(graph_key, None)
        if old is None or old.graph.revision != graph.revision:
            nodes = await self._live.get_live_nodes(graph_key) or []
            edges = await self._live.get_live_edges(graph_key) or []
            old = _View(
                graph=graph,
                nodes={node.key: node for node in sorted(nodes, key=lambda node: node.key)},
                edges={edge.key: edge for edge in sorted(edges, key=lambda edge: edge.key)},
                words=old.words if old else {},
            )
        self._views[graph_key] = old  # the latest last
        while len(self._views) > MAX_VIEWS:
            del self._views[next(iter(self._views))]
        return old

    async def list_graphs(self) -> list[Graph]:
        found = await self.stored.list_graphs()
        return [await self._live.get_live_graph(graph.key) or graph for graph in found]

    async def get_graph(self, graph_key: str) -> Graph:
        return await self._live.get_live_graph(graph_key) or await self.stored.get_graph(graph_key)

    async def get_versions(self, graph_key: str) -> GraphVersions:
        stored = await self.stored.get_versions(graph_key)
        live = await self._live.get_live_graph(graph_key)
        return stored if live is None else replace(stored, graph=live)

    async def get_stats(self, graph_key: str) -> GraphStats:
        view = await self._view(graph_key)
        if view is None:
            return await self.stored.get_stats(graph_key)
        vectors = await self.stored.get_vector_info(graph_key, list(view.nodes))
        return GraphStats(
            nodes=len(view.nodes),
            edges=len(view.edges),
            types=Counter(node.type for node in view.nodes.values()),
            vectors=Counter(info.model for info in vectors.values() if info.model),
        )

    async def get_nodes(
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Node]:
        view = await self._view(graph_key)
        if view is None:
            return await self.stored.get_nodes(graph_key, sheet=sheet, after=after, limit=limit)
        return page_of(view.nodes.values(), sheet, after, limit)

    async def get_edges(
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Edge]:
        view = await self._view(graph_key)
        if view is None:
            return await self.stored.get_edges(graph_key, sheet=sheet, after=after, limit=limit)
        return page_of(view.edges.values(), sheet, after, limit)

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        view = await self._view(graph_key)
        if view is None:
            return await self.stored.get_nodes_by_key(graph_key, keys)
        return [view.nodes[key] for key in dict.fromkeys(keys) if key in view.nodes]

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        view = await self._view(graph_key)
        return await self.stored.get_edges_of(graph_key, keys) if view is None else view.edges_of(keys)

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        view = await self._view(graph_key)
        if view is None:
            return await self.stored.get_links(graph_key, keys, limit=limit, max_degree=max_degree)
        return links_of(view.edges.values(), keys, limit, max_degree)

    async def get_chosen(
        self,
        graph_key: str,
        keys: Sequence[str],
        further: Further,
        choose: Callable[[LinkTable], Sequence[str]],
        *,
        limit: int,
        max_degree: int,
    ) -> Subgraph:
        if await self._view(graph_key) is None and isinstance(self.stored, LinkTables):
            return await self.stored.get_chosen(
                graph_key, keys, further, choose, limit=limit, max_degree=max_degree
            )
        links = LinkTable.of(await self.get_links(graph_key, keys, limit=limit))
        more = await self.get_links(graph_key, further(links), max_degree=max_degree)
        chosen = choose(links.joined(LinkTable.of(more)))
        return await self.get_neighborhood(graph_key, chosen, max_depth=0, limit=len(chosen))

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        return await self.stored.get_node_configs(types)

    async def search_text(
        self, graph_key: str, query: str, *, limit: int, field: SearchField = "content"
    ) -> list[Hit]:
        view = await self._view(graph_key)
        if view is None:
            return await self.stored.search_text(graph_key, query, limit=limit, field=field)
        types = await self.stored.get_node_configs()
        return view.index(field, types).search(tokenize(query), limit)

    async def search_vectors(
        self,
        graph_key: str,
        vector: Vector,
        *,
        model: str,
        limit: int,
        min_score: float = 0.0,
        field: SearchField = "content",
    ) -> list[Hit]:
        view = await self._view(graph_key)
        asked = limit
        while True:
            hits = await self.stored.search_vectors(
                graph_key, vector, model=model, limit=asked, min_score=min_score, field=field
            )
            if view is None or limit <= 0:
                return hits
            kept = await self._still_true(view, hits)
            if len(kept) >= limit or len(hits) < asked:
                return kept[:limit]
            asked *= 2

    async def _still_true(self, view: _View, hits: list[Hit]) -> list[Hit]:
        """Return the hits of nodes that read as they did when they were stored."""
        keys = [hit.key for hit in hits if hit.key in view.nodes]
        stored = await self.stored.get_nodes_by_key(view.graph.key, keys)
        names = types_by_name(await self.stored.get_node_configs())
        same = {node.key for node in stored if reads_the_same(node, view.nodes[node.key], names)}
        return [hit for hit in hits if hit.key in same]

    async def get_neighborhood(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        max_depth: int,
        direction: Direction = "any",
        limit: int,
    ) -> Subgraph:
        view = await self._view(graph_key)
        if view is None:
            return await self.stored.get_neighborhood(
                graph_key, keys, max_depth=max_depth, direction=direction, limit=limit
            )
        return view.neighborhood(keys, max_depth, direction, limit)

    async def search_at_once(
        self,
        graph_key: str,
        query: str,
        *,
        vector: tuple[str, Vector] | None,
        limit: int,
        min_score: float,
        links: int,
        max_degree: int,
        first: int,
    ) -> BatchHits | None:
        """Implements BatchSource where the stored source does and the graph is not live."""
        if not isinstance(self.stored, BatchSource) or await self._live.get_live_graph(graph_key):
            return None
        return await self.stored.search_at_once(
            graph_key,
            query,
            vector=vector,
            limit=limit,
            min_score=min_score,
            links=links,
            max_degree=max_degree,
            first=first,
        )

    async def read_at_once(
        self, graph_key: str, keys: Sequence[str], *, max_depth: int, limit: int
    ) -> tuple[Subgraph, list[NodeTypeConfig]] | None:
        """Implements BatchSource where the stored source does and the graph is not live."""
        if not isinstance(self.stored, BatchSource) or await self._live.get_live_graph(graph_key):
            return None
        return await self.stored.read_at_once(graph_key, keys, max_depth=max_depth, limit=limit)

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        view = await self._view(graph_key)
        known = keys if view is None else [key for key in keys if key in view.nodes]
        return await self.stored.get_vector_info(graph_key, known)

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        view = await self._view(graph_key)
        known = keys if view is None else [key for key in keys if key in view.nodes]
        return await self.stored.get_vectors(graph_key, known)


def reads_the_same(stored: Node, live: Node, types: Mapping[str, NodeTypeConfig]) -> bool:
    """Return whether a live node has the words of the stored one."""
    fields = node_fields("searched", type(live))
    if stored is live or all(getattr(stored, name) == getattr(live, name) for name in fields):
        return True
    return node_text(stored, types.get(stored.type)) == node_text(live, types.get(live.type))
