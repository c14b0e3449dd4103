"""What a search reads from where each question takes a round trip to the source (`BatchSource`).

Its searches were answered in one round trip, and reading takes one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from datasources.base import GraphDataSource, NamedHits
from datasources.batches import BatchHits, BatchRequest, BatchSource
from datasources.computed_tables import get_chosen
from datasources.hits import Hit, SearchField, VectorQuery
from datasources.links import Direction, Link, LinkWalk, NodeChoice, TypedLink
from datasources.types import Node, NodeTypeConfig, Subgraph


@dataclass(slots=True)
class BatchAnswers:
    """Answers what was asked for from what came in one round trip, and reads the rest once.

    Implements LinkTables for that question.
    """

    source: GraphDataSource
    wanted: BatchRequest
    found: BatchHits
    read: dict[tuple[str, ...], Subgraph] = field(default_factory=dict[tuple[str, ...], Subgraph])
    types: list[NodeTypeConfig] | None = None

    async def search_hits(
        self,
        graph_key: str,  # noqa: ARG002
        asked: BatchRequest,  # noqa: ARG002
        named: NamedHits,
    ) -> BatchHits:
        keys = named(self.found.text, self.found.name)
        return replace(self.found, names={key: self.found.names.get(key, ()) for key in keys})

    async def get_chosen(self, graph_key: str, wanted: NodeChoice) -> Subgraph:
        return await get_chosen(self, graph_key, wanted)

    async def search_text(
        self,
        graph_key: str,  # noqa: ARG002
        query: str,  # noqa: ARG002
        *,
        limit: int,
        field: SearchField = "content",
    ) -> list[Hit]:
        return (self.found.text if field == "content" else self.found.name)[:limit]

    async def search_vectors(self, graph_key: str, wanted: VectorQuery) -> list[Hit]:  # noqa: ARG002
        hits = self.found.vector if wanted.field == "content" else self.found.name_vector
        return [hit for hit in hits if hit.score >= wanted.min_score][: wanted.limit]

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        links = self.found.links
        if len(links) >= self.wanted.links:  # they were cut, and some may be missing
            return await self.source.get_links(graph_key, keys, limit=limit, max_degree=max_degree)
        if max_degree is not None:  # the second step, over the nodes that the store found best
            return self.found.further[:limit]
        asked = set(keys)
        return [link for link in links if link.source in asked or link.target in asked][:limit]

    async def get_typed_links(self, graph_key: str, wanted: LinkWalk) -> list[TypedLink]:
        """Return what came with the hits, where just the edges of these are asked for."""
        if wanted.labels is None and len(self.found.links) < self.wanted.links:
            pairs = zip(self.found.links, self.found.labels, strict=True)
            return [TypedLink(*link, label) for link, label in pairs]
        return await self.source.get_typed_links(graph_key, wanted)

    async def get_nodes(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        if sheet is not None or after is not None or limit is None or limit > self.wanted.first:
            return await self.source.get_nodes(graph_key, sheet=sheet, after=after, limit=limit)
        first = self.found.first[:limit]
        return list(
            (await self.get_neighborhood(graph_key, first, max_depth=0, limit=len(first))).nodes
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
        known = self.read.get((*keys, str(max_depth)))
        if known is not None and limit >= len(known.nodes):
            return known
        if direction != "any" or not isinstance(self.source, BatchSource):
            return await self._around(graph_key, keys, max_depth, direction, limit)
        read = await self.source.read_at_once(graph_key, keys, max_depth=max_depth, limit=limit)
        if read is None:  # people began to edit the graph at this moment
            return await self._around(graph_key, keys, max_depth, direction, limit)
        self.read[*keys, str(max_depth)], self.types = read
        return read[0]

    async def _around(
        self, graph_key: str, keys: Sequence[str], max_depth: int, direction: Direction, limit: int
    ) -> Subgraph:
        return await self.source.get_neighborhood(
            graph_key, keys, max_depth=max_depth, direction=direction, limit=limit
        )

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        """Return the types of what was read last; these are all that a retrieval asks for."""
        if self.types is None or types is None:
            return await self.source.get_node_configs(types)
        return [config for config in self.types if config.type in types]


SearchSource = GraphDataSource | BatchAnswers
"""What answers the questions of a retrieval."""
