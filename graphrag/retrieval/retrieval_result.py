"""Options and result of a retrieval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from datasources.hits import Hit
from datasources.types import Edge, Graph, NodeTypeConfig, ScoredNode
from graphrag.retrieval.rank import RankOptions

Mode = Literal["hybrid", "vector", "text"]

# Notes of a retrieval
GRAPH_ORDER = "graph-order"  # no search found anything: the result is the first nodes of the graph
NO_VECTORS = "no-vectors"
EMBEDDING_FAILED = "embedding-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalOptions:
    """Mode and limits of a retrieval.

    `min_cosine` is the smallest cosine of a hit in vector mode; `seeds` is the number of hits whose
    neighbourhood is read there, up to `max_depth` edges away. If no cosine reaches `min_cosine` in
    hybrid mode, the nodes are marked as weak. Nodes of `exclude_types` are left out of the result,
    but their edges are walked.
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
        """Number of nodes to search for, with a reserve for notes and excluded types."""
        return 2 * self.max_nodes


TOP_HITS = 10  # of each search that are kept with a result


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFound:
    """What one search of a retrieval found: the number of its hits, and its best TOP_HITS."""

    name: str
    hits: int
    best: tuple[Hit, ...]

    @staticmethod
    def of(name: str, hits: Sequence[Hit]) -> SearchFound:
        return SearchFound(name=name, hits=len(hits), best=tuple(hits[:TOP_HITS]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """The nodes and edges retrieved, most relevant first.

    Units: `ms` holds milliseconds by stage (embed, search, read). `notes` are codes of what was not
    available. `canvas_notes` are notes and frames of the graph; they do not count as nodes.
    `searches` is what each search found before the hits were ranked together.
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
    searches: tuple[SearchFound, ...] = ()
    cached: bool = False

    @property
    def words_only(self) -> bool:
        """True if the embedding service failed, so that only words were searched."""
        return any(note.startswith(EMBEDDING_FAILED) for note in self.notes)
