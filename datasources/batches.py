"""The optional seam of a source to which every question is a round trip: many questions in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from datasources.hits import FIELDS, Hit, Vector, VectorQuery
from datasources.links import Link
from datasources.types import NodeTypeConfig, Subgraph

Names = Mapping[str, Sequence[str]]
"""What nodes are called, aliases too, by key."""

FURTHER_SHARE = 3
"""A second step over the edges begins at one node for so many candidates of the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """A search for text, names and, by `vector` (model, float32[dim]), meanings: `limit`
    hits of each.

    `links` edges at most are wanted at the hits, and those of the best nodes that they lead to (one
    in `FURTHER_SHARE` of the limit), but for nodes of more than `max_degree`; `first` nodes at most
    where nothing is found.
    """

    query: str = ""
    vector: tuple[str, Vector] | None = None
    limit: int
    min_score: float = 0.0
    links: int = 0
    max_degree: int = 0
    first: int = 0


def vector_queries(asked: BatchRequest) -> list[VectorQuery]:
    """Return the searches by vector, of all text and of names; none where no vector is given."""
    if asked.vector is None:
        return []
    model, vector = asked.vector
    return [
        VectorQuery(
            vector=vector, model=model, limit=asked.limit, min_score=asked.min_score, field=field
        )
        for field in FIELDS
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHits:
    """Best hits of the four searches, the edges at them by key, the first nodes where
    nothing is found.

    `labels` are those of `links`; `names` is what the hits of words are called, aliases too.
    `further` are the edges of the best nodes that `links` lead to, as a `NodeChoice` reads them.
    """

    text: list[Hit]
    name: list[Hit]
    vector: list[Hit]
    name_vector: list[Hit]
    links: list[Link] = field(default_factory=list[Link])
    labels: list[str] = field(default_factory=list[str])
    further: list[Link] = field(default_factory=list[Link])
    names: Names = field(default_factory=dict[str, Sequence[str]])
    first: list[str] = field(default_factory=list[str])


@runtime_checkable
class BatchSource(Protocol):
    """Optional ability of a source to which every question is a round trip: a retrieval in
    two of them.

    Decision: None means that it cannot be done for this graph now; the caller then asks one by one.
    Raises: GraphNotFound.
    """

    async def search_at_once(self, graph_key: str, wanted: BatchRequest) -> BatchHits | None:
        """Answer the searches of a retrieval."""
        ...

    async def read_at_once(
        self, graph_key: str, keys: Sequence[str], *, max_depth: int, limit: int
    ) -> tuple[Subgraph, list[NodeTypeConfig]] | None:
        """Return the nodes around these, in any direction, and the stored types of them."""
        ...
