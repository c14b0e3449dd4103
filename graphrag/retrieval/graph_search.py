"""Searches one graph for one question, in hybrid or vector mode: asks the source, fuses, walks, reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from datasources.base import Further, LinkTables, NamedHits
from datasources.batches import BatchRequest
from datasources.held_reads import search_words
from datasources.hits import Hit, SearchField, Vector, VectorQuery
from datasources.links import LinkTable
from datasources.types import Edge, Node, ScoredNode, Subgraph
from graphrag.retrieval.asked_words import AskedWords, read_question
from graphrag.retrieval.batch_search import BatchAnswers, SearchSource
from graphrag.retrieval.coverage import compared, lift
from graphrag.retrieval.crowding import apart
from graphrag.retrieval.path_search import LabelVectors, find_paths, named_hits
from graphrag.retrieval.rank import Ranked, frontier, fuse, rank
from graphrag.retrieval.reference_links import ReferenceLinks
from graphrag.retrieval.retrieval_result import GRAPH_ORDER, NO_VECTORS, RetrievalOptions
from graphrag.retrieval.twins import Twins, namesakes, one_place_each, twins_among

FIELDS: tuple[SearchField, ...] = ("content", "name")
MAX_LINKS = 5_000
MAX_DEGREE = 50
"""A second step does not go over nodes of more edges: they lead everywhere, and say little."""


def batch_request(query: str, vector: tuple[str, Vector] | None, options: RetrievalOptions) -> BatchRequest:
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


Found = tuple[list[ScoredNode], Sequence[Edge], float]


@dataclass(slots=True)
class GraphSearch:
    """One retrieval under way. `tables` is the source, where it has this ability; `words` are those of the
    query that are searched, as `stems`; `vector` is (model, float32[dim]); `notes` is added to; `names` are
    what the best hits of words are called."""

    source: SearchSource
    tables: LinkTables | None
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
        signals = await self._signals()
        options = self.options.rank
        fused = fuse(signals, options.weights, options.candidates)
        if not fused:
            return await self._first_nodes()
        walked = self._walked(fused)
        paths = await self._paths(walked)
        ranked: dict[str, Ranked] = {}
        held = compared(signals["text"])
        asked = self.options.asked + min(namesakes(self.names), self.options.max_nodes // 4)
        searched = 0.0

        def choose(links: LinkTable) -> list[str]:
            nonlocal searched
            found = rank(signals, links, options, asked, fused, references, paths)
            ranked.update((r.key, r) for r in found)
            for key in held:
                ranked.setdefault(key, Ranked(key=key, score=0.0, reasons=("text",)))
            searched = time.perf_counter()
            return list(ranked)

        def further(links: LinkTable) -> list[str]:
            return frontier(links, fused, walked, options)

        around = await self._chosen(walked, further, choose)
        cosines = [hits[0].score for name in ("vector", "name-vector") if (hits := signals.get(name))]
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
        hits, reason = await self._vectors("content", o.max_nodes, o.min_cosine), "vector"
        if not hits:
            if self.vector is not None:
                self.notes.append("no-vector-match")
            hits, reason = (
                await self.source.search_text(self.graph_key, self.stems, limit=o.max_nodes),
                "text",
            )
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

    async def _signals(self) -> dict[str, list[Hit]]:
        count = self.options.rank.candidates
        near = [partial(self._vectors, field, count, 0.0) for field in FIELDS]
        if self.tables is not None and self.tables.answers_at_once(self.graph_key):
            (content, name), vector, name_vector = await self._words(), await near[0](), await near[1]()
        else:  # words first: what their hits are called is read while vectors are searched
            (content, name), vector, name_vector = await asyncio.gather(self._words(), near[0](), near[1]())
        if self.vector is None:
            return {"text": content, "name": name}
        if not vector:
            self.notes.append(NO_VECTORS)
        signals = {"vector": apart(vector, count), "name-vector": apart(name_vector, count)}
        return {"text": content, "name": name, **signals}

    async def _words(self) -> tuple[list[Hit], list[Hit]]:
        """Search for words in all text and in names, and note what their best hits are called.

        What the question says of these is read at once, while vectors are searched.
        """
        source, key, count = self.source, self.graph_key, self.options.rank.candidates
        named: NamedHits = named_hits if self.options.rank.damping > 0 else lambda _text, _name: ()
        if isinstance(source, BatchAnswers):
            text, name = source.found.text[:count], source.found.name[:count]
            self.names = {hit: source.found.names.get(hit, ()) for hit in named(text, name)}
        elif self.tables is not None:
            text, name, self.names = await self.tables.search_words(key, self.stems, limit=count, named=named)
        else:
            text, name, self.names = await search_words(source, key, self.stems, count, named)
        if self.options.rank.damping > 0:
            self.asked = read_question(self.query, self.names)
        return text, name

    async def _vectors(self, field: Literal["content", "name"], limit: int, min_score: float) -> list[Hit]:
        if self.vector is None:
            return []
        model, vector = self.vector
        query = VectorQuery(vector=vector, model=model, limit=limit, min_score=min_score, field=field)
        return await self.source.search_vectors(self.graph_key, query)

    async def _paths(self, walked: Sequence[str]) -> dict[str, float]:
        """Return the ends of typed paths from what the question names, with their scores."""
        if self.asked is None:
            return {}
        vectors = self.labels if self.vector is not None else None
        return await find_paths(self.source, self.graph_key, self.asked, walked, vectors)

    def _walked(self, fused: Mapping[str, float]) -> list[str]:
        """Return the nodes whose edges are walked: the best, or none."""
        if self.options.rank.damping <= 0:
            return []
        keys, most = list(fused), self.options.rank.candidates
        if len(keys) > most:
            scores = np.fromiter(fused.values(), dtype=np.float64, count=len(keys))
            rows: list[int] = np.argpartition(-scores, most)[:most].tolist()
            keys = [keys[row] for row in rows]
        return keys

    async def _chosen(
        self, keys: Sequence[str], further: Further, choose: Callable[[LinkTable], list[str]]
    ) -> Subgraph:
        read = self.source
        if self.tables is not None:
            return await self.tables.get_chosen(
                self.graph_key, keys, further, choose, limit=MAX_LINKS, max_degree=MAX_DEGREE
            )
        first = await read.get_links(self.graph_key, keys, limit=MAX_LINKS + 1) if keys else []
        if len(first) > MAX_LINKS:  # hubs lead everywhere, and the edges of the others have to count
            first = await read.get_links(self.graph_key, keys, max_degree=MAX_LINKS // len(keys))
        links = LinkTable.of(first)
        if more := further(links):
            found = await read.get_links(self.graph_key, more, max_degree=MAX_DEGREE)
            links = links.joined(LinkTable.of(found))
        chosen = choose(links)
        return await self.source.get_neighborhood(self.graph_key, chosen, max_depth=0, limit=len(chosen))

    async def _read(self, keys: Sequence[str]) -> tuple[Sequence[Node], Sequence[Edge]]:
        inside = await self.source.get_neighborhood(self.graph_key, keys, max_depth=0, limit=len(keys))
        return inside.nodes, inside.edges

    async def _first_nodes(self) -> Found:
        self.notes.append(GRAPH_ORDER)
        searched = time.perf_counter()
        first = await self.source.get_nodes(self.graph_key, limit=self.options.asked)
        nodes, edges = await self._read([node.key for node in first])
        scored = [ScoredNode(node=node, score=0.0, reasons=("graph",)) for node in nodes]
        return *self._cut(scored, edges), searched

    def _cut(
        self, nodes: list[ScoredNode], edges: Sequence[Edge], twins: Twins = frozenset()
    ) -> tuple[list[ScoredNode], list[Edge]]:
        left_out = self.options.exclude_types
        shown = [scored for scored in nodes if scored.node.type not in left_out]
        kept = one_place_each(shown, twins)[: self.options.max_nodes]
        keys = {scored.node.key for scored in kept}
        return kept, [edge for edge in edges if edge.source in keys and edge.target in keys]
