"""Finds the nodes of a graph that a question needs: searches, walks the edges, reads the subgraph.

Two modes. `hybrid` fuses text, name and vector searches and walks the edges
(`graphrag.retrieval.rank`); `vector` is the plain form: nearest vectors, then breadth-first
surroundings. Neither calls a language model. A part that is not available (no embedder, no vectors,
a failing embedding service) is left out and named in `Retrieval.notes`; the question is still
answered.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from datasources.base import GraphDataSource
from datasources.builtin_types import BUILTIN_TYPES
from datasources.hits import Vector
from datasources.text import stemmed
from datasources.types import Graph, ScoredNode
from datasources.vectors import normalize
from graphrag.embedding.embedder import AskedText, EmbeddingError, EmbeddingProvider
from graphrag.embedding.language import is_english, sought
from graphrag.embedding.packaged import ENGLISH_MODELS
from graphrag.retrieval.graph_search import GraphSearch
from graphrag.retrieval.result_cache import ResultCache
from graphrag.retrieval.retrieval_result import (
    EMBEDDING_FAILED,
    GRAPH_ORDER,
    NO_VECTORS,
    Retrieval,
    RetrievalOptions,
)
from graphrag.retrieval.signals.path_signal import LabelVectors
from graphrag.retrieval.signals.reference_signal import ReferenceIndex

MAX_QUERY_CHARS = 2_000
LEAD_WORDS = 12  # of a text at least twice as long these count as much as the whole text
ENGLISH_MODEL = "not-english: NODIUS_EMBEDDINGS=multilingual knows more languages"

log = logging.getLogger(__name__)


class Retrieves(Protocol):
    """Finds nodes for a question: a Retriever, or one with a second look."""

    @property
    def source(self) -> GraphDataSource: ...

    async def retrieve(
        self, graph_key: str, question: str, options: RetrievalOptions | None = None
    ) -> Retrieval: ...


class Retriever:
    """Retrieves from the graphs of one source. Results are cached by revision and vectors."""

    def __init__(
        self,
        source: GraphDataSource,
        embedder: EmbeddingProvider | None,
        *,
        options: RetrievalOptions | None = None,
        cache_ttl_s: float = 120.0,
        cache_entries: int = 500,
        on_retrieved: Callable[[float], None] | None = None,
    ) -> None:
        """`on_retrieved` is called with the seconds of each retrieval; it may not raise."""
        self._on_retrieved = on_retrieved
        self._source = source
        self._embedder = embedder
        self.options = options or RetrievalOptions()
        self._own_options = repr(self.options)
        self._cache: ResultCache[Retrieval] = ResultCache(
            ttl_s=cache_ttl_s, max_entries=cache_entries
        )
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
        """Returns the nodes and edges that matter for the question.

        Raises: GraphNotFound.
        """
        began = time.perf_counter()
        options = options or self.options
        versions = await self._source.get_versions(graph_key)
        graph = versions.graph
        query = " ".join(question[:MAX_QUERY_CHARS].split())
        # A graph that was created again under an old key may have an old revision, but another
        # time of creation.
        at = (graph_key, graph.revision, graph.created_time, versions.vectors)
        # Writing the options out takes longer than a look-up.
        how = self._own_options if options is self.options else repr(options)
        found, cached = await self._cache.get(
            (*at, query.casefold(), how),
            lambda: self._compute(graph, question, query, options),
            keep=_lasts,
        )
        seconds = time.perf_counter() - began
        facts = {"nodeCount": len(found.nodes), "edgeCount": len(found.edges), "cacheHit": cached}
        log.debug("rag_retrieve", extra=facts | {"mode": found.mode, "ms": round(seconds * 1e3, 2)})
        if self._on_retrieved is not None:
            self._on_retrieved(seconds)
        return replace(found, cached=True, question=question) if cached else found

    async def search(self, graph_key: str, query: str, *, limit: int) -> Sequence[ScoredNode]:
        """Returns the best nodes for a query, none if no search finds any.

        Raises: GraphNotFound.
        """
        found = await self.retrieve(graph_key, query, replace(self.options, max_nodes=limit))
        if GRAPH_ORDER in found.notes:
            return ()
        every = (*found.nodes, *found.canvas_notes)
        return sorted(every, key=lambda scored: -scored.score)[:limit]

    async def _compute(
        self, graph: Graph, question: str, query: str, options: RetrievalOptions
    ) -> Retrieval:
        started = time.perf_counter()
        vector, notes = await self._embed(query, options)
        embedded = time.perf_counter()
        words = sought(query)
        stems = stemmed(words, graph.language)
        search = GraphSearch(
            self._source,
            graph,
            query,
            words,
            stems,
            vector,
            options,
            notes,
            self._labels,
            self._references,
        )
        is_near = options.mode == "vector"
        found = await (search.vector_mode() if is_near else search.hybrid_mode())
        types = sorted({scored.node.type for scored in found.nodes})
        stored = {config.type: config for config in found.configs}
        configs = {
            name: config
            for name in types
            if (config := stored.get(name) or BUILTIN_TYPES.get(name)) is not None
        }
        done = time.perf_counter()
        return Retrieval(
            graph=graph,
            question=question,
            mode=options.mode,
            nodes=tuple(found.nodes),
            edges=tuple(found.edges),
            configs=configs,
            notes=tuple(notes),
            canvas_notes=tuple(found.notes),
            ms={
                "embed": (embedded - started) * 1e3,
                "search": (found.searched - embedded) * 1e3,
                "read": (done - found.searched) * 1e3,
            },
        )

    async def _embed(
        self, query: str, options: RetrievalOptions
    ) -> tuple[tuple[str, Vector] | None, list[str]]:
        """Returns model and vector of a query, and notes. The vector of a long query is the mean of
        its own and that of its beginning.
        """
        if options.mode == "text" or not query:
            return None, []
        if self._embedder is None:
            return None, ["no-embedder"]
        began = time.perf_counter()
        words = query.split()
        texts = [query] if len(words) <= 2 * LEAD_WORDS else [query, " ".join(words[:LEAD_WORDS])]
        try:
            vectors = await self._embedder.embed([AskedText(text) for text in texts])
        except EmbeddingError as exc:
            return None, [f"{EMBEDDING_FAILED}: {exc}"]
        vector = normalize(vectors).mean(axis=0) if len(vectors) > 1 else vectors[0]
        ms = round((time.perf_counter() - began) * 1e3, 2)
        log.debug("rag_embedding", extra={"dim": len(vector), "ms": ms})
        model = self._embedder.model
        return (model, vector), [ENGLISH_MODEL] if model in ENGLISH_MODELS and not is_english(
            query
        ) else []


def _lasts(found: Retrieval) -> bool:
    """Returns True if the result may be cached. Results found without vectors are not."""
    return NO_VECTORS not in found.notes and not found.words_only
