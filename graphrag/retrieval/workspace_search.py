"""Searches all graphs of a workspace at once, and gives the results by graph."""

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

MORE_HITS = 0.25
"""What each further hit of a graph adds to its best, as a share of its own score: a graph of which
many nodes fit comes before one of which only one does.
"""


CANDIDATES = 50
"""Nodes asked of each search: some graphs, each with some nodes, are all that is shown."""


class WorkspaceSearch:
    """Ranks nodes of all graphs by words and meaning; edges are not walked."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    async def __call__(
        self, query: str, *, limit: int = 10, hits: int = 5, graphs: Sequence[str] | None = None
    ) -> list[GraphHits]:
        """Return the best graphs for a query, each with its best nodes. Raises: SourceError."""
        options = self._retriever.options.rank
        asked = " ".join(query[:MAX_QUERY_CHARS].split())
        vector = None
        embedder = self._retriever.embedder
        if asked and embedder is not None:
            try:
                vector = embedder.model, (await embedder.embed([asked]))[0]
            except EmbeddingError:
                vector = None  # words alone are searched, as in one graph
        source = self._retriever.source
        words = sought(asked)  # and their stems in the query's language, as a graph in it has them
        words = (
            f"{words} {stems}" if (stems := stemmed(words, language_of(asked))) != words else words
        )
        asked_of_all = SearchRequest(query=words, vector=vector, limit=CANDIDATES)
        found = await source.search_everywhere(asked_of_all, graphs)
        return _by_graph(found, _scored(found, options), limit, hits)


def _scored(found: WideHits, options: RankOptions) -> dict[NodeName, tuple[float, tuple[str, ...]]]:
    """Return each node's score, 1 for the best, and which searches found it."""
    lists: Mapping[str, Sequence[WideHit]] = {
        "text": found.text,
        "name": found.name,
        "vector": found.vector,
        "name-vector": found.name_vector,
    }
    signals = {
        of: [Hit("\n".join(name), score) for name, score in hits] for of, hits in lists.items()
    }
    fused = fuse(signals, options.weights, CANDIDATES)
    best = max(fused.values(), default=0.0)
    reasons = defaultdict[str, list[str]](list)
    for of, hits in signals.items():
        for key, score in hits:
            if score >= REASON_SHARE * hits[0].score:
                reasons[key].append(of)
    return {
        (graph, node): (score / best, tuple(reasons[key]))
        for key, score in fused.items()
        for graph, _, node in (key.partition("\n"),)
    }


def _by_graph(
    found: WideHits, scored: Mapping[NodeName, tuple[float, tuple[str, ...]]], limit: int, hits: int
) -> list[GraphHits]:
    by_graph = defaultdict[str, list[ScoredNode]](list)
    titles: dict[str, str] = {}
    for name, (score, reasons) in sorted(scored.items(), key=lambda item: (-item[1][0], item[0])):
        one = found.nodes[name]
        titles[one.graph_key] = one.graph_name
        by_graph[one.graph_key].append(ScoredNode(node=one.node, score=score, reasons=reasons))
    made = [
        GraphHits(
            key=key,
            name=titles[key],
            score=nodes[0].score + MORE_HITS * sum(node.score for node in nodes[1:hits]),
            hits=nodes[:hits],
        )
        for key, nodes in by_graph.items()
    ]
    return sorted(made, key=lambda graph: (-graph.score, graph.key))[: max(0, limit)]
