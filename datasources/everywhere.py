"""Nodes found in all graphs of a workspace, and the scores of those that a store has picked out.

The scores are those of one large graph: words count by all nodes of the workspace, and of it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasources.lexical import score_texts
from datasources.types import Node, ScoredNode, Vector
from datasources.vectors import normalize

NodeName = tuple[str, str]
"""A graph's key and a node's."""
WideHit = tuple[NodeName, float]
MAX_CANDIDATES = 20_000
MAX_VECTORS = 100_000
"""So many nodes with a word, and so many vectors, are looked at for one question to all small graphs."""


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


def word_hits(
    names: Sequence[NodeName],
    texts: Sequence[Sequence[str]],
    counts: Mapping[str, int],
    size: tuple[int, int],
    limit: int,
) -> list[WideHit]:
    """Return the best of these nodes by BM25. `counts`: how many nodes have each term.

    `texts` are their words; `size`: how many nodes there are, and how many words they have together.
    """
    if not names or not counts:
        return []
    nodes = max(1, size[0])
    return best(names, score_texts(texts, counts, nodes, size[1] / nodes), limit, above=0.0)


def vector_hits(names: Sequence[NodeName], rows: Vector, vector: Vector, limit: int) -> list[WideHit]:
    """Return the nodes of greatest cosine, none below 0. Shapes: float32[names, dim], float32[dim]."""
    return unit_hits(names, normalize(rows), vector, limit) if names else []


def unit_hits(names: Sequence[NodeName], unit: Vector, vector: Vector, limit: int) -> list[WideHit]:
    """Return what `vector_hits` does, of vectors at length 1."""
    if not names or not np.isfinite(vector).all():
        return []
    return best(names, unit @ normalize(vector), limit)


def best(
    names: Sequence[NodeName], scores: NDArray[np.floating[Any]], limit: int, *, above: float = -1e-9
) -> list[WideHit]:
    """Return the names of the greatest scores, ties by name."""
    some = np.flatnonzero(scores > above)
    if len(some) > 4 * limit > 0:  # of the others none is among the best, also where some are equal
        least = np.partition(scores[some], len(some) - limit)[len(some) - limit]
        some = some[scores[some] >= least]
    found = sorted((-float(scores[row]), names[row]) for row in some.tolist())[: max(0, limit)]
    return [(name, -score) for score, name in found]


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
