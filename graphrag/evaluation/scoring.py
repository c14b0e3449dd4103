"""Scores rankings by recall, hits, reciprocal rank, and tokens of contexts. Independent of files.

The uncertainty of a mean is a bootstrap interval over the questions, always with the same seed. How
a mean depends on the kind of question is shown by splits. Source: Efron and Tibshirani, "An
Introduction to the Bootstrap" (1993), percentile intervals of 95 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from datasources.types import Node
from graphrag.embedding.language import language_of
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retrieves
from graphrag.retrieval.turn_context import context_for

# Minimum number of nodes in a scored ranking; a context has fewer.
RANKED = 60
# Resamples of a bootstrap interval.
DRAWS = 1_000
# Upper bounds, in nodes, of the groups of graphs in a split.
SIZES = (20, 60, 1_000, 10_000)
MAX_RELEVANT = 4


class QueryFileError(Exception):
    """The file of questions cannot be used; `reason` gives the error and its place."""

    def __init__(self, *, file: str, reason: str) -> None:
        self.file = file
        self.reason = reason
        super().__init__(f"{file}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredQuestion:
    """A question and the names of the nodes that answer it.

    Nodes of type `beside` and `given` nodes are not ranked. `lost` is the reason for skipping the
    question if no answer exists.
    """

    graph_key: str
    text: str
    gold: Set[str]
    beside: str
    lost: str
    given: Set[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """The positions of a ranking up to which measures count answers.

    `deep` are further cuts of recall, `whole` those at which all answers must be found; both are
    only in the rows of `Scores`.
    """

    recall: Sequence[int]
    hits: Sequence[int] = ()
    deep: Sequence[int] = ()
    whole: Sequence[int] = ()

    @property
    def most(self) -> int:
        """The number of positions needed of a ranking."""
        return max(RANKED, *self.deep, *self.whole, 0)

    @property
    def shown(self) -> set[str]:
        """The measures shown in tables."""
        return {
            *(f"recall@{cut}" for cut in self.recall),
            *(f"hits@{cut}" for cut in self.hits),
            "mrr",
        }

    def measures(self, ranking: Sequence[str], gold: Set[str]) -> dict[str, float]:
        """Returns recall, hits and whether all answers were found, each at its cuts, and the
        reciprocal rank of the first answer.
        """
        first = next((i for i, name in enumerate(ranking, start=1) if name in gold), None)
        recall = (*self.recall, *self.deep)
        return {
            **{f"recall@{cut}": len(gold & set(ranking[:cut])) / len(gold) for cut in recall},
            **{f"hits@{cut}": float(first is not None and first <= cut) for cut in self.hits},
            **{f"all@{cut}": float(gold <= set(ranking[:cut])) for cut in self.whole},
            "mrr": 1.0 / first if first else 0.0,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """The measures of one question, with the number of nodes in its graph and of nodes that answer
    it.
    """

    measures: Mapping[str, float]
    nodes: int
    relevant: int
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The `means` over the questions by measure (`recall@5`, `mrr`), each from 0 to 1.

    `tokens` is the mean size of a context; `left_out` lists skipped questions with reasons. `rows`
    have more measures than are shown.
    """

    means: Mapping[str, float]
    tokens: float | None = None
    left_out: tuple[str, ...] = ()
    rows: tuple[ScoredRow, ...] = ()

    @property
    def questions(self) -> int:
        return len(self.rows)

    def certainty(self) -> dict[str, Any]:
        """Returns each measure with its interval, and all measures for groups of questions."""
        parts = splits(self.rows)
        every = _means(self.rows)
        return {
            "intervals": {
                name: {"mean": round(every[name], 4), "low": round(low, 4), "high": round(high, 4)}
                for name, (low, high) in intervals(self.rows).items()
            },
            "splits": {
                part: {"questions": len(rows), **_rounded(_means(rows))}
                for part, rows in parts.items()
            },
        }

    def as_dict(self) -> dict[str, float]:
        return _rounded(self.means)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the 95 % bootstrap interval of the mean."""
    samples = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(0).integers(len(samples), size=(DRAWS, len(samples)))
    low, high = np.percentile(samples[draws].mean(axis=1), [2.5, 97.5]).tolist()
    return low, high


def intervals(rows: Sequence[ScoredRow]) -> dict[str, tuple[float, float]]:
    """Returns the interval of each measure."""
    return (
        {name: interval([row.measures[name] for row in rows]) for name in rows[0].measures}
        if rows
        else {}
    )


def splits(rows: Sequence[ScoredRow]) -> dict[str, list[ScoredRow]]:
    """Returns the questions by size of graph, number of relevant nodes, and language.

    Omits a criterion by which all questions are in one group.
    """
    groups: dict[str, dict[str, list[ScoredRow]]] = {"graph": {}, "relevant": {}, "language": {}}
    for row in sorted(rows, key=lambda row: (row.nodes, row.relevant, row.language)):
        bound = next((size for size in SIZES if row.nodes <= size), None)
        size = f"> {SIZES[-1]:,} nodes" if bound is None else f"≤ {bound:,} nodes"
        is_capped = row.relevant >= MAX_RELEVANT
        groups["graph"].setdefault(size, []).append(row)
        groups["relevant"].setdefault(
            f"{min(row.relevant, MAX_RELEVANT)}{'+' * is_capped}", []
        ).append(row)
        groups["language"].setdefault(row.language, []).append(row)
    return {
        f"{kind} {name}": group
        for kind, parts in groups.items()
        if len(parts) > 1
        for name, group in sorted(
            parts.items(), key=lambda part: part[0] if kind != "graph" else ""
        )
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def _means(rows: Sequence[ScoredRow]) -> dict[str, float]:
    return {name: float(np.mean([row.measures[name] for row in rows])) for name in rows[0].measures}


async def score(
    retriever: Retrieves,
    questions: Sequence[ScoredQuestion],
    options: RetrievalOptions,
    *,
    name_of: Callable[[Node], str],
    existing: Mapping[str, Set[str]],
    cuts: Cuts,
    nodes: int | None = None,
    with_tokens: bool = False,
    on_question: Callable[[], None] = lambda: None,
) -> Scores:
    """Scores one way of retrieving. `there` are the names of the nodes of each graph, or some of
    them; then `nodes` is their full number.

    A question without any existing answer is skipped. An answer that does not exist beside others
    counts as not found. Raises QueryFileError if no question is left.
    """
    rows: list[ScoredRow] = []
    tokens: list[int] = []
    left_out: list[str] = []
    for question in questions:
        on_question()
        if existing[question.graph_key].isdisjoint(question.gold):
            left_out.append(question.lost)
            continue
        ranked = replace(options, max_nodes=cuts.most, exclude_types=(question.beside,))
        retrieved = await retriever.retrieve(question.graph_key, question.text, ranked)
        names = [name_of(scored.node) for scored in retrieved.nodes]
        measures = cuts.measures(
            [name for name in names if name not in question.given], question.gold
        )
        size = nodes or len(existing[question.graph_key])
        language = language_of(question.text)
        rows.append(
            ScoredRow(measures=measures, nodes=size, relevant=len(question.gold), language=language)
        )
        if with_tokens:
            default_retrieval = await retriever.retrieve(question.graph_key, question.text, options)
            context = await context_for(retriever.source, default_retrieval, ContextOptions())
            tokens.append(context.tokens)
    if not rows:
        reason = left_out[0] if left_out else "there is none about a workflow that could be read"
        raise QueryFileError(file="questions", reason=reason)
    return Scores(
        means={name: mean for name, mean in _means(rows).items() if name in cuts.shown},
        tokens=float(np.mean(tokens)) if tokens else None,
        left_out=tuple(left_out),
        rows=tuple(rows),
    )
