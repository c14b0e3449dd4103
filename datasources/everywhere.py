"""Hits in all graphs of a workspace.

Scores are those of one large graph: words are weighted by their frequency in all nodes of the
workspace. Nodes of other workspaces do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from datasources.hits import Hit
from datasources.search import SearchHits
from datasources.types import Node, ScoredNode

NodeName = tuple[str, str]  # keys of a graph and of a node
WideHit = tuple[NodeName, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNode:
    """A node of one of the graphs of a workspace."""

    graph_key: str
    graph_name: str
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class WideHits:
    """The hits of four searches over all graphs, best first, and their nodes."""

    text: Sequence[WideHit] = ()
    name: Sequence[WideHit] = ()
    vector: Sequence[WideHit] = ()
    name_vector: Sequence[WideHit] = ()
    nodes: Mapping[NodeName, FoundNode] = field(default_factory=dict[NodeName, FoundNode])

    @property
    def names(self) -> list[NodeName]:
        """The nodes of all hits, without duplicates."""
        return list(dict.fromkeys(name for search in SEARCHES for name, _ in getattr(self, search)))


SEARCHES = ("text", "name", "vector", "name_vector")  # fields of WideHits with hits


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphHits:
    """The hits of one graph, best first. Scores are relative to the best of all graphs."""

    key: str
    name: str
    score: float
    hits: Sequence[ScoredNode]


def of_graph(graph_key: str, hits: SearchHits) -> WideHits:
    """Returns the hits of one graph as hits of a workspace."""

    def wide(graph_hits: Sequence[Hit]) -> list[WideHit]:
        return [((graph_key, hit.key), hit.score) for hit in graph_hits]

    return WideHits(
        text=wide(hits.text),
        name=wide(hits.name),
        vector=wide(hits.vector),
        name_vector=wide(hits.name_vector),
    )


def joined(parts: Sequence[WideHits], limit: int) -> WideHits:
    """Returns the best hits of several searches."""

    def best(search: str) -> list[WideHit]:
        hits: Iterator[WideHit] = (hit for part in parts for hit in getattr(part, search))
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]

    return replace(WideHits(), **{search: best(search) for search in SEARCHES})


def with_nodes(hits: WideHits, nodes: Mapping[NodeName, FoundNode]) -> WideHits:
    """Returns the hits of these nodes, with the nodes."""
    kept = {
        search: [hit for hit in getattr(hits, search) if hit[0] in nodes] for search in SEARCHES
    }
    return replace(hits, nodes=nodes, **kept)
