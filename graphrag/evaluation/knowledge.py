"""Scores retrieval on knowledge graphs by recall of gold nodes, hits, and reciprocal rank.

Only possible answers are ranked: passages if a question wants passages, entities if it wants
entities, and never the topics of the question.
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
# Number of nodes or edges in one write.
BATCH = 5_000

DENSE = "dense (vectors)"
TEXT = "text (BM25)"
HYBRID = "hybrid (fused)"
HYBRID_PAGERANK = "hybrid + PageRank"
ALONE = ", passages alone"

# From single searches to the default: all searches fused, then PageRank over the edges.
ABLATION: Mapping[str, RetrievalOptions] = {
    DENSE: RetrievalOptions(rank=RankOptions(weights={"vector": 1.0}, damping=0.0)),
    TEXT: RetrievalOptions(mode="text", rank=RankOptions(damping=0.0)),
    HYBRID: RetrievalOptions(rank=RankOptions(damping=0.0)),
    HYBRID_PAGERANK: RetrievalOptions(),
}

# The ways that are also scored on passages alone, if there are passages and a graph.
WITHOUT_GRAPH = (DENSE, TEXT, HYBRID)


async def load_knowledge(
    source: MutableGraphDataSource,
    embedder: EmbeddingProvider | None,
    knowledge: knowledge_graph.Knowledge,
    graph_key: str,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Mutation:
    """Stores and embeds the graph of the knowledge; returns its nodes and edges."""
    mutation = knowledge_graph.build_mutation(knowledge, graph_key)
    await source.create_graph(Graph(key=graph_key, name="Knowledge", workspace=source.workspace))
    for start in range(0, len(mutation.put_nodes), BATCH):
        nodes: Sequence[Node] = mutation.put_nodes[start : start + BATCH]
        await source.apply(Mutation(graph_key=graph_key, put_nodes=nodes))
    for start in range(0, len(mutation.put_edges), BATCH):
        edges = mutation.put_edges[start : start + BATCH]
        await source.apply(Mutation(graph_key=graph_key, put_edges=edges))
    if embedder is not None:
        await embed_nodes(source, embedder, graph_keys=[graph_key], progress=progress)
    return mutation


async def score_knowledge(
    retriever: Retrieves,
    graph_key: str,
    questions: Sequence[knowledge_graph.Question],
    options: RetrievalOptions,
    *,
    on_question: Callable[[], None] = lambda: None,
) -> Scores:
    """Scores one way of retrieving. Raises QueryFileError if no question can be asked."""
    scored_questions = [_scored_question(question, graph_key) for question in questions]
    gold_keys = sorted({key for question in scored_questions for key in question.gold})
    nodes = await retriever.source.get_nodes_by_key(graph_key, gold_keys)
    return await score(
        retriever,
        scored_questions,
        options,
        name_of=lambda node: node.key,
        existing={graph_key: {node.key for node in nodes}},
        cuts=CUTS,
        nodes=(await retriever.source.get_stats(graph_key)).nodes,
        on_question=on_question,
    )


def _scored_question(question: knowledge_graph.Question, graph_key: str) -> ScoredQuestion:
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
