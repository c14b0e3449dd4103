"""Searches all graphs of a workspace at once and groups the results by graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from datasources.everywhere import GraphHits, NodeName, WideHit, WideHits
from datasources.hits import Hit
from datasources.search import SearchRequest
from datasources.text import stemmed
from datasources.types import ScoredNode
from graphrag.embedding.embedder import EmbeddingError
from graphrag.embedding.language import language_of, sought
from graphrag.retrieval.rank import REASON_SHARE, RankOptions, fuse
from graphrag.retrieval.retriever import MAX_QUERY_CHARS, Retriever

# Share of the score of each further hit that is added to the score of a graph, so that a graph with
# many matching nodes ranks before a graph with one.
MORE_HITS = 0.25
CANDIDATES = 50  # hits of each search: only a few graphs with a few nodes each are shown


class WorkspaceSearch:
    """Ranks nodes of all graphs by words and meaning; edges are not walked."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    async def __call__(
        self, query: str, *, limit: int = 10, hits: int = 5, graphs: Sequence[str] | None = None
    ) -> list[GraphHits]:
        """Returns the best graphs for a query, each with its best nodes. Raises: SourceError."""
        options = self._retriever.options.rank
        asked = " ".join(query[:MAX_QUERY_CHARS].split())
        vector = None
        embedder = self._retriever.embedder
        if asked and embedder is not None:
            try:
                vector = embedder.model, (await embedder.embed([asked]))[0]
            except EmbeddingError:
                vector = None  # search by words only, as within one graph
        source = self._retriever.source
        words = sought(asked)  # their stems match graphs in the language of the query
        words = (
            f"{words} {stems}" if (stems := stemmed(words, language_of(asked))) != words else words
        )
        request = SearchRequest(query=words, vector=vector, limit=CANDIDATES)
        wide_hits = await source.search_everywhere(request, graphs)
        return _by_graph(wide_hits, _scored(wide_hits, options), limit, hits)


def _scored(
    wide_hits: WideHits, options: RankOptions
) -> dict[NodeName, tuple[float, tuple[str, ...]]]:
    """Returns each node's score (best: 1) and the searches that found it."""
    lists: Mapping[str, Sequence[WideHit]] = {
        "text": wide_hits.text,
        "name": wide_hits.name,
        "vector": wide_hits.vector,
        "name-vector": wide_hits.name_vector,
    }
    signals = {
        signal: [Hit("\n".join(name), score) for name, score in hits]
        for signal, hits in lists.items()
    }
    fused = fuse(signals, options.weights, CANDIDATES)
    best = max(fused.values(), default=0.0)
    reasons = defaultdict[str, list[str]](list)
    for signal, hits in signals.items():
        for key, score in hits:
            if score >= REASON_SHARE * hits[0].score:
                reasons[key].append(signal)
    return {
        (graph, node): (score / best, tuple(reasons[key]))
        for key, score in fused.items()
        for graph, _, node in (key.partition("\n"),)
    }


def _by_graph(
    wide_hits: WideHits,
    scored: Mapping[NodeName, tuple[float, tuple[str, ...]]],
    limit: int,
    hits: int,
) -> list[GraphHits]:
    by_graph = defaultdict[str, list[ScoredNode]](list)
    titles: dict[str, str] = {}
    for name, (score, reasons) in sorted(scored.items(), key=lambda item: (-item[1][0], item[0])):
        named_node = wide_hits.nodes[name]
        titles[named_node.graph_key] = named_node.graph_name
        by_graph[named_node.graph_key].append(
            ScoredNode(node=named_node.node, score=score, reasons=reasons)
        )
    results = [
        GraphHits(
            key=key,
            name=titles[key],
            score=nodes[0].score + MORE_HITS * sum(node.score for node in nodes[1:hits]),
            hits=nodes[:hits],
        )
        for key, nodes in by_graph.items()
    ]
    return sorted(results, key=lambda graph: (-graph.score, graph.key))[: max(0, limit)]
