"""What all-MiniLM-L6-v2 is worth, as embedder and to re-rank the best 40 of the packaged model.

`python -m tests.benchmarks.minilm FILE DIR` for questions about workflows, or FACTS.json
QUESTIONS.json for passages. Needs the extra `minilm`. A re-ranked node scores what it did, from
0 to 1, plus the cosine of its text as a share of the best one. Differences to the packaged model
are paired by question, with bootstrapped 95 % intervals. Halves are made of every second
workflow or question.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from datasources.base import GraphDataSource
from datasources.hits import Vector
from graphrag.app.wiring import Services
from graphrag.config import load_settings
from graphrag.embedding.embedder import content_text
from graphrag.embedding.minilm import MiniLmEmbedder
from graphrag.evaluation import knowledge, workflows
from graphrag.evaluation.formats import read_knowledge
from graphrag.evaluation.scoring import Scores, interval
from graphrag.retrieval.retrieval_result import Retrieval, RetrievalOptions
from graphrag.retrieval.retriever import Retriever, Retrieves
from tests.support.opened import open_services

CANDIDATES = 40
MEASURES = ("recall@5", "recall@10", "mrr")
Score = Callable[[Retrieves, RetrievalOptions], Any]


@dataclass(slots=True)
class Reranked:
    """Retrieves as `retriever` does, and orders the best again. `ms` has the time that
    each took beside.
    """

    retriever: Retriever
    embedder: MiniLmEmbedder = field(default_factory=MiniLmEmbedder)
    known: dict[str, Vector] = field(default_factory=dict[str, Vector])
    ms: list[float] = field(default_factory=list[float])

    @property
    def source(self) -> GraphDataSource:
        return self.retriever.source

    async def retrieve(
        self, graph_key: str, question: str, options: RetrievalOptions | None = None
    ) -> Retrieval:
        found = await self.retriever.retrieve(graph_key, question, options)
        best = found.nodes[:CANDIDATES]
        rest = found.nodes[CANDIDATES:]
        if not best:
            return found
        texts = [content_text(scored.node, found.configs.get(scored.node.type)) for scored in best]
        missing = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known.update(zip(missing, await self.embedder.embed(missing), strict=True))
        began = time.perf_counter()  # vectors of nodes are stored; that of the question is not
        asked = (await self.embedder.embed([question]))[0]
        cosines = np.maximum(np.stack([self.known[text] for text in texts]) @ asked, 0.0)
        scores = [scored.score for scored in best] + cosines / max(float(cosines.max()), 1e-9)
        order = np.argsort(-scores, kind="stable").tolist()
        self.ms.append((time.perf_counter() - began) * 1e3)
        return replace(found, nodes=(*(best[i] for i in order), *rest))


async def prepared(services: Services, file: Path, other: Path) -> tuple[Score, RetrievalOptions]:
    """Stores and embeds what is asked about; returns what scores a way of retrieving,
    and the options.
    """
    if await asyncio.to_thread(other.is_dir):
        queries = workflows.read_queries(file)
        keys, _ = await workflows.load_workflows(services.source, services.embedder, queries, other)
        # Questions of one workflow stand in one half.
        number = {name: i for i, name in enumerate(sorted(keys))}
        halves = sorted(queries, key=lambda query: number.get(query.workflow, 0) % 2)
        score = partial(workflows.evaluate, queries=halves, graph_keys=keys)
        return lambda way, options: score(way, options=options), RetrievalOptions()
    facts, questions = [await asyncio.to_thread(path.read_bytes) for path in (file, other)]
    read = read_knowledge("openie", facts, file.name, questions, other.name)
    await knowledge.load_knowledge(services.source, services.embedder, read, "graph")
    asked = (*read.questions[::2], *read.questions[1::2])
    options = knowledge.ABLATION[knowledge.HYBRID_PAGERANK]
    return lambda way, options: knowledge.score_knowledge(way, "graph", asked, options), options


async def measured(embeddings: str, file: Path, other: Path) -> dict[str, Scores]:
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(
            db=f"sqlite:{folder}/minilm.db", workspace="minilm", embeddings=embeddings
        )
        async with open_services(settings) as services:
            score, options = await prepared(services, file, other)
            results = {embeddings: await score(services.retriever, options)}
            if embeddings == "local":
                results["text"] = await score(services.retriever, replace(options, mode="text"))
                reranked = Reranked(services.retriever)
                results["local, best 40 re-ranked"] = await score(reranked, options)
                print(f"re-ranking: {np.median(reranked.ms):.0f} ms a question (median)")
            return results


def show(results: Mapping[str, Scores]) -> None:
    first = results["local"].rows
    print(f"{len(first)} questions", *MEASURES, sep="\t")
    for name, scores in results.items():
        for half, part in (
            ("all", slice(None)),
            ("half 1", slice(len(first) // 2)),
            ("half 2", slice(len(first) // 2, None)),
        ):
            cells = [_cell(scores.rows[part], first[part], measure) for measure in MEASURES]
            print(f"{name}, {half}", *cells, sep="\t")


def _cell(rows: Sequence[Any], first: Sequence[Any], measure: str) -> str:
    gains = [
        row.measures[measure] - base.measures[measure]
        for row, base in zip(rows, first, strict=True)
    ]
    low, high = interval(gains)
    mean = np.mean([row.measures[measure] for row in rows])
    return (
        f"{mean:.3f}"
        if rows is first or not any(gains)
        else f"{mean:.3f} [{low:+.3f}, {high:+.3f}]"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("other", type=Path)
    given = parser.parse_args()
    results = await measured("local", given.file, given.other)
    show(results | await measured("minilm", given.file, given.other))


if __name__ == "__main__":
    asyncio.run(main())
