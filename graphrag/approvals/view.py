"""A graph with the nodes, edges and types that a thread has proposed and nobody has decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from datasources.base import GraphDataSource
from datasources.types import (
    Direction,
    E,
    Edge,
    Graph,
    GraphStats,
    GraphVersions,
    Hit,
    Link,
    Node,
    NodeTypeConfig,
    NodeVector,
    SearchField,
    Subgraph,
    Vector,
    VectorInfo,
    page_of,
)
from graphrag.approvals.waiting import Additions


class PendingView:
    """Implements GraphDataSource for writing tools: they may name nodes that are still to be approved.

    A pending node is there under its key and under the name by which the model called it.
    Searches and walks see the stored graph alone.
    """

    def __init__(
        self,
        source: GraphDataSource,
        graph_key: str,
        additions: Iterable[Additions],
        names: Mapping[str, str],
    ) -> None:
        self._source, self._graph_key = source, graph_key
        self._nodes: dict[str, Node] = {}
        self._edges: dict[str, Edge] = {}
        self._types: dict[str, NodeTypeConfig] = {}
        for added in additions:
            self._nodes |= added.nodes
            self._edges |= added.edges
            self._types |= added.types
        for name, key in names.items():
            if key in self._nodes:
                self._nodes[name] = self._nodes[key].replace(key=name)

    @property
    def workspace(self) -> str:
        return self._source.workspace

    async def list_graphs(self) -> list[Graph]:
        return await self._source.list_graphs()

    async def get_graph(self, graph_key: str) -> Graph:
        return await self._source.get_graph(graph_key)

    async def get_versions(self, graph_key: str) -> GraphVersions:
        return await self._source.get_versions(graph_key)

    async def get_stats(self, graph_key: str) -> GraphStats:
        return await self._source.get_stats(graph_key)

    async def get_nodes(
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Node]:
        stored = await self._source.get_nodes(graph_key, sheet=sheet, after=after, limit=limit)
        if graph_key != self._graph_key:
            return stored
        return _joined(stored, page_of(self._nodes.values(), sheet, after, None))[:limit]

    async def get_edges(
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Edge]:
        stored = await self._source.get_edges(graph_key, sheet=sheet, after=after, limit=limit)
        return _joined(stored, page_of(self._of(graph_key), sheet, after, None))[:limit]

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        stored = {node.key: node for node in await self._source.get_nodes_by_key(graph_key, keys)}
        pending = self._nodes if graph_key == self._graph_key else {}
        found = (stored.get(key) or pending.get(key) for key in dict.fromkeys(keys))
        return [node for node in found if node is not None]

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        wanted = set(keys)
        more = [edge for edge in self._of(graph_key) if wanted & {edge.source, edge.target}]
        return _joined(await self._source.get_edges_of(graph_key, keys), more)

    def _of(self, graph_key: str) -> list[Edge]:
        return list(self._edges.values()) if graph_key == self._graph_key else []

    async def get_links(
        self, graph_key: str, keys: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[Link]:
        return await self._source.get_links(graph_key, keys, limit=limit)

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        stored = await self._source.get_node_configs(types)
        names = {config.type for config in stored}
        more = [
            config
            for name, config in self._types.items()
            if name not in names and (types is None or name in types)
        ]
        return [*stored, *more]

    async def search_text(
        self, graph_key: str, query: str, *, limit: int, field: SearchField = "content"
    ) -> list[Hit]:
        return await self._source.search_text(graph_key, query, limit=limit, field=field)

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
        return await self._source.search_vectors(
            graph_key, vector, model=model, limit=limit, min_score=min_score, field=field
        )

    async def get_neighborhood(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        max_depth: int,
        direction: Direction = "any",
        limit: int,
    ) -> Subgraph:
        return await self._source.get_neighborhood(
            graph_key, keys, max_depth=max_depth, direction=direction, limit=limit
        )

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        return await self._source.get_vector_info(graph_key, keys)

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        return await self._source.get_vectors(graph_key, keys)


def _joined(stored: list[E], more: list[E]) -> list[E]:
    found = {element.key: element for element in [*more, *stored]}
    return [found[key] for key in sorted(found)]
