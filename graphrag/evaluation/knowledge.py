"""Scores retrieval on knowledge graphs: recall of gold nodes, hits and reciprocal rank.

Only nodes that could answer are ranked: passages where a question wants passages, entities where
it wants entities, and never those that the question itself gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from datasources.base import MutableGraphDataSource
from datasources.types import Graph, Mutation, Node
from graphrag.embedding.base import EmbeddingProvider
from graphrag.embedding.refresh import embed_nodes
from graphrag.evaluation.formats import (
    ENTITY,
    PASSAGE,
    Knowledge,
    Question,
    build_mutation,
    entity_key,
    passage_key,
)
from graphrag.evaluation.workflows import QueryFileError
from graphrag.retrieval.rank import RankOptions
from graphrag.retrieval.retriever import RetrievalOptions, Retriever

RECALL_CUTS = (2, 5, 10)
HIT_CUTS = (1, 5, 10)
RANKED = 60
"""Nodes asked for: enough for the largest cut, and for what nodes of the other kind take."""

BATCH = 5_000

DENSE = "dense (vectors)"
TEXT = "text (BM25)"
HYBRID = "hybrid (fused)"
HYBRID_PAGERANK = "hybrid + PageRank"
ALONE = ", passages alone"

ABLATION: Mapping[str, RetrievalOptions] = {
    DENSE: RetrievalOptions(rank=RankOptions(weights={"vector": 1.0}, damping=0.0)),
    TEXT: RetrievalOptions(mode="text", rank=RankOptions(damping=0.0)),
    HYBRID: RetrievalOptions(rank=RankOptions(damping=0.0)),
    HYBRID_PAGERANK: RetrievalOptions(),
}
"""From one search alone to the default: all searches fused, then spread over the edges."""

WITHOUT_GRAPH = (DENSE, TEXT, HYBRID)
"""The ways that are also scored on the passages alone, where there are passages and a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeScores:
    """Means over the questions, each from 0 to 1; recall and hits by how many places count."""

    recall: Mapping[int, float]
    hits: Mapping[int, float]
    mrr: float
    questions: int
    left_out: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, float]:
        return {
            **{f"recall@{cut}": round(value, 4) for cut, value in self.recall.items()},
            **{f"hits@{cut}": round(value, 4) for cut, value in self.hits.items()},
            "mrr": round(self.mrr, 4),
            "questions": self.questions,
        }


async def load_knowledge(
    source: MutableGraphDataSource,
    embedder: EmbeddingProvider | None,
    knowledge: Knowledge,
    graph_key: str,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Mutation:
    """Store and embed the graph of the knowledge; return what was stored."""
    made = build_mutation(knowledge, graph_key)
    await source.create_graph(Graph(key=graph_key, name="Knowledge", workspace=source.workspace))
    for start in range(0, len(made.put_nodes), BATCH):
        nodes: Sequence[Node] = made.put_nodes[start : start + BATCH]
        await source.apply(Mutation(graph_key=graph_key, put_nodes=nodes))
    for start in range(0, len(made.put_edges), BATCH):
        edges = made.put_edges[start : start + BATCH]
        await source.apply(Mutation(graph_key=graph_key, put_edges=edges))
    if embedder is not None:
        await embed_nodes(source, embedder, graph_keys=[graph_key], progress=progress)
    return made


async def score_knowledge(
    retriever: Retriever,
    graph_key: str,
    questions: Sequence[Question],
    options: RetrievalOptions,
    *,
    on_question: Callable[[], None] = lambda: None,
) -> KnowledgeScores:
    """Score one way of retrieving; a question none of whose answers is a node is left out and said.

    An answer that is missing beside others counts as not found.
    Raises: QueryFileError when no question is left.
    """
    gold = [_gold(question) for question in questions]
    wanted = sorted({key for keys in gold for key in keys})
    there = {node.key for node in await retriever.source.get_nodes_by_key(graph_key, wanted)}
    rows: list[list[float]] = []
    left_out: list[str] = []
    for question, keys in zip(questions, gold, strict=True):
        on_question()
        if keys.isdisjoint(there):
            left_out.append(f"{question.text[:80]!r}: none of its answers is in the graph")
            continue
        other = ENTITY if question.passages else PASSAGE
        given = {entity_key(name) for name in question.topics} - keys
        asked = replace(options, max_nodes=RANKED, exclude_types=(other,))
        found = await retriever.retrieve(graph_key, question.text, asked)
        rows.append(rank_scores([s.node.key for s in found.nodes if s.node.key not in given], keys))
    if not rows:
        raise QueryFileError(file="questions", reason="none of their answers is in the graph")
    means: list[float] = np.mean(rows, axis=0).tolist()
    recall, hits = means[: len(RECALL_CUTS)], means[len(RECALL_CUTS) : -1]
    return KnowledgeScores(
        recall=dict(zip(RECALL_CUTS, recall, strict=True)),
        hits=dict(zip(HIT_CUTS, hits, strict=True)),
        mrr=means[-1],
        questions=len(rows),
        left_out=tuple(left_out),
    )


def _gold(question: Question) -> set[str]:
    if question.passages:
        return {passage_key(identity) for identity in question.passages}
    return {entity_key(name) for name in question.answers}


def rank_scores(ranking: Iterable[str], gold: set[str]) -> list[float]:
    """Return recall at each cut, whether one was hit at each cut, and the first one's reciprocal rank."""
    ranked = list(ranking)
    first = next((i for i, key in enumerate(ranked, start=1) if key in gold), None)
    return [
        *(len(gold & set(ranked[:cut])) / len(gold) for cut in RECALL_CUTS),
        *(1.0 if first is not None and first <= cut else 0.0 for cut in HIT_CUTS),
        1.0 / first if first else 0.0,
    ]
