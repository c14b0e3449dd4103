"""Measures which facts of right answers appear in the contexts of the questions, without a
model.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from datasources.base import GraphDataSource
from graphrag.evaluation.answer_cases import AskedQuestion, Case, CaseGraph
from graphrag.evaluation.answer_scoring import has_fact, normalize
from graphrag.evaluation.scoring import interval
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.prepared_prompt import prepare_prompt
from graphrag.retrieval.retriever import Retrieves
from tools.base import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFacts:
    """The facts of one question in its context. Units: tokens. `whole`: the context is the whole
    graph.
    """

    case: str
    facts: int
    missing: tuple[str, ...]
    tokens: int
    whole: bool

    @property
    def share(self) -> float:
        return 1 - len(self.missing) / self.facts


@dataclass(frozen=True, slots=True, kw_only=True)
class FactShares:
    """The facts that the contexts of all questions show, with the 95 % interval of their share.
    Units: `tokens`, the mean size of a context.
    """

    rows: Sequence[ContextFacts]
    share: float
    interval: tuple[float, float]
    tokens: float

    @staticmethod
    def of(rows: Sequence[ContextFacts]) -> FactShares:
        shares = [row.share for row in rows]
        return FactShares(
            rows=rows,
            share=float(np.mean(shares)),
            interval=interval(shares),
            tokens=float(np.mean([row.tokens for row in rows])),
        )

    @property
    def complete(self) -> int:
        """The number of questions whose context shows all facts."""
        return sum(not row.missing for row in self.rows)

    @property
    def whole_graphs(self) -> int:
        """The number of contexts that hold the whole graph."""
        return sum(row.whole for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        return {
            "questions": len(self.rows),
            "all_facts": self.complete,
            "share_of_facts": round(self.share, 4),
            "interval": [round(bound, 4) for bound in self.interval],
            "tokens": round(self.tokens, 1),
            "whole_graphs": self.whole_graphs,
            "missing": [asdict(row) for row in self.rows if row.missing],
        }


async def context_facts(
    source: GraphDataSource,
    retriever: Retrieves,
    cases: Sequence[Case],
    graphs: Mapping[str, CaseGraph],
    *,
    role: Role,
    options: ContextOptions,
) -> AsyncGenerator[ContextFacts]:
    """Yields the result of each question with facts. The graphs must be stored. Raises:
    GraphNotFound.
    """
    for case in cases:
        facts = case.asked.shown_facts if isinstance(case.asked, AskedQuestion) else ()
        if not facts:
            continue
        graph = graphs[case.file]
        prepared = await prepare_prompt(
            source, retriever, graph.graph.key, case.asked.ask, role=role, options=options
        )
        plain = normalize(prepared.context.text)
        missing = [fact for fact in facts if not has_fact(plain, fact, graph)]
        yield ContextFacts(
            case=case.id,
            facts=len(facts),
            missing=tuple(fact if isinstance(fact, str) else " or ".join(fact) for fact in missing),
            tokens=prepared.context.tokens,
            whole=prepared.context.whole,
        )
