"""A graph source that shows what people are editing: the live graph where there is one,
else the store.

Decision: a live graph's text index is made again after an edit, from words that are kept for every
node that did not change: BM25 weighs a word by all nodes, and scores stay those of every other
source. Vectors are the stored ones. A node that was deleted is not found by its vector, nor is one
whose words have changed: it is found by its text until it is embedded again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from datasources.base import GraphDataSource
from datasources.batches import BatchHits, BatchRequest, BatchSource
from datasources.builtin_types import types_by_name
from datasources.everywhere import FoundNode, WideHits, joined, with_nodes
from datasources.held_reads import HeldGraph, HeldReads
from datasources.hits import FIELDS, Hit, NodeVector, SearchField, VectorInfo, VectorQuery
from datasources.text import node_text
from datasources.types import (
    Edge,
    Graph,
    GraphStats,
    GraphVersions,
    Node,
    NodeTypeConfig,
    Subgraph,
    node_fields,
)


@dataclass(slots=True, kw_only=True, eq=False)
class LiveView(HeldGraph, HeldReads):
    """Answers what GraphDataSource asks of one live graph."""

    stored: GraphDataSource

    def held(self, graph_key: str) -> LiveView:  # noqa: ARG002 - there is one
        return self

    async def get_stats(self, graph_key: str) -> GraphStats:
        vectors = await self.stored.get_vector_info(graph_key, list(self.nodes))
        return self.stats(info.model for info in vectors.values() if info.model)

    async def search_text(
        self,
        graph_key: str,  # noqa: ARG002
        query: str,
        *,
        limit: int,
        field: SearchField = "content",
    ) -> list[Hit]:
        """Search its text in a thread: of a large graph the index takes seconds."""
        types = await self.stored.get_node_configs()
        return await asyncio.to_thread(self.search, query, limit, field, types)

    async def search_vectors(self, graph_key: str, wanted: VectorQuery) -> list[Hit]:
        asked = wanted.limit
        limit = wanted.limit
        while True:
            hits = await self.stored.search_vectors(graph_key, replace(wanted, limit=asked))
            if limit <= 0:
                return hits
            same = await self.unchanged([hit.key for hit in hits])
            kept = [hit for hit in hits if hit.key in same]
            if len(kept) >= limit or len(hits) < asked:
                return kept[:limit]
            asked *= 2

    async def unchanged(self, keys: Sequence[str]) -> set[str]:
        """Return those of the nodes that read as they did when they were stored."""
        there = [key for key in keys if key in self.nodes]
        stored = await self.stored.get_nodes_by_key(self.graph.key, there)
        names = types_by_name(await self.stored.get_node_configs())
        return {node.key for node in stored if reads_the_same(node, self.nodes[node.key], names)}

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        return await self.stored.get_vector_info(
            graph_key, [key for key in keys if key in self.nodes]
        )

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        return await self.stored.get_vectors(graph_key, [key for key in keys if key in self.nodes])


def reads_the_same(stored: Node, live: Node, types: Mapping[str, NodeTypeConfig]) -> bool:
    """Return whether a live node has the words of the stored one."""
    fields = node_fields("searched", type(live))
    if stored is live or all(getattr(stored, name) == getattr(live, name) for name in fields):
        return True
    return node_text(stored, types.get(stored.type)) == node_text(live, types.get(live.type))


MAX_VIEWS = 64
"""So many live graphs are kept in searchable form; the one used longest ago makes room."""


class MemoryGraphProvider(Protocol):
    """The live working copy of a graph, while it holds what is not stored; the memory
    overlay reads it.

    Decision: without unsaved changes there is nothing to give (None): the store then says the same.
    """

    async def get_live_graph(self, graph_key: str) -> Graph | None:
        """Return the graph document; its revision differs from that of any other content
        of the graph.
        """
        ...

    async def get_live_nodes(self, graph_key: str) -> list[Node] | None: ...

    async def get_live_edges(self, graph_key: str) -> list[Edge] | None: ...

    def live_keys(self) -> Sequence[str]:
        """Return the keys of the graphs that may have something to give."""
        ...


M = TypeVar("M", bound=Callable[..., Any])


def _live_or_stored(method: M) -> M:
    """Return a method that asks the same of the live graph where there is one,
    else of the store.
    """

    @wraps(method)
    async def ask(self: MemoryOverlay, graph_key: str, *args: Any, **options: Any) -> Any:
        source = await self.view(graph_key) or self.stored
        return await getattr(source, method.__name__)(graph_key, *args, **options)

    return cast(M, ask)


class MemoryOverlay:
    """Implements GraphDataSource over a stored source: the nodes and edges of a live graph win."""

    def __init__(self, source: GraphDataSource, live: MemoryGraphProvider) -> None:
        self.stored = source
        self._live = live
        self._views: dict[str, LiveView] = {}

    get_stats = _live_or_stored(GraphDataSource.get_stats)
    get_nodes = _live_or_stored(GraphDataSource.get_nodes)
    get_edges = _live_or_stored(GraphDataSource.get_edges)
    get_nodes_by_key = _live_or_stored(GraphDataSource.get_nodes_by_key)
    get_edges_by_key = _live_or_stored(GraphDataSource.get_edges_by_key)
    get_edges_of = _live_or_stored(GraphDataSource.get_edges_of)
    get_links = _live_or_stored(GraphDataSource.get_links)
    get_typed_links = _live_or_stored(GraphDataSource.get_typed_links)
    get_neighborhood = _live_or_stored(GraphDataSource.get_neighborhood)
    search_text = _live_or_stored(GraphDataSource.search_text)
    search_vectors = _live_or_stored(GraphDataSource.search_vectors)
    get_vector_info = _live_or_stored(GraphDataSource.get_vector_info)
    get_vectors = _live_or_stored(GraphDataSource.get_vectors)

    @property
    def workspace(self) -> str:
        return self.stored.workspace

    async def view(self, graph_key: str) -> LiveView | None:
        """Return the live graph as it is now. What was built for an earlier
        moment is used again.
        """
        graph = await self._live.get_live_graph(graph_key)
        if graph is None:
            self._views.pop(graph_key, None)
            return None
        old = self._views.pop(graph_key, None)
        if old is None or old.graph.revision != graph.revision:
            nodes = await self._live.get_live_nodes(graph_key) or []
            edges = await self._live.get_live_edges(graph_key) or []
            old = LiveView(
                stored=self.stored,
                graph=graph,
                nodes={node.key: node for node in sorted(nodes, key=lambda node: node.key)},
                edges={edge.key: edge for edge in sorted(edges, key=lambda edge: edge.key)},
                words=old.words if old else {},
                uses=old.uses if old else {},
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

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        return await self.stored.get_node_configs(types)

    async def search_at_once(self, graph_key: str, wanted: BatchRequest) -> BatchHits | None:
        """Implements BatchSource where the stored source does and the graph is not live."""
        if not isinstance(self.stored, BatchSource) or await self._live.get_live_graph(graph_key):
            return None
        return await self.stored.search_at_once(graph_key, wanted)

    async def read_at_once(
        self, graph_key: str, keys: Sequence[str], *, max_depth: int, limit: int
    ) -> tuple[Subgraph, list[NodeTypeConfig]] | None:
        """Implements BatchSource where the stored source does and the graph is not live."""
        if not isinstance(self.stored, BatchSource) or await self._live.get_live_graph(graph_key):
            return None
        return await self.stored.read_at_once(graph_key, keys, max_depth=max_depth, limit=limit)

    async def _views_of(self, graphs: Sequence[str] | None) -> dict[str, LiveView]:
        keys = [key for key in self._live.live_keys() if graphs is None or key in graphs]
        return {key: view for key in keys if (view := await self.view(key)) is not None}

    async def find_users(
        self, entries: Sequence[str], *, limit: int, graphs: Sequence[str] | None = None
    ) -> list[FoundNode]:
        views = await self._views_of(graphs)
        if views:  # of these the stored nodes are not wanted, however many
            keys = (
                [graph.key for graph in await self.stored.list_graphs()]
                if graphs is None
                else graphs
            )
            graphs = [key for key in keys if key not in views]
        kept = list(await self.stored.find_users(entries, limit=limit, graphs=graphs))
        for view in views.values():
            kept += await asyncio.to_thread(view.users, entries)
        return sorted(kept, key=lambda one: (one.graph_key, one.node.key))[: max(0, limit)]

    async def search_everywhere(
        self, asked: BatchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        views = await self._views_of(graphs)
        found = await self.stored.search_everywhere(asked, graphs)
        if not views:
            return found
        nodes = {name: one for name, one in found.nodes.items() if name[0] not in views}
        parts = [with_nodes(found, nodes)]
        for key, view in views.items():
            hits = [
                await view.search_text(key, asked.query, limit=asked.limit, field=one)
                for one in FIELDS
            ]
            text, name = ([((key, hit.key), hit.score) for hit in of] for of in hits)
            still = await view.unchanged([node for graph, node in found.names if graph == key])
            near, name_near = (
                [hit for hit in of if hit[0][0] == key and hit[0][1] in still]
                for of in (found.vector, found.name_vector)
            )
            parts.append(part := WideHits(text=text, name=name, vector=near, name_vector=name_near))
            nodes |= {one: view.found(one[1]) for one in part.names}
        best = joined(parts, asked.limit)
        return with_nodes(best, {name: nodes[name] for name in best.names})
