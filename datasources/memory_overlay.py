"""A graph source that shows unsaved edits: a live graph replaces the stored one.

Decision: the text index of a live graph is rebuilt after an edit from the cached words of unchanged
nodes, because BM25 weights a word by its frequency in all nodes. So scores equal those of every
other source. Vectors are read from the store. Vector search skips deleted nodes and nodes whose
words have changed; the latter are found by text until they are embedded again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from datasources.base import Abilities, GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.everywhere import FoundNode, WideHits, joined, of_graph, with_nodes
from datasources.held_reads import HeldGraph, HeldReads
from datasources.hits import FIELDS, Hit, NodeVector, SearchField, VectorInfo
from datasources.links import Direction, Link, LinkWalk, TypedLink
from datasources.search import SearchHits, SearchRequest
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
    """The reads of GraphDataSource for one live graph."""

    stored: GraphDataSource

    def held(self, graph_key: str) -> LiveView:  # noqa: ARG002 - there is one
        return self

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        return await self.stored.get_node_configs(types)

    async def get_stats(self, graph_key: str) -> GraphStats:
        vectors = await self.stored.get_vector_info(graph_key, list(self.nodes))
        return self.stats(info.model for info in vectors.values() if info.model)

    async def search(self, graph_key: str, request: SearchRequest) -> SearchHits:
        """Searches the text in a thread, because indexing a large graph takes seconds."""
        types = await self.stored.get_node_configs()
        words = await asyncio.to_thread(self.search_words, request, types)
        near = [await self._nearest(graph_key, request, part) for part in FIELDS]
        hits = replace(words, vector=near[0], name_vector=near[1])
        return hits.or_first(islice(self.nodes, request.first))

    async def _nearest(
        self, graph_key: str, request: SearchRequest, part: SearchField
    ) -> Sequence[Hit]:
        """Returns the nearest stored vectors of nodes that have not changed."""
        limit = request.limit
        if request.vector_query(part) is None or limit <= 0:
            return ()
        stored_request = replace(
            request, query="", fields=(part,), with_names=False, links=0, first=0
        )
        while True:
            hits = (await self.stored.search(graph_key, stored_request)).by_vector(part)
            same = await self.unchanged([hit.key for hit in hits])
            kept = [hit for hit in hits if hit.key in same]
            if len(kept) >= limit or len(hits) < stored_request.limit:
                return kept[:limit]
            stored_request = replace(stored_request, limit=2 * stored_request.limit)

    async def unchanged(self, keys: Sequence[str]) -> set[str]:
        """Returns the nodes whose words equal those of the stored nodes."""
        existing = [key for key in keys if key in self.nodes]
        stored = await self.stored.get_nodes_by_key(self.graph.key, existing)
        types = types_by_name(await self.stored.get_node_configs())
        return {node.key for node in stored if has_same_words(node, self.nodes[node.key], types)}

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        return await self.stored.get_vector_info(
            graph_key, [key for key in keys if key in self.nodes]
        )

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        return await self.stored.get_vectors(graph_key, [key for key in keys if key in self.nodes])


def has_same_words(stored: Node, live: Node, types: Mapping[str, NodeTypeConfig]) -> bool:
    """Returns True if a live node has the same words as the stored one."""
    fields = node_fields("searched", type(live))
    if stored is live or all(getattr(stored, name) == getattr(live, name) for name in fields):
        return True
    return node_text(stored, types.get(stored.type)) == node_text(live, types.get(live.type))


MAX_VIEWS = 64  # most recently used live graphs whose search indexes are kept


class MemoryGraphProvider(Protocol):
    """Provides the live working copies of graphs with unsaved changes.

    Decision: for a graph without unsaved changes the methods return None and the store is read,
    because it has the same content.
    """

    async def get_live_graph(self, graph_key: str) -> Graph | None:
        """Returns the graph document; each content of the graph has a revision of its own."""
        ...

    async def get_live_nodes(self, graph_key: str) -> list[Node] | None: ...

    async def get_live_edges(self, graph_key: str) -> list[Edge] | None: ...

    def live_keys(self) -> Sequence[str]:
        """Returns the keys of the graphs that may have unsaved changes."""
        ...


class MemoryOverlay:
    """Implements GraphDataSource: reads a live graph if there is one, else the stored graph."""

    def __init__(self, source: GraphDataSource, live: MemoryGraphProvider) -> None:
        self.stored = source
        self._live = live
        self._views: dict[str, LiveView] = {}

    @property
    def workspace(self) -> str:
        return self.stored.workspace

    @property
    def abilities(self) -> Abilities:
        return Abilities()  # abilities of the store are for writers, which use the store directly

    async def view(self, graph_key: str) -> LiveView | None:
        """Returns the current live graph, or None. Indexes of an unchanged graph are reused."""
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
        self._views[graph_key] = old  # the most recently used is last
        while len(self._views) > MAX_VIEWS:
            del self._views[next(iter(self._views))]
        return old

    async def _reads(self, graph_key: str) -> LiveView | GraphDataSource:
        return await self.view(graph_key) or self.stored

    async def list_graphs(self) -> list[Graph]:
        stored = await self.stored.list_graphs()
        return [await self._live.get_live_graph(graph.key) or graph for graph in stored]

    async def get_graph(self, graph_key: str) -> Graph:
        return await self._live.get_live_graph(graph_key) or await self.stored.get_graph(graph_key)

    async def get_versions(self, graph_key: str) -> GraphVersions:
        stored = await self.stored.get_versions(graph_key)
        live = await self._live.get_live_graph(graph_key)
        return stored if live is None else replace(stored, graph=live)

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        return await self.stored.get_node_configs(types)

    async def get_stats(self, graph_key: str) -> GraphStats:
        return await (await self._reads(graph_key)).get_stats(graph_key)

    async def get_nodes(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        reads = await self._reads(graph_key)
        return await reads.get_nodes(graph_key, sheet=sheet, after=after, limit=limit)

    async def get_edges(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        reads = await self._reads(graph_key)
        return await reads.get_edges(graph_key, sheet=sheet, after=after, limit=limit)

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        return await (await self._reads(graph_key)).get_nodes_by_key(graph_key, keys)

    async def get_edges_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return await (await self._reads(graph_key)).get_edges_by_key(graph_key, keys)

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return await (await self._reads(graph_key)).get_edges_of(graph_key, keys)

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        reads = await self._reads(graph_key)
        return await reads.get_links(graph_key, keys, limit=limit, max_degree=max_degree)

    async def get_typed_links(self, graph_key: str, wanted: LinkWalk) -> list[TypedLink]:
        return await (await self._reads(graph_key)).get_typed_links(graph_key, wanted)

    async def search(self, graph_key: str, request: SearchRequest) -> SearchHits:
        return await (await self._reads(graph_key)).search(graph_key, request)

    async def get_neighborhood(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        max_depth: int,
        direction: Direction = "any",
        limit: int,
        with_types: bool = False,
    ) -> Subgraph:
        return await (await self._reads(graph_key)).get_neighborhood(
            graph_key,
            keys,
            max_depth=max_depth,
            direction=direction,
            limit=limit,
            with_types=with_types,
        )

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        return await (await self._reads(graph_key)).get_vector_info(graph_key, keys)

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        return await (await self._reads(graph_key)).get_vectors(graph_key, keys)

    async def _views_of(self, graphs: Sequence[str] | None) -> dict[str, LiveView]:
        keys = [key for key in self._live.live_keys() if graphs is None or key in graphs]
        return {key: view for key in keys if (view := await self.view(key)) is not None}

    async def find_users(
        self, entries: Sequence[str], *, limit: int, graphs: Sequence[str] | None = None
    ) -> list[FoundNode]:
        views = await self._views_of(graphs)
        if views:  # live graphs replace their stored nodes
            keys = (
                [graph.key for graph in await self.stored.list_graphs()]
                if graphs is None
                else graphs
            )
            graphs = [key for key in keys if key not in views]
        users = list(await self.stored.find_users(entries, limit=limit, graphs=graphs))
        for view in views.values():
            users += await asyncio.to_thread(view.users, entries)
        return sorted(users, key=lambda one: (one.graph_key, one.node.key))[: max(0, limit)]

    async def search_everywhere(
        self, asked: SearchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        views = await self._views_of(graphs)
        stored = await self.stored.search_everywhere(asked, graphs)
        if not views:
            return stored
        nodes = {name: one for name, one in stored.nodes.items() if name[0] not in views}
        parts = [with_nodes(stored, nodes)]
        for key, view in views.items():
            words = await view.search(key, replace(asked, vector=None))
            same = await view.unchanged([node for graph, node in stored.names if graph == key])
            vector, name_vector = (
                [hit for hit in hits if hit[0][0] == key and hit[0][1] in same]
                for hits in (stored.vector, stored.name_vector)
            )
            part = replace(of_graph(key, words), vector=vector, name_vector=name_vector)
            parts.append(part)
            nodes |= {name: view.found(name[1]) for name in part.names}
        best = joined(parts, asked.limit)
        return with_nodes(best, {name: nodes[name] for name in best.names})
