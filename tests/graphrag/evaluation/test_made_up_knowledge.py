"""Graphs in the documented forms are scored; the steps that a question takes are found."""

from __future__ import annotations

from pathlib import Path

from datasources.mock import MemoryDatabase
from graphrag.embedding import LocalEmbedder
from graphrag.evaluation.formats import read_knowledge
from graphrag.evaluation.formats.knowledge_graph import Knowledge
from graphrag.evaluation.knowledge import load_knowledge, score_knowledge
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import WORKSPACE
from tests.support.made_up_knowledge import HOPS, write


async def _means(knowledge: Knowledge) -> dict[str, float]:
    async with MemoryDatabase() as database:
        source, embedder = database.source(WORKSPACE), LocalEmbedder()
        await load_knowledge(source, embedder, knowledge, "made-up")
        retriever = Retriever(source, embedder)
        scores = await score_knowledge(retriever, "made-up", knowledge.questions, RetrievalOptions())
        return {name: one["mean"] for name, one in scores.certainty()["intervals"].items()}


async def test_both_forms_are_read_and_their_steps_are_walked(tmp_path: Path) -> None:
    write(tmp_path, films=24, questions=12)
    found = await _means(read_knowledge("knowledge", (tmp_path / "passages.json").read_bytes(), "passages"))
    assert found["all@8"] == 1.0
    facts = (tmp_path / "triples.txt").read_bytes()
    for hops in HOPS:
        lines = (tmp_path / f"questions-{hops}.txt").read_bytes()
        found = await _means(read_knowledge("triples", facts, "facts", lines, "lines"))
        assert found["hits@1"] >= 0.75, hops
        assert found["recall@200"] == 1.0, hops
