"""What a retrieval is asked for, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from datasources.types import Edge, Graph, NodeTypeConfig, ScoredNode
from graphrag.retrieval.rank import RankOptions

Mode = Literal["hybrid", "vector", "text"]
GRAPH_ORDER = "graph-order"
"""A note: no search found anything, so the first nodes of the graph are given."""
NO_VECTORS = "no-vectors"
EMBEDDING_FAILED = "embedding-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalOptions:
    """What to retrieve. `min_cosine` bounds vector mode; `seeds` and `max_depth` its surroundings.

    Where no cosine reaches it, what hybrid mode finds is called weak.

    Nodes of `exclude_types` are left out of the result (they are still walked over).
    """

    mode: Mode = "hybrid"
    max_nodes: int = 20
    max_depth: int = 2
    seeds: int = 5
    min_cosine: float = 0.3
    exclude_types: tuple[str, ...] = ()
    rank: RankOptions = field(default_factory=RankOptions)

    @property
    def asked(self) -> int:
        """How many nodes to look for: some to spare for notes and for types that are left out."""
        return 2 * self.max_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """What was found, most relevant first.

    Units: `ms` holds milliseconds by stage (embed, search, read). `notes` name what
    was not available. `canvas_notes` are notes and frames of the graph, which take no place of
    a node.
    """

    graph: Graph
    question: str
    mode: Mode
    nodes: tuple[ScoredNode, ...]
    edges: tuple[Edge, ...]
    configs: Mapping[str, NodeTypeConfig]
    notes: tuple[str, ...] = ()
    canvas_notes: tuple[ScoredNode, ...] = ()
    ms: Mapping[str, float] = field(default_factory=dict[str, float])
    cached: bool = False

    @property
    def words_only(self) -> bool:
        """Whether the embedding service failed, so that words alone were searched."""
        return any(note.startswith(EMBEDDING_FAILED) for note in self.notes)
