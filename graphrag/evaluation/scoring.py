"""Scores rankings: recall of what was wanted, hits, reciprocal rank, tokens of contexts;
knows no file.

How sure mean scores are is said by intervals of the bootstrap: the questions drawn again and again,
with the same seed each time; and for which questions they hold by splits of them.
Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), percentile intervals
of 95 %.
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

RANKED = 60
"""Nodes asked for when a whole ranking is scored (a context holds fewer)."""
DRAWS = 1_000
SIZES = (20, 60, 1_000, 10_000)
MAX_RELEVANT = 4


class QueryFileError(Exception):
    """The file of questions cannot be used; `reason` says what is wrong and where."""

    def __init__(self, *, file: str, reason: str) -> None:
        self.file = file
        self.reason = reason
        super().__init__(f"{file}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredQuestion:
    """A question and the names of the nodes that answer it. Nodes of the type `beside` and the
    `given` ones are not ranked. `lost` says why it is left out where none of these nodes exists.
    """

    graph_key: str
    text: str
    gold: Set[str]
    beside: str
    lost: str
    given: Set[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """How many places count. `deep` are more cuts of recall, `whole` those at which all answers
    must be found; both stand in the rows of `Scores` alone.
    """

    recall: Sequence[int]
    hits: Sequence[int] = ()
    deep: Sequence[int] = ()
    whole: Sequence[int] = ()

    @property
    def most(self) -> int:
        """How many places have to be known."""
        return max(RANKED, *self.deep, *self.whole, 0)

    @property
    def shown(self) -> set[str]:
        """The measures of a table."""
        return {
            *(f"recall@{cut}" for cut in self.recall),
            *(f"hits@{cut}" for cut in self.hits),
            "mrr",
        }

    def measures(self, ranking: Sequence[str], gold: Set[str]) -> dict[str, float]:
        """Return recall, whether one was hit and whether all were found, each at its cuts, and the
        first one's reciprocal rank."""
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
    """What one question scored, by measure; how many nodes its graph has, and how
    many answer it.
    """

    measures: Mapping[str, float]
    nodes: int
    relevant: int
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """`means` over the questions, each from 0 to 1, by measure (`recall@5`, `mrr`).

    `tokens` is the mean size of a context; `left_out` says what was not asked, and why. `rows` have
    more measures than are shown.
    """

    means: Mapping[str, float]
    tokens: float | None = None
    left_out: tuple[str, ...] = ()
    rows: tuple[ScoredRow, ...] = ()

    @property
    def questions(self) -> int:
        return len(self.rows)

    def certainty(self) -> dict[str, Any]:
        """Return each measure with its interval, and all measures for parts of the questions."""
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
    """Return between what the mean lies in 95 of 100 draws of as many values."""
    found = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(0).integers(len(found), size=(DRAWS, len(found)))
    low, high = np.percentile(found[draws].mean(axis=1), [2.5, 97.5]).tolist()
    return low, high


def intervals(rows: Sequence[ScoredRow]) -> dict[str, tuple[float, float]]:
    """Return the interval of each measure."""
    return (
        {name: interval([row.measures[name] for row in rows]) for name in rows[0].measures}
        if rows
        else {}
    )


def splits(rows: Sequence[ScoredRow]) -> dict[str, list[ScoredRow]]:
    """Return the questions by size of graph, number of relevant nodes, language; none
    of one group.
    """
    groups: dict[str, dict[str, list[ScoredRow]]] = {"graph": {}, "relevant": {}, "language": {}}
    for row in sorted(rows, key=lambda row: (row.nodes, row.relevant, row.language)):
        most = next((size for size in SIZES if row.nodes <= size), None)
        size = f"> {SIZES[-1]:,} nodes" if most is None else f"≤ {most:,} nodes"
        many = row.relevant >= MAX_RELEVANT
        groups["graph"].setdefault(size, []).append(row)
        groups["relevant"].setdefault(f"{min(row.relevant, MAX_RELEVANT)}{'+' * many}", []).append(
            row
        )
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
    there: Mapping[str, Set[str]],
    cuts: Cuts,
    nodes: int | None = None,
    with_tokens: bool = False,
    on_question: Callable[[], None] = lambda: None,
) -> Scores:
    """Score one way of retrieving; `there` are the names of the nodes of each graph.

    `nodes` is how many nodes the graph has, where `there` does not say all.

    A question none of whose answers is there is left out; one that is missing beside others
    was not found.
    Raises: QueryFileError when no question is left.
    """
    rows: list[ScoredRow] = []
    tokens: list[int] = []
    left_out: list[str] = []
    for asked in questions:
        on_question()
        if there[asked.graph_key].isdisjoint(asked.gold):
            left_out.append(asked.lost)
            continue
        ranked = replace(options, max_nodes=cuts.most, exclude_types=(asked.beside,))
        found = await retriever.retrieve(asked.graph_key, asked.text, ranked)
        names = [name_of(scored.node) for scored in found.nodes]
        measures = cuts.measures([name for name in names if name not in asked.given], asked.gold)
        size = nodes or len(there[asked.graph_key])
        language = language_of(asked.text)
        rows.append(
            ScoredRow(measures=measures, nodes=size, relevant=len(asked.gold), language=language)
        )
        if with_tokens:
            shown = await retriever.retrieve(asked.graph_key, asked.text, options)
            context = await context_for(retriever.source, shown, ContextOptions())
            tokens.append(context.tokens)
    if not rows:
        reason = left_out[0] if left_out else "there is none about what could be read"
        raise QueryFileError(file="questions", reason=reason)
    return Scores(
        means={name: mean for name, mean in _means(rows).items() if name in cuts.shown},
        tokens=float(np.mean(tokens)) if tokens else None,
        left_out=tuple(left_out),
        rows=tuple(rows),
    )
