"""LightRAG with its default storages (NetworkX, nano-vectordb, JSON), local mode, keywords
given: no model.

Source: LightRAG README, "Insert Custom KG", "Query Param" (`mode`, `ll_keywords`,
`only_need_context`) and "LightRAG init parameters"; top_k and token budgets are its defaults.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from lightrag import LightRAG, QueryParam
from lightrag.utils import EmbeddingFunc, Tokenizer, normalize_entity_name

from datasources.hits import Vector
from graphrag.embedding.local import LocalEmbedder, packaged_tokenizer
from tests.benchmarks.peers.peer import Answer, Data, GraphData, Question


class LightRag:
    """One LightRAG a graph; nodes are entities described by their text, without chunks
    to repeat it.
    """

    def __init__(self) -> None:
        self._rags: dict[str, Any] = {}
        self._keys: dict[str, dict[str, str]] = {}
        self._vectors = _Vectors()

    async def load(self, data: Data, folder: Path) -> None:
        logging.getLogger("lightrag").setLevel(logging.ERROR)
        self._vectors.known = {question.text: question.vector for question in data.questions}
        for graph in data.graphs:
            await self._load(graph, folder / f"lightrag-{graph.key}")

    async def _load(self, graph: GraphData, folder: Path) -> None:
        rag = LightRAG(
            working_dir=str(folder),
            workspace=graph.key,
            llm_model_func=_no_model,
            tokenizer=Tokenizer("packaged", _Pieces()),
            embedding_func=EmbeddingFunc(
                embedding_dim=graph.content.shape[1], max_token_size=8192, func=self._vectors.embed
            ),
        )
        await rag.initialize_storages()
        names = _normalized(graph)
        self._keys[graph.key] = {name: key for key, name in names.items()}
        entities = [
            {
                "entity_name": names[node.key],
                "entity_type": node.type,
                "description": text,
                "source_id": "",
            }
            for node, text in zip(graph.nodes, graph.texts, strict=True)
        ]
        for entity, vector in zip(entities, graph.content, strict=True):
            self._vectors.known[f"{entity['entity_name']}\n{entity['description']}"] = vector
        relationships = [
            {
                "src_id": names[edge.source],
                "tgt_id": names[edge.target],
                "description": edge.label or "next",
                "keywords": edge.label or "next",
                "source_id": "",
            }
            for edge in graph.edges
            if names[edge.source] != names[edge.target]
        ]
        await rag.ainsert_custom_kg({"entities": entities, "relationships": relationships})
        self._rags[graph.key] = rag

    async def ask(self, question: Question) -> Answer:
        param = QueryParam(
            mode="local", ll_keywords=[question.text], only_need_context=True, enable_rerank=False
        )
        found = await self._rags[question.graph].aquery_llm(question.text, param)
        content: str = found.get("llm_response", {}).get("content") or ""
        return Answer(found=found.get("data", {}), write=lambda: content)

    def ranking(self, question: Question, answer: Answer) -> list[str]:
        """Return its entities in their order, then the ends of its relationships."""
        data = cast("dict[str, Any]", answer.found)
        keys = self._keys[question.graph]
        names = [entity["entity_name"] for entity in data.get("entities", [])]
        names += [end for r in data.get("relationships", []) for end in (r["src_id"], r["tgt_id"])]
        return [keys[name] for name in dict.fromkeys(names) if name in keys]

    async def aclose(self) -> None:
        for rag in self._rags.values():
            await rag.finalize_storages()


def _normalized(graph: GraphData) -> dict[str, str]:
    """Return names by key as LightRAG will write them; one that it empties or has already
    gets the key.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for node, given in zip(graph.nodes, graph.names, strict=True):
        name = normalize_entity_name(given)
        if not name or name in taken:
            name = node.key
        taken.add(name)
        names[node.key] = name
    return names


class _Vectors:
    """Gives the vectors that every peer has; relations, which no other peer embeds,
    get their own.
    """

    def __init__(self) -> None:
        self.known: dict[str, Vector] = {}
        self._embedder = LocalEmbedder()

    async def embed(self, texts: Sequence[str]) -> Vector:
        rows = [self.known.get(text) for text in texts]
        others = [text for text, row in zip(texts, rows, strict=True) if row is None]
        made = iter(await self._embedder.embed(others)) if others else iter(())
        return np.stack([next(made) if row is None else row for row in rows])

    def __deepcopy__(self, memo: object) -> Self:
        return self  # LightRAG copies its configuration, this with it


class _Pieces:
    """The packaged tokenizer; LightRAG's own would be downloaded."""

    def __init__(self) -> None:
        self._tokenizer = packaged_tokenizer()

    def encode(self, content: str) -> list[int]:
        return self._tokenizer.encode(content, add_special_tokens=False).ids

    def decode(self, tokens: list[int]) -> str:
        return self._tokenizer.decode(tokens)

    def __deepcopy__(self, memo: object) -> Self:
        return self


async def _no_model(*_args: object, **_more: object) -> str:
    raise AssertionError("retrieval with keywords given must not call a model")
