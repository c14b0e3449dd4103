"""Searches one graph for one question, in hybrid or vector mode: asks the source,
fuses, walks, reads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from datasources.base import LinkTables, NamedHits
from datasources.batches import BatchHits, BatchRequest, vector_queries
from datasources.hits import Hit, Vector
from datasources.links import LinkTable, NodeChoice
from datasources.types import Edge, ScoredNode
from graphrag.retrieval.asked_words import AskedWords, read_question
from graphrag.retrieval.batch_search import SearchSource
from graphrag.retrieval.coverage import compared, lift
from graphrag.retrieval.path_search import LabelVectors, find_paths, named_hits
from graphrag.retrieval.rank import Ranked, apart, frontier, fuse, rank
from graphrag.retrieval.reference_links import ReferenceLinks
from graphrag.retrieval.retrieval_result import GRAPH_ORDER, NO_VECTORS, RetrievalOptions
from graphrag.retrieval.twins import Twins, namesakes, one_place_each, twins_among
from tools.checks.checked_graph import NO_STEPS

MAX_LINKS = 5_000
MAX_DEGREE = 50
"""A second step does not go over nodes of more edges: they lead everywhere, and say little."""


def batch_request(
    query: str, vector: tuple[str, Vector] | None, options: RetrievalOptions
) -> BatchRequest:
    """Return what a retrieval asks first, for a source that answers it in one round trip."""
    near = options.mode == "vector"
    return BatchRequest(
        query=query,
        vector=None if options.mode == "text" else vector,
        limit=options.max_nodes if near else options.rank.candidates,
        min_score=options.min_cosine if near else 0.0,
        links=0 if near or options.rank.damping <= 0 else MAX_LINKS,
        max_degree=MAX_DEGREE,
        first=options.asked,
    )


Found = tuple[list[ScoredNode], list[ScoredNode], list[Edge], float]
"""Nodes and the notes and frames beside them, best first; edges; when the search was done."""


@dataclass(slots=True)
class GraphSearch:
    """One retrieval under way. `tables` are what ranking reads of the source; `words` are those of
    the query that are searched, as `stems`; `vector` is (model, float32[dim]); `notes` is added to;
    `names` are what the best hits of words are called.
    """

    source: SearchSource
    tables: LinkTables
    graph_key: str
    query: str
    words: str
    stems: str
    vector: tuple[str, Vector] | None
    options: RetrievalOptions
    notes: list[str]
    labels: LabelVectors
    names: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    asked: AskedWords | None = None

    async def hybrid_mode(self, references: ReferenceLinks) -> Found:
        options = self.options.rank
        named: NamedHits = named_hits if options.damping > 0 else lambda _text, _name: ()
        batch = batch_request(self.stems, self.vector, self.options)
        signals = self._signals(await self.tables.search_hits(self.graph_key, batch, named))
        fused = fuse(signals, options.weights, options.candidates)
        if not fused:
            return await self._first_nodes()
        fused, walked = self._walked_first(fused)
        keys = list(fused)
        vectors = None if self.vector is None else self.labels
        paths: Mapping[str, float] = {}  # the ends of typed paths from what the question names
        if self.asked is not None:
            paths = await find_paths(
                self.source, self.graph_key, self.asked, keys[:walked], vectors
            )
        ranked: dict[str, Ranked] = {}
        held = compared(signals["text"])
        most = self.options.max_nodes
        places, spare = most + min(namesakes(self.names), most // 4), self.options.asked - most
        searched = 0.0

        def choose(links: LinkTable) -> list[str]:
            nonlocal searched
            found = rank(signals, links, options, places, fused, references, paths, spare)
            ranked.update((r.key, r) for r in found)
            for key in held:
                ranked.setdefault(key, Ranked(key=key, score=0.0, reasons=("text",)))
            searched = time.perf_counter()
            return list(ranked)

        def further(links: LinkTable) -> list[str]:
            return frontier(links, fused, walked, options)

        wanted = NodeChoice(
            keys=keys,
            walked=walked,
            further=further,
            choose=choose,
            limit=MAX_LINKS,
            max_degree=MAX_DEGREE,
        )
        around = await self.tables.get_chosen(self.graph_key, wanted)
        cosines = [
            hits[0].score for name in ("vector", "name-vector") if (hits := signals.get(name))
        ]
        weak = bool(cosines) and max(cosines) < self.options.min_cosine
        nodes = [
            ScoredNode(node=node, score=found.score, reasons=found.reasons, weak=weak)
            for node in around.nodes
            for found in (ranked[node.key],)
        ]
        nodes = lift(nodes, self.query, self.words, held)
        twins = twins_among(nodes, around.edges)
        return *self._cut(nodes, around.edges, twins), searched

    async def vector_mode(self) -> Found:
        o = self.options
        near = vector_queries(batch_request(self.stems, self.vector, o))
        hits = await self.source.search_vectors(self.graph_key, near[0]) if near else []
        reason = "vector"
        if not hits:
            if self.vector is not None:
                self.notes.append("no-vector-match")
            hits = await self.source.search_text(self.graph_key, self.stems, limit=o.max_nodes)
            reason = "text"
        if not hits:
            return await self._first_nodes()
        searched = time.perf_counter()
        seeds = [hit.key for hit in hits[: o.seeds]]
        around = await self.source.get_neighborhood(
            self.graph_key, seeds, max_depth=o.max_depth, direction="any", limit=self.options.asked
        )
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
        return *self._cut(nodes, around.edges), searched

    def _signals(self, found: BatchHits) -> Mapping[str, Sequence[Hit]]:
        """Return what is ranked; note what the best hits of words are called, and so
        what is asked.
        """
        count = self.options.rank.candidates
        self.names = found.names
        if self.options.rank.damping > 0:
            self.asked = read_question(self.query, self.names)
        signals = {"text": found.text, "name": found.name}
        if self.vector is None:
            return signals
        if not found.vector:
            self.notes.append(NO_VECTORS)
        near = {
            "vector": apart(found.vector, count),
            "name-vector": apart(found.name_vector, count),
        }
        return signals | near

    def _walked_first(self, fused: dict[str, float]) -> tuple[dict[str, float], int]:
        """Return the nodes with those first whose edges are walked, the best, and how
        many these are.
        """
        most = self.options.rank.candidates
        if self.options.rank.damping <= 0:
            return fused, 0
        if len(fused) <= most:
            return fused, len(fused)
        found = list(fused.items())
        scores = np.fromiter(fused.values(), dtype=np.float64, count=len(found))
        rows: list[int] = np.argpartition(-scores, most).tolist()
        return dict(map(found.__getitem__, rows)), most

    async def _first_nodes(self) -> Found:
        self.notes.append(GRAPH_ORDER)
        searched = time.perf_counter()
        first = await self.source.get_nodes(self.graph_key, limit=self.options.asked)
        keys = [node.key for node in first]
        inside = await self.source.get_neighborhood(
            self.graph_key, keys, max_depth=0, limit=len(keys)
        )
        scored = [ScoredNode(node=node, score=0.0, reasons=("graph",)) for node in inside.nodes]
        return *self._cut(scored, inside.edges), searched

    def _cut(
        self, nodes: list[ScoredNode], edges: Sequence[Edge], twins: Twins = frozenset()
    ) -> tuple[list[ScoredNode], list[ScoredNode], list[Edge]]:
        """Returns the best steps, the notes and frames that were as good, and edges between steps.

        A note takes no place of a step. Where there are only notes, they are the result.
        """
        most, left_out = self.options.max_nodes, self.options.exclude_types
        found = [scored for scored in nodes if scored.node.type not in left_out]
        found = one_place_each(found, twins)
        kept = [scored for scored in found if scored.node.type not in NO_STEPS][:most]
        notes = [scored for scored in found[:most] if scored.node.type in NO_STEPS]
        if not kept:
            kept, notes = notes, []
        keys = {scored.node.key for scored in kept}
        return kept, notes, [edge for edge in edges if edge.source in keys and edge.target in keys]
