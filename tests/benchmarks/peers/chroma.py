"""Chroma, vectors only: a persistent client, one collection a graph, cosine space.

Source: Chroma documentation, "Persistent Client", "Add Data" and "Configure Collections"; batches
as `get_max_batch_size` allows ("Add Data").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import chromadb
from chromadb.config import Settings

from tests.benchmarks.peers.peer import CONTEXT_NODES, Answer, Data, Question


class Chroma:
    """Nearest documents of a collection; edges are not stored, as there is no place for them."""

    def __init__(self) -> None:
        self._collections: dict[str, Any] = {}

    async def load(self, data: Data, folder: Path) -> None:
        client = chromadb.PersistentClient(
            path=str(folder / "chroma"), settings=Settings(anonymized_telemetry=False)
        )
        most = client.get_max_batch_size()
        for graph in data.graphs:
            collection: Any = client.create_collection(
                name=f"graph-{graph.key}",
                configuration={"hnsw": {"space": "cosine"}},
                embedding_function=None,
            )
            for start in range(0, len(graph.nodes), most):
                part = slice(start, start + most)
                collection.add(
                    ids=[node.key for node in graph.nodes[part]],
                    embeddings=graph.content[part],
                    documents=list(graph.texts[part]),
                    metadatas=[{"name": name} for name in graph.names[part]],
                )
            self._collections[graph.key] = collection

    async def ask(self, question: Question) -> Answer:
        collection = self._collections[question.graph]
        found = collection.query(query_embeddings=[question.vector], n_results=CONTEXT_NODES)
        return Answer(found=found["ids"][0], write=lambda: "\n\n".join(found["documents"][0]))

    def ranking(self, question: Question, answer: Answer) -> list[str]:
        return cast("list[str]", answer.found)

    async def aclose(self) -> None:
        self._collections.clear()
