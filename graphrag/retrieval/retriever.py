"""Finds what a question needs of a graph: searches, spreads over the edges, reads the subgraph.

Two modes. `hybrid` fuses text, name and vector searches and walks the edges (`graphrag.retrieval.rank`);
`vector` is the plain form: nearest vectors, then breadth-first surroundings. Neither calls a
language model. Whatever part is not available (no embedder, no vectors, a failing embedding
service) is left out and named in `Retrieval.notes`; the question is still answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from datasources.base import Further, GraphDataSource, LinkTables
from datasources.batches import BatchRequest
from datasources.builtin_types import BUILTIN_TYPES
from datasources.text import stemmed
from datasources.types import Edge, Graph, Hit, LinkTable, Node, NodeTypeConfig, ScoredNode, Subgraph, Vector
from datasources.vectors import normalize
from graphrag.embedding.base import AskedText, EmbeddingError, EmbeddingProvider
from graphrag.embedding.language import is_english, sought
from graphrag.embedding.local import MODEL as LOCAL_MODEL
from graphrag.retrieval.batch_search import SearchSource, in_few_trips
from graphrag.retrieval.coverage import compared, lift
from graphrag.retrieval.crowding import apart
from graphrag.retrieval.path_search import LabelVectors, find_paths, names_of_hits
from graphrag.retrieval.rank import Ranked, RankOptions, frontier, fuse, rank
from graphrag.retrieval.reference_links import ReferenceIndex, ReferenceLinks
from graphrag.retrieval.result_cache import ResultCache
from graphrag.retrieval.twins import Twins, one_place_each, scored_together, twins_among

Mode = Literal["hybrid", "vector", "text"]
MAX_QUERY_CHARS = 2_000
MAX_LINKS = 5_000
MAX_DEGREE = 50
"""A second step does not go over nodes of more edges: they lead everywhere, and say little."""
LEAD_WORDS = 12
"""A text of more than twice as many words says first what it is about: these count as much as all of it."""
GRAPH_ORDER = "graph-order"
"""A note: no search found anything, so the first nodes of the graph are given."""
_NO_VECTORS = "no-vectors"
EMBEDDING_FAILED = "embedding-failed"
ENGLISH_MODEL = "not-english: NODIUS_EMBEDDINGS=multilingual knows more languages"

log = logging.getLogger(__name__)


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
        """How many nodes to look for: some to spare where types are left out afterwards."""
        return self.max_nodes * (2 if self.exclude_types else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """What was found, most relevant first.

    Units: `ms` holds milliseconds by stage (embed, search, read). `notes` name what was not available.
    """

    graph: Graph
    question: str
    mode: Mode
    nodes: tuple[ScoredNode, ...]
    edges: tuple[Edge, ...]
    configs: Mapping[str, NodeTypeConfig]
    notes: tuple[str, ...] = ()
    ms: Mapping[str, float] = field(default_factory=dict[str, float])
    cached: bool = False

    @property
    def words_only(self) -> bool:
        """Whether the embedding service failed, so that words alone were searched."""
        return any(note.startswith(EMBEDDING_FAILED) for note in self.notes)


class Retrieves(Protocol):
    """What finds nodes for a question: a Retriever, or one with a second look."""

    @property
    def source(self) -> GraphDataSource: ...

    async def retrieve(
        self, graph_key: str, question: str, options: RetrievalOptions | None = None
    ) -> Retrieval: ...


class Retriever:
    """Answers `retrieve` for the graphs of one source; results are cached by revision and vectors."""

    def __init__(
        self,
        source: GraphDataSource,
        embedder: EmbeddingProvider | None,
        *,
        options: RetrievalOptions | None = None,
        cache_ttl_s: float = 120.0,
        cache_entries: int = 500,
    ) -> None:
        self.on_retrieved: Callable[[float], None] | None = None
        """Called with the time that each retrieval took. Units: seconds. May not raise."""
        self._source = source
        self._embedder = embedder
        self.options = options or RetrievalOptions()
        self._own_options = repr(self.options)
        self._cache: ResultCache[Retrieval] = ResultCache(ttl_s=cache_ttl_s, max_entries=cache_entries)
        self._references = ReferenceIndex(source)
        self._labels = LabelVectors(embedder)

    @property
    def source(self) -> GraphDataSource:
        return self._source

    @property
    def embedder(self) -> EmbeddingProvider | None:
        return self._embedder

    async def retrieve(
        self, graph_key: str, question: str, options: RetrievalOptions | None = None
    ) -> Retrieval:
        """Return the nodes and edges that matter for the question.

        Raises: GraphNotFound.
        """
        began = time.perf_counter()
        options = options or self.options
        versions = await self._source.get_versions(graph_key)
        graph = versions.graph
        query = " ".join(question[:MAX_QUERY_CHARS].split())
        # A graph created again under an old key may be at an old revision; its time of creation differs.
        at = (graph_key, graph.revision, graph.created_time, versions.vectors)
        found, cached = await self._cache.get(
            (*at, query.casefold(), self._written(options)),
            lambda: self._compute(graph, question, query, options),
            keep=_lasts,
        )
        seconds = time.perf_counter() - began
        facts = {"nodeCount": len(found.nodes), "edgeCount": len(found.edges), "cacheHit": cached}
        log.debug("rag_retrieve", extra=facts | {"mode": found.mode, "ms": round(seconds * 1e3, 2)})
        if self.on_retrieved is not None:
            self.on_retrieved(seconds)
        return replace(found, cached=True, question=question) if cached else found

    def _written(self, options: RetrievalOptions) -> str:
        """Return the options as part of a cache key; writing them out takes longer than a look-up."""
        return self._own_options if options is self.options else repr(options)

    async def search(self, graph_key: str, query: str, *, limit: int) -> Sequence[ScoredNode]:
        """Return the best nodes for a query; none rather than nodes that have nothing to do with it.

        Raises: GraphNotFound.
        """
        found = await self.retrieve(graph_key, query, replace(self.options, max_nodes=limit))
        return () if GRAPH_ORDER in found.notes else found.nodes

    async def _compute(self, graph: Graph, question: str, query: str, options: RetrievalOptions) -> Retrieval:
        started = time.perf_counter()
        vector, notes = await self._embed(query, options)
        embedded = time.perf_counter()
        words = sought(query)
        stems = stemmed(words, graph.language)
        source = await in_few_trips(self._source, graph.key, _wanted(stems, vector, options))
        search = _Search(source, graph.key, query, words, stems, vector, options, notes, self._labels)
        if options.mode == "vector":
            nodes, edges, searched = await search.vector_mode()
        else:
            nodes, edges, searched = await search.hybrid_mode(await self._references.of(graph))
        configs = await _configs(source, nodes)
        done = time.perf_counter()
        return Retrieval(
            graph=graph,
            question=question,
            mode=options.mode,
            nodes=tuple(nodes),
            edges=tuple(edges),
            configs=configs,
            notes=tuple(notes),
            ms={
                "embed": (embedded - started) * 1e3,
                "search": (searched - embedded) * 1e3,
                "read": (done - searched) * 1e3,
            },
        )

    async def _embed(
        self, query: str, options: RetrievalOptions
    ) -> tuple[tuple[str, Vector] | None, list[str]]:
        if options.mode == "text" or not query:
            return None, []
        if self._embedder is None:
            return None, ["no-embedder"]
        began = time.perf_counter()
        try:
            vector = await _embedded(self._embedder, query)
        except EmbeddingError as exc:
            return None, [f"{EMBEDDING_FAILED}: {exc}"]
        ms = round((time.perf_counter() - began) * 1e3, 2)
        log.debug("rag_embedding", extra={"dim": len(vector), "ms": ms})
        model = self._embedder.model
        return (model, vector), [ENGLISH_MODEL] if model == LOCAL_MODEL and not is_english(query) else []


async def _embedded(embedder: EmbeddingProvider, query: str) -> Vector:
    """Return the vector of a query: of one longer than a sentence the mean of its own and its beginning's.

    Raises: EmbeddingError.
    """
    words = query.split()
    texts = [query] if len(words) <= 2 * LEAD_WORDS else [query, " ".join(words[:LEAD_WORDS])]
    return normalize(await embedder.embed([AskedText(text) for text in texts])).mean(axis=0)


async def _configs(source: SearchSource, nodes: Sequence[ScoredNode]) -> dict[str, NodeTypeConfig]:
    types = sorted({scored.node.type for scored in nodes})
    configs = {t: BUILTIN_TYPES[t] for t in types if t in BUILTIN_TYPES}
    if types:
        configs.update({config.type: config for config in await source.get_node_configs(types)})
    return configs


def _wanted(query: str, vector: tuple[str, Vector] | None, options: RetrievalOptions) -> BatchRequest:
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


def _lasts(found: Retrieval) -> bool:
    """Say whether a result is as good as it gets: a service comes back, another program writes vectors."""
    return _NO_VECTORS not in found.notes and not found.words_only


Found = tuple[list[ScoredNode], Sequence[Edge], float]


@dataclass(slots=True)
class _Search:
    """One retrieval under way. `words` are those of the query that are searched, as `stems`; `vector` is
    (model, float32[dim]); `notes` is added to; `names` are what the best hits of words are called."""

    source: SearchSource
    graph_key: str
    query: str
    words: str
    stems: str
    vector: tuple[str, Vector] | None
    options: RetrievalOptions
    notes: list[str]
    labels: LabelVectors
    names: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

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
        searched = 0.0

        def choose(links: LinkTable) -> list[str]:
            nonlocal searched
            found = rank(signals, links, options, self.options.asked, fused, references, paths)
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
        return *self._cut(scored_together(nodes, twins), around.edges, twins), searched

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
        if self.options.mode == "text" or self.vector is None:
            content, name = await self._words()
            return {"text": content, "name": name}
        count = self.options.rank.candidates
        (content, name), vector, name_vector = await asyncio.gather(
            self._words(), self._vectors("content", count, 0.0), self._vectors("name", count, 0.0)
        )
        if not vector:
            self.notes.append(_NO_VECTORS)
        near, near_names = apart(vector, count), apart(name_vector, count)
        return {"text": content, "name": name, "vector": near, "name-vector": near_names}

    async def _words(self) -> tuple[list[Hit], list[Hit]]:
        """Search words; while vectors are searched, read what the best hits are called."""
        text, count = self.source.search_text, self.options.rank.candidates
        content, name = await asyncio.gather(
            text(self.graph_key, self.stems, limit=count),
            text(self.graph_key, self.stems, limit=count, field="name"),
        )
        if self.options.rank.damping > 0:
            self.names = await names_of_hits(self.source, self.graph_key, name, content)
        return content, name

    async def _vectors(self, field: Literal["content", "name"], limit: int, min_score: float) -> list[Hit]:
        if self.vector is None:
            return []
        model, vector = self.vector
        return await self.source.search_vectors(
            self.graph_key, vector, model=model, limit=limit, min_score=min_score, field=field
        )

    async def _paths(self, walked: Sequence[str]) -> dict[str, float]:
        """Return the ends of typed paths from what the question names, with their scores."""
        if self.options.rank.damping <= 0:
            return {}
        vectors = self.labels if self.vector is not None else None
        return await find_paths(self.source, self.graph_key, self.query, self.names, walked, vectors)

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
        if isinstance(read, LinkTables):
            return await read.get_chosen(
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
