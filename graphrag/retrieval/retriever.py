"""Finds the nodes of a graph that answer a question: searches, walks edges, reads the subgraph.

There are two main modes. `hybrid` fuses text, name and vector searches and walks the edges
(`graphrag.retrieval.rank`); `vector` takes the nearest vectors and then their neighbours,
breadth first. Neither calls a language model. If a part is not available (no embedder, no vectors,
a failing embedding service), the search continues without it and adds a code to
`Retrieval.notes`.
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
LEAD_WORDS = 12  # the first words of a text over twice as long get a vector of their own
ENGLISH_MODEL = "not-english: NODIUS_EMBEDDINGS=multilingual knows more languages"

log = logging.getLogger(__name__)


class Retrieves(Protocol):
    """Finds nodes for a question: a `Retriever` or a `SecondLook`."""

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
        version = (graph_key, graph.revision, graph.created_time, versions.vectors)
        # Formatting the options takes longer than a cache hit.
        options_text = self._own_options if options is self.options else repr(options)
        retrieval, cached = await self._cache.get(
            (*version, query.casefold(), options_text),
            lambda: self._compute(graph, question, query, options),
            keep=_lasts,
        )
        seconds = time.perf_counter() - began
        facts = {
            "nodeCount": len(retrieval.nodes),
            "edgeCount": len(retrieval.edges),
            "cacheHit": cached,
        }
        log.debug(
            "rag_retrieve", extra=facts | {"mode": retrieval.mode, "ms": round(seconds * 1e3, 2)}
        )
        if self._on_retrieved is not None:
            self._on_retrieved(seconds)
        return replace(retrieval, cached=True, question=question) if cached else retrieval

    async def search(self, graph_key: str, query: str, *, limit: int) -> Sequence[ScoredNode]:
        """Returns the best nodes for a query, or an empty sequence if no search finds any.

        Raises: GraphNotFound.
        """
        retrieval = await self.retrieve(graph_key, query, replace(self.options, max_nodes=limit))
        if GRAPH_ORDER in retrieval.notes:
            return ()
        nodes = (*retrieval.nodes, *retrieval.canvas_notes)
        return sorted(nodes, key=lambda scored: -scored.score)[:limit]

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
        findings = await (search.vector_mode() if is_near else search.hybrid_mode())
        types = sorted({scored.node.type for scored in findings.nodes})
        stored = {config.type: config for config in findings.configs}
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
            nodes=tuple(findings.nodes),
            edges=tuple(findings.edges),
            configs=configs,
            notes=tuple(notes),
            canvas_notes=tuple(findings.notes),
            ms={
                "embed": (embedded - started) * 1e3,
                "search": (findings.searched - embedded) * 1e3,
                "read": (done - findings.searched) * 1e3,
            },
            searches=findings.searches,
        )

    async def _embed(
        self, query: str, options: RetrievalOptions
    ) -> tuple[tuple[str, Vector] | None, list[str]]:
        """Returns the model and vector of a query, and notes.

        The vector of a long query is the mean of its vector and the vector of its first words.
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


def _lasts(retrieval: Retrieval) -> bool:
    """Returns True if the result may be cached. Results of words alone are not."""
    return NO_VECTORS not in retrieval.notes and not retrieval.words_only
