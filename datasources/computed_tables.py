"""Reads for ranking, of any source, made of its plain reads; see `LinkTables`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from datasources.base import GraphDataSource, NamedHits
from datasources.batches import BatchHits, BatchRequest, Names, vector_queries
from datasources.hits import Hit
from datasources.links import Link, LinkTable, NodeChoice
from datasources.text import names_of
from datasources.types import Subgraph


class ReadsLinks(Protocol):
    """What choosing nodes by their links reads from; see GraphDataSource."""

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]: ...

    async def get_neighborhood(
        self, graph_key: str, keys: Sequence[str], *, max_depth: int, limit: int
    ) -> Subgraph: ...


async def search_hits(
    source: GraphDataSource, graph_key: str, asked: BatchRequest, named: NamedHits
) -> BatchHits:
    """Return what `LinkTables.search_hits` does, of any source."""

    async def words() -> tuple[list[Hit], list[Hit], Names]:
        text, name = await asyncio.gather(
            source.search_text(graph_key, asked.query, limit=asked.limit),
            source.search_text(graph_key, asked.query, limit=asked.limit, field="name"),
        )
        nodes = (
            await source.get_nodes_by_key(graph_key, keys) if (keys := named(text, name)) else []
        )
        return text, name, {node.key: names_of(node.key, node.data) for node in nodes}

    near = [source.search_vectors(graph_key, query) for query in vector_queries(asked)]
    (text, name, names), found = await asyncio.gather(words(), asyncio.gather(*near))
    vector, name_vector = found or ([], [])
    return BatchHits(text=text, name=name, vector=vector, name_vector=name_vector, names=names)


async def get_chosen(source: ReadsLinks, graph_key: str, wanted: NodeChoice) -> Subgraph:
    """Return what `LinkTables.get_chosen` does, of any source."""
    first = wanted.first
    limit = wanted.limit
    found = await source.get_links(graph_key, first, limit=limit + 1) if first else []
    if len(found) > limit:  # hubs lead everywhere, and the edges of the others have to count
        found = await source.get_links(graph_key, first, max_degree=limit // wanted.walked)
    links = LinkTable.of(found, wanted.keys)
    if more := wanted.further(links):
        further = await source.get_links(graph_key, more, max_degree=wanted.max_degree)
        links = links.joined(LinkTable.of(further))
    chosen = wanted.choose(links)
    return await source.get_neighborhood(graph_key, chosen, max_depth=0, limit=len(chosen))


@dataclass(frozen=True, slots=True)
class ComputedTables:
    """Implements LinkTables by the plain reads of a source."""

    source: GraphDataSource

    async def search_hits(self, graph_key: str, asked: BatchRequest, named: NamedHits) -> BatchHits:
        return await search_hits(self.source, graph_key, asked, named)

    async def get_chosen(self, graph_key: str, wanted: NodeChoice) -> Subgraph:
        return await get_chosen(self.source, graph_key, wanted)
