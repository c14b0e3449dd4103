"""Nodes found in all graphs of a workspace.

Their scores are those of one large graph: words count by all nodes of the workspace, and
of it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from datasources.types import Node, ScoredNode

NodeName = tuple[str, str]
"""A graph's key and a node's."""
WideHit = tuple[NodeName, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNode:
    """A node of one of the graphs of a workspace."""

    graph_key: str
    graph_name: str
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class WideHits:
    """Best hits of four searches over all graphs, best first, and the nodes of the best."""

    text: Sequence[WideHit] = ()
    name: Sequence[WideHit] = ()
    vector: Sequence[WideHit] = ()
    name_vector: Sequence[WideHit] = ()
    nodes: Mapping[NodeName, FoundNode] = field(default_factory=dict[NodeName, FoundNode])

    @property
    def names(self) -> list[NodeName]:
        """All that is found, each once."""
        return list(dict.fromkeys(name for of in SEARCHES for name, _ in getattr(self, of)))


SEARCHES = ("text", "name", "vector", "name_vector")
"""The lists of WideHits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphHits:
    """What was found in one graph, best first. Scores are relative to the best of all graphs."""

    key: str
    name: str
    score: float
    hits: Sequence[ScoredNode]


def joined(parts: Sequence[WideHits], limit: int) -> WideHits:
    """Return the best hits of several searches."""

    def best(of: str) -> list[WideHit]:
        found: Iterator[WideHit] = (hit for part in parts for hit in getattr(part, of))
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit]

    return replace(WideHits(), **{of: best(of) for of in SEARCHES})


def with_nodes(hits: WideHits, nodes: Mapping[NodeName, FoundNode]) -> WideHits:
    """Return the hits of the nodes that are there, with these."""
    kept = {of: [hit for hit in getattr(hits, of) if hit[0] in nodes] for of in SEARCHES}
    return replace(hits, nodes=nodes, **kept)
