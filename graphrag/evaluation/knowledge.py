"""Scores retrieval on knowledge graphs: recall of gold nodes, hits and reciprocal rank.

Only nodes that could answer are ranked: passages where a question wants passages, entities where
it wants entities, and never those that the question itself gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from datasources.base import MutableGraphDataSource
from datasources.types import Graph, Mutation, Node
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.refresh import embed_nodes
from graphrag.evaluation.formats import knowledge_graph
from graphrag.evaluation.scoring import Cuts, ScoredQuestion, Scores, score
from graphrag.retrieval.rank import RankOptions
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retrieves

CUTS = Cuts(recall=(2, 5, 10), hits=(1, 5, 10), deep=(20, 50, 200), whole=(2, 5, 8, 10))
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


async def load_knowledge(
    source: MutableGraphDataSource,
    embedder: EmbeddingProvider | None,
    knowledge: knowledge_graph.Knowledge,
    graph_key: str,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Mutation:
    """Store and embed the graph of the knowledge; return what was stored."""
    made = knowledge_graph.build_mutation(knowledge, graph_key)
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
    retriever: Retrieves,
    graph_key: str,
    questions: Sequence[knowledge_graph.Question],
    options: RetrievalOptions,
    *,
    on_question: Callable[[], None] = lambda: None,
) -> Scores:
    """Score one way of retrieving. Raises: QueryFileError when no question can be asked."""
    asked = [_asked(question, graph_key) for question in questions]
    wanted = sorted({key for one in asked for key in one.gold})
    nodes = await retriever.source.get_nodes_by_key(graph_key, wanted)
    return await score(
        retriever,
        asked,
        options,
        name_of=lambda node: node.key,
        there={graph_key: {node.key for node in nodes}},
        cuts=CUTS,
        nodes=(await retriever.source.get_stats(graph_key)).nodes,
        on_question=on_question,
    )


def _asked(question: knowledge_graph.Question, graph_key: str) -> ScoredQuestion:
    if question.passages:
        gold = {knowledge_graph.passage_key(identity) for identity in question.passages}
    else:
        gold = {knowledge_graph.entity_key(name) for name in question.answers}
    return ScoredQuestion(
        graph_key=graph_key,
        text=question.text,
        gold=gold,
        given={knowledge_graph.entity_key(name) for name in question.topics} - gold,
        beside=knowledge_graph.ENTITY if question.passages else knowledge_graph.PASSAGE,
        lost=f"{question.text[:80]!r}: none of its answers is in the graph",
    )
