"""What a second look is worth: MuSiQue with assessments made from its gold passages, some
of them wrong.

`python -m tests.benchmarks.second_look FACTS.json QUESTIONS.json`. QUESTIONS say by `decomposition`
which question each passage answers: the first whose passage is no candidate is what is missing. `of
what is named`: that share of the passages that it names, and of its queries, are others. `of all
verdicts`: that share of the forty verdicts is turned round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.eval import show_certainty, show_scores
from datasources.types import ScoredNode
from graphrag.app.models import rules_provider
from graphrag.config import load_settings
from graphrag.evaluation.formats import read_knowledge
from graphrag.evaluation.formats.knowledge_graph import passage_key
from graphrag.evaluation.knowledge import ABLATION, HYBRID_PAGERANK, load_knowledge, score_knowledge
from graphrag.llm.metered import ModelRequest
from graphrag.llm.registry import Pricing
from graphrag.retrieval.second_look import SecondLook
from tests.support.opened import open_services

GRAPH = "musique"
Steps = Sequence[tuple[str, str]]
"""Of a question: what each of its steps asks, and the passage that says it."""


def read_steps(path: Path) -> dict[str, Steps]:
    found: dict[str, Steps] = {}
    for row in json.loads(path.read_bytes()):
        answers = [step["answer"] for step in row["decomposition"]]
        found[row["question"]] = [
            (
                re.sub(r"#(\d)", lambda n: answers[int(n[1]) - 1], step["question"]),  # noqa: B023
                passage_key(str(gold)),
            )
            for step, gold in zip(row["decomposition"], row["gold_passages"], strict=True)
        ]
    return found


@dataclass(slots=True, kw_only=True)
class Assessor(SecondLook):
    """Assesses from the gold passages in a model's place; everything else is as with a model."""

    steps: Mapping[str, Steps]
    wrong: float = 0.0
    each_verdict: bool = False
    asked: tuple[str, Sequence[ScoredNode]] = ("", ())

    def _request(self, question: str, candidates: Sequence[ScoredNode]) -> ModelRequest:
        self.asked = question, candidates
        return super(Assessor, self)._request(question, candidates)

    async def _asked(self, request: ModelRequest) -> str:
        question, candidates = self.asked
        rng = random.Random(question)
        steps = self.steps[question]
        gold = {key for _, key in steps}
        keys = [scored.node.key for scored in candidates]
        right = [number for number, key in enumerate(keys, start=1) if key in gold]
        others = [number for number in range(1, len(keys) + 1) if number not in right]
        if self.each_verdict:
            turned = {number for number in range(1, len(keys) + 1) if rng.random() < self.wrong}
            named = sorted(turned ^ set(right))
        else:
            named = [
                rng.choice(others) if rng.random() < self.wrong else number for number in right
            ]
        missing = next((text for text, key in steps if key not in keys), "")
        if missing and rng.random() < self.wrong:
            missing = rng.choice(rng.choice(list(self.steps.values())))[0]
        return json.dumps({"relevant": named, "missing": missing})


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("facts", type=Path)
    parser.add_argument("questions", type=Path)
    given = parser.parse_args()
    steps = read_steps(given.questions)
    knowledge = read_knowledge(
        "openie",
        given.facts.read_bytes(),
        given.facts.name,
        given.questions.read_bytes(),
        given.questions.name,
    )
    with tempfile.TemporaryDirectory() as folder:
        async with open_services(
            load_settings(db=f"sqlite:{folder}/look.db", workspace="look")
        ) as services:
            await load_knowledge(services.source, services.embedder, knowledge, GRAPH)
            retriever = services.retriever
            options = ABLATION[HYBRID_PAGERANK]
            ways: dict[str, Any] = {HYBRID_PAGERANK: retriever}
            for name, wrong, each in (
                ("second look, all right", 0.0, False),
                ("second look, 20 % of what is named wrong", 0.2, False),
                ("second look, 20 % of all verdicts wrong", 0.2, True),
                ("second look, all that is named wrong", 1.0, False),
            ):
                ways[name] = Assessor(
                    retriever=retriever,
                    provider=rules_provider(),
                    meter=services.meter,
                    pricing=Pricing(model="rules"),
                    steps=steps,
                    wrong=wrong,
                    each_verdict=each,
                )
            results = {
                name: await score_knowledge(way, GRAPH, knowledge.questions, options)
                for name, way in ways.items()
            }
    show_scores(results)
    for name in list(results)[:3]:
        show_certainty(name, results[name])


if __name__ == "__main__":
    asyncio.run(main())
