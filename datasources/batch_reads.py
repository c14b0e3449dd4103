"""An optional ability of a source to which every question is a journey: a retrieval in two of them.

Decision: `None` says that it cannot be done for this graph now; whoever asked then asks one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from datasources.types import Hit, Link, NodeTypeConfig, Subgraph, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedAtOnce:
    """Best hits of the four searches, the edges at them by key, the first nodes where nothing is found."""

    text: list[Hit]
    name: list[Hit]
    vector: list[Hit]
    name_vector: list[Hit]
    links: list[Link] = field(default_factory=list[Link])
    first: list[str] = field(default_factory=list[str])


@runtime_checkable
class OneTripSource(Protocol):
    """What such a source does besides. Raises: GraphNotFound."""

    async def search_at_once(
        self,
        graph_key: str,
        query: str,
        *,
        vector: tuple[str, Vector] | None,
        limit: int,
        min_score: float,
        links: int,
        first: int,
    ) -> SearchedAtOnce | None:
        """Search text, names and, by `vector` (model, float32[dim]), meanings: `limit` hits of each.

        `links` edges at most at the hits; `first` nodes at most where nothing is found.
        """
        ...

    async def read_at_once(
        self, graph_key: str, keys: Sequence[str], *, max_depth: int, limit: int
    ) -> tuple[Subgraph, list[NodeTypeConfig]] | None:
        """Return the nodes around these, in any direction, and the stored types of them."""
        ...
