"""Searches one graph for one question, in hybrid or vector mode."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from datasources.base import GraphDataSource
from datasources.hits import Hit, Vector
from datasources.links import LinkTable
from datasources.search import SearchHits, SearchRequest
from datasources.types import Edge, Graph, NodeTypeConfig, ScoredNode, Subgraph
from graphrag.retrieval.asked_words import read_question
from graphrag.retrieval.coverage import compared, lift
from graphrag.retrieval.hit_edges import MAX_DEGREE, MAX_LINKS, HitEdges
from graphrag.retrieval.rank import Ranked, fuse, rank
from graphrag.retrieval.retrieval_result import (
    GRAPH_ORDER,
    NO_VECTORS,
    RetrievalOptions,
    SearchFound,
)
from graphrag.retrieval.signals.edge_signal import edges
from graphrag.retrieval.signals.path_signal import LabelVectors, find_paths
from graphrag.retrieval.signals.reference_signal import NO_REFERENCES, ReferenceIndex
from graphrag.retrieval.signals.signal_table import HIT_SIGNALS, Conditions, signals_for
from graphrag.retrieval.signals.twin_signal import Twins, namesakes, one_place_each, twins_among
from tools.checks.checked_graph import NO_STEPS
from tools.references import calls_by_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The result of one search: nodes and the notes and frames beside them, best first; the edges
    between the nodes; the stored types of all that was read.

    `searched` is the time at which the ranking was complete, in seconds of `time.perf_counter`.
    `searches` is what each search found.
    """

    nodes: Sequence[ScoredNode]
    notes: Sequence[ScoredNode]
    edges: Sequence[Edge]
    configs: Sequence[NodeTypeConfig]
    searched: float
    searches: tuple[SearchFound, ...] = ()


@dataclass(slots=True)
class GraphSearch:
    """One search in progress. `words` are the words of the query to search for, `stems` their
    stems; `vector` is (model, float32[dim]). The search appends to `notes`.
    """

    source: GraphDataSource
    graph: Graph
    query: str
    words: str
    stems: str
    vector: tuple[str, Vector] | None
    options: RetrievalOptions
    notes: list[str]
    labels: LabelVectors
    references: ReferenceIndex

    def _request(self) -> SearchRequest:
        walks = self.options.rank.damping > 0
        return SearchRequest(
            query=self.stems,
            vector=None if self.options.mode == "text" else self.vector,
            limit=self.options.rank.candidates,
            with_names=walks,
            first=self.options.asked,
            links=MAX_LINKS if walks else 0,
            max_degree=MAX_DEGREE,
        )

    async def hybrid_mode(self) -> Findings:
        options = self.options.rank
        hits = await self.source.search(self.graph.key, self._request())
        used = self._used(hits)
        signals = {
            name: signal(hits, options.candidates)
            for name, signal in HIT_SIGNALS.items()
            if name in used
        }
        fused = fuse(signals, options.weights, options.candidates)
        if not fused:
            return await self._first_nodes(hits.first)
        fused, walked = self._walked_first(fused)
        reads = HitEdges(source=self.source, graph_key=self.graph.key, sent=hits.links)
        paths: Mapping[str, float] = {}
        if "paths" in used:
            paths = await self._paths(reads, hits, list(fused)[:walked])
        links = LinkTable.of((), fused)
        if "edges" in used:
            second_step = "second-step" in used
            links = await edges(reads, fused, walked, options, second_step=second_step)
        references = NO_REFERENCES
        if "references" in used:
            references = await self.references.of(self.graph)
        most = self.options.max_nodes
        places, spare = most + min(namesakes(hits.names), most // 4), self.options.asked - most
        best = rank(signals, links, options, places, fused, references, paths, spare)
        findings = await self._shown(signals, best, finds_twins="twins" in used)
        return replace(findings, searches=_searches(signals, paths))

    def _used(self, hits: SearchHits) -> frozenset[str]:
        """Returns the signals that are used, and notes if the graph has no vectors."""
        if self.vector is not None and not hits.vector:
            self.notes.append(NO_VECTORS)
        return signals_for(
            Conditions(
                has_vector=bool(hits.vector or hits.name_vector),
                walks=self.options.rank.damping > 0,
                refers_by_name=calls_by_name(self.graph),
                nodes=hits.nodes,
            )
        )

    async def _paths(
        self, reads: HitEdges, hits: SearchHits, near: Sequence[str]
    ) -> Mapping[str, float]:
        """Returns the ends of typed paths that start at nodes named in the question."""
        asked = read_question(self.query, hits.names)
        labels = None if self.vector is None else self.labels
        return await find_paths(reads, asked, near, labels)

    async def _shown(
        self, signals: Mapping[str, Sequence[Hit]], best: Sequence[Ranked], *, finds_twins: bool
    ) -> Findings:
        """Reads the ranked nodes and lifts those that contain nearly all words of the question."""
        ranked = {one.key: one for one in best}
        compared_keys = compared(signals["text"])
        for key in compared_keys:
            ranked.setdefault(key, Ranked(key=key, score=0.0, reasons=("text",)))
        searched = time.perf_counter()
        around = await self._read(list(ranked), depth=0, limit=len(ranked))
        is_weak = self._is_weak(signals)
        nodes = [
            ScoredNode(node=node, score=one.score, reasons=one.reasons, weak=is_weak)
            for node in around.nodes
            for one in (ranked[node.key],)
        ]
        nodes = lift(nodes, self.query, self.words, compared_keys)
        twins: Twins = twins_among(nodes, around.edges) if finds_twins else frozenset()
        return self._cut(nodes, around, searched, twins)

    def _is_weak(self, signals: Mapping[str, Sequence[Hit]]) -> bool:
        """Returns True if vectors were compared and none is near the question."""
        best = [hits[0].score for name in ("vector", "name-vector") if (hits := signals.get(name))]
        return bool(best) and max(best) < self.options.min_cosine

    async def _read(self, keys: Sequence[str], *, depth: int, limit: int) -> Subgraph:
        return await self.source.get_neighborhood(
            self.graph.key, keys, max_depth=depth, limit=limit, with_types=True
        )

    async def vector_mode(self) -> Findings:
        o = self.options
        near = SearchRequest(
            vector=self.vector, limit=o.max_nodes, min_score=o.min_cosine, fields=("content",)
        )
        hits: Sequence[Hit] = ()
        first: Sequence[str] = ()
        reason = "vector"
        if self.vector is not None:
            hits = (await self.source.search(self.graph.key, near)).vector
        if not hits:
            if self.vector is not None:
                self.notes.append("no-vector-match")
            words = replace(near, vector=None, query=self.stems, first=o.asked)
            by_words = await self.source.search(self.graph.key, words)
            hits = by_words.text
            first = by_words.first
            reason = "text"
        if not hits:
            return await self._first_nodes(first)
        searched = time.perf_counter()
        seeds = [hit.key for hit in hits[: o.seeds]]
        around = await self._read(seeds, depth=o.max_depth, limit=o.asked)
        best = hits[0].score
        score = {hit.key: hit.score / best for hit in hits}
        nodes = [
            ScoredNode(
                node=node,
                score=score.get(node.key, 0.0),
                reasons=(reason,) if node.key in score else (f"depth-{around.depths[node.key]}",),
                weak=self.vector is not None and reason == "text",
            )
            for node in around.nodes
        ]
        found = self._cut(nodes, around, searched)
        return replace(found, searches=(SearchFound.of(reason, hits),))

    def _walked_first(self, fused: dict[str, float]) -> tuple[dict[str, float], int]:
        """Returns the nodes with the best first, and the number of those whose edges are walked."""
        most = self.options.rank.candidates
        if self.options.rank.damping <= 0:
            return fused, 0
        if len(fused) <= most:
            return fused, len(fused)
        scored = list(fused.items())
        scores = np.fromiter(fused.values(), dtype=np.float64, count=len(scored))
        rows: list[int] = np.argpartition(-scores, most).tolist()
        return dict(map(scored.__getitem__, rows)), most

    async def _first_nodes(self, sent: Sequence[str]) -> Findings:
        """Returns the first nodes of the graph. The store sends their keys along if it finds
        nothing at all, but not if it finds only nodes that score 0.
        """
        self.notes.append(GRAPH_ORDER)
        searched = time.perf_counter()
        keys = sent
        if not keys:
            first = await self.source.get_nodes(self.graph.key, limit=self.options.asked)
            keys = [node.key for node in first]
        inside = await self._read(keys, depth=0, limit=len(keys))
        scored = [ScoredNode(node=node, score=0.0, reasons=("graph",)) for node in inside.nodes]
        return self._cut(scored, inside, searched)

    def _cut(
        self,
        nodes: Sequence[ScoredNode],
        around: Subgraph,
        searched: float,
        twins: Twins = frozenset(),
    ) -> Findings:
        """Returns the best steps, the notes and frames among the best nodes, and the steps' edges.

        Notes do not count towards the maximum number of steps. If there are only notes, they are
        returned as nodes.
        """
        most, left_out = self.options.max_nodes, self.options.exclude_types
        wanted = [scored for scored in nodes if scored.node.type not in left_out]
        wanted = one_place_each(wanted, twins)
        kept = [scored for scored in wanted if scored.node.type not in NO_STEPS][:most]
        notes = [scored for scored in wanted[:most] if scored.node.type in NO_STEPS]
        if not kept:
            kept, notes = notes, []
        keys = {scored.node.key for scored in kept}
        edges = [edge for edge in around.edges if edge.source in keys and edge.target in keys]
        return Findings(
            nodes=kept, notes=notes, edges=edges, configs=around.configs, searched=searched
        )


def _searches(
    signals: Mapping[str, Sequence[Hit]], paths: Mapping[str, float]
) -> tuple[SearchFound, ...]:
    """Returns what each search found, without those that found nothing."""
    ends = sorted(paths.items(), key=lambda end: -end[1])
    every = {**signals, "paths": [Hit(key, score) for key, score in ends]}
    return tuple(SearchFound.of(name, hits) for name, hits in every.items() if hits)
