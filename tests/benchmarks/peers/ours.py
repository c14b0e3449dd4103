"""This service as a peer: the embedded database, hybrid retrieval or its original vector mode."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

from datasources.hits import NodeVector
from datasources.types import Graph, Mutation
from graphrag.config import load_settings
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.context import ContextOptions, build_context
from graphrag.retrieval.retrieval_result import Mode, Retrieval, RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from tests.benchmarks.known_vectors import KnownVectors
from tests.benchmarks.peers.peer import Answer, Data, GraphData, Question
from tests.support.opened import open_services

BATCH = 5_000


class Ours:
    """Retrieves as `nodius context` does, from the file that `nodius import` would fill."""

    def __init__(self, mode: Mode) -> None:
        self._mode: Mode = mode
        self._open = AsyncExitStack()
        self._retriever: Retriever | None = None

    async def load(self, data: Data, folder: Path) -> None:
        settings = load_settings(
            db=f"sqlite:{folder}/peers.db", workspace="bench", embeddings="none"
        )
        services = await self._open.enter_async_context(open_services(settings))
        source = services.source
        for graph in data.graphs:
            await source.create_graph(Graph(key=graph.key, name=graph.key, workspace="bench"))
            await source.apply(Mutation(graph_key=graph.key, put_configs=graph.configs))
            for start in range(0, len(graph.nodes), BATCH):
                nodes = graph.nodes[start : start + BATCH]
                await source.apply(Mutation(graph_key=graph.key, put_nodes=nodes))
                await source.put_embeddings(
                    graph.key, _vectors(graph, start, len(nodes), data.model)
                )
            for start in range(0, len(graph.edges), BATCH):
                edges = graph.edges[start : start + BATCH]
                await source.apply(Mutation(graph_key=graph.key, put_edges=edges))
            if source.abilities.index_builder is not None:
                await source.abilities.index_builder.build_indexes(graph.key)
        options = RetrievalOptions(mode=self._mode)
        known = KnownVectors(
            data.model, {" ".join(q.text.split()): q.vector for q in data.questions}
        )
        self._retriever = Retriever(source, known, options=options, cache_ttl_s=0)

    async def ask(self, question: Question) -> Answer:
        assert self._retriever is not None
        found = await self._retriever.retrieve(question.graph, question.text)
        return Answer(
            found=found, write=lambda: build_context(found, ContextOptions(), count_tokens).text
        )

    def ranking(self, question: Question, answer: Answer) -> list[str]:
        return [scored.node.key for scored in cast(Retrieval, answer.found).nodes]

    async def aclose(self) -> None:
        await self._open.aclose()


def _vectors(graph: GraphData, start: int, count: int, model: str) -> list[NodeVector]:
    return [
        NodeVector(
            key=graph.nodes[i].key,
            model=model,
            hash=graph.hashes[i],
            content=graph.content[i],
            name=graph.name_vectors[i],
        )
        for i in range(start, start + count)
    ]
