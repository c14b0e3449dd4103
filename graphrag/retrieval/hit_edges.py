"""Reads the edges around the hits of a search: from the answer of the search if the store sent them
along, else from the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from datasources.base import GraphDataSource
from datasources.links import Link, LinkWalk, TypedLink
from datasources.search import HitLinks

MAX_LINKS = 5_000  # edges read at the hits
MAX_DEGREE = 50  # a second step does not pass nodes with more edges: they lead everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class HitEdges:
    """The edges around the hits of one search; `sent` are the edges returned with the hits.

    At most `limit` edges are read at the hits.
    """

    source: GraphDataSource
    graph_key: str
    sent: HitLinks | None
    limit: int = MAX_LINKS

    @property
    def _complete(self) -> HitLinks | None:
        return None if self.sent is None or self.sent.is_cut else self.sent

    async def at(self, keys: Sequence[str]) -> Sequence[Link]:
        """Returns the edges of some hits, without those of hubs if there are too many."""
        if not keys:
            return ()
        if self._complete is not None:
            asked = set(keys)
            return [
                Link(source, target)
                for source, target, _ in self._complete.links
                if source in asked or target in asked
            ]
        links = await self.source.get_links(self.graph_key, keys, limit=self.limit + 1)
        if len(links) <= self.limit:
            return links
        # Hubs lead everywhere and would use up the limit, so their edges are left out.
        most = self.limit // len(keys)
        return await self.source.get_links(self.graph_key, keys, max_degree=most)

    async def beyond(self, keys: Sequence[str]) -> Sequence[Link]:
        """Returns the edges of the best nodes that the edges at the hits lead to.

        A store that sent the edges along has chosen these nodes itself.
        """
        if self._complete is not None:
            return self._complete.further
        return await self.source.get_links(self.graph_key, keys, max_degree=MAX_DEGREE)

    async def typed(self, walk: LinkWalk) -> Sequence[TypedLink]:
        """Returns the edges of a walk; all edges at the hits if the walk names no labels."""
        if walk.labels is None and self._complete is not None:
            return self._complete.links
        return await self.source.get_typed_links(self.graph_key, walk)
