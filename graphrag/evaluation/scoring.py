"""Scores rankings: recall of what was wanted, hits, reciprocal rank, tokens of contexts; knows no file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from datasources.types import Node
from graphrag.embedding.language import language_of
from graphrag.evaluation.certainty import ScoredRow, intervals, splits
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.context import ContextOptions, build_context
from graphrag.retrieval.retriever import RetrievalOptions, Retrieves

RANKED = 60
"""Nodes asked for when a whole ranking is scored (a context holds fewer)."""


class QueryFileError(Exception):
    """The file of questions cannot be used; `reason` says what is wrong and where."""

    def __init__(self, *, file: str, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(f"{file}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredQuestion:
    """A question and the names of the nodes that answer it. Nodes of the type `beside` and the `given` ones
    are not ranked. `lost` says why it is left out where none of these nodes exists."""

    graph_key: str
    text: str
    gold: Set[str]
    beside: str
    lost: str
    given: Set[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Means over the questions, each from 0 to 1; recall and hits by how many places count.

    `tokens` is the mean size of a context; `left_out` says what was not asked, and why.
    """

    recall: Mapping[int, float]
    mrr: float
    questions: int
    hits: Mapping[int, float] = field(default_factory=dict[int, float])
    tokens: float | None = None
    left_out: tuple[str, ...] = ()
    rows: tuple[ScoredRow, ...] = ()

    def certainty(self) -> dict[str, Any]:
        """Return each measure with its interval, and all measures for parts of the questions."""
        names = list(self.rows[0].measures) if self.rows else []
        parts = splits(self.rows)

        def mean(rows: Sequence[ScoredRow], name: str) -> float:
            return round(float(np.mean([row.measures[name] for row in rows])), 4)

        return {
            "intervals": {
                name: {"mean": mean(self.rows, name), "low": round(low, 4), "high": round(high, 4)}
                for name, (low, high) in intervals(self.rows).items()
            },
            "splits": {
                part: {"questions": len(rows), **{name: mean(rows, name) for name in names}}
                for part, rows in parts.items()
            },
        }

    def as_dict(self) -> dict[str, float]:
        return {
            **{f"recall@{cut}": round(value, 4) for cut, value in self.recall.items()},
            **{f"hits@{cut}": round(value, 4) for cut, value in self.hits.items()},
            "mrr": round(self.mrr, 4),
        }


async def score(
    retriever: Retrieves,
    questions: Sequence[ScoredQuestion],
    options: RetrievalOptions,
    *,
    name_of: Callable[[Node], str],
    there: Mapping[str, Set[str]],
    recall: Sequence[int],
    hits: Sequence[int] = (),
    deep: Sequence[int] = (),
    whole: Sequence[int] = (),
    nodes: int | None = None,
    with_tokens: bool = False,
    on_question: Callable[[], None] = lambda: None,
) -> Scores:
    """Score one way of retrieving; `there` are the names of the nodes of each graph.

    `deep` are more cuts of recall, `whole` those at which all answers must be found; both stand in `rows`.
    `nodes` is how many nodes the graph has, where `there` does not say all.

    A question none of whose answers is there is left out; one that is missing beside others was not found.
    Raises: QueryFileError when no question is left.
    """
    rows: list[list[float]] = []
    scored: list[ScoredRow] = []
    names_of = [
        *(f"recall@{cut}" for cut in (*recall, *deep)),
        *(f"hits@{cut}" for cut in hits),
        *(f"all@{cut}" for cut in whole),
        "mrr",
    ]
    most = max(RANKED, *deep, *whole) if deep or whole else RANKED
    tokens: list[int] = []
    left_out: list[str] = []
    for asked in questions:
        on_question()
        if there[asked.graph_key].isdisjoint(asked.gold):
            left_out.append(asked.lost)
            continue
        ranked = replace(options, max_nodes=most, exclude_types=(asked.beside,))
        found = await retriever.retrieve(asked.graph_key, asked.text, ranked)
        names = (name_of(scored.node) for scored in found.nodes)
        ranking = [name for name in names if name not in asked.given]
        rows.append(rank_scores(ranking, asked.gold, recall, hits))
        more = rank_scores(ranking, asked.gold, (*recall, *deep), hits)
        all_found = [float(asked.gold <= set(ranking[:cut])) for cut in whole]
        scored.append(
            ScoredRow(
                measures=dict(zip(names_of, [*more[:-1], *all_found, more[-1]], strict=True)),
                nodes=len(there[asked.graph_key]) if nodes is None else nodes,
                relevant=len(asked.gold),
                language=language_of(asked.text),
            )
        )
        if with_tokens:
            shown = await retriever.retrieve(asked.graph_key, asked.text, options)
            tokens.append(build_context(shown, ContextOptions(), count_tokens).tokens)
    if not rows:
        reason = left_out[0] if left_out else "there is none about what could be read"
        raise QueryFileError(file="questions", reason=reason)
    means: list[float] = np.mean(rows, axis=0).tolist()
    return Scores(
        recall=dict(zip(recall, means, strict=False)),
        hits=dict(zip(hits, means[len(recall) :], strict=False)),
        mrr=means[-1],
        questions=len(rows),
        tokens=float(np.mean(tokens)) if tokens else None,
        left_out=tuple(left_out),
        rows=tuple(scored),
    )


def rank_scores(
    ranking: Iterable[str], gold: Set[str], recall: Sequence[int], hits: Sequence[int] = ()
) -> list[float]:
    """Return recall at each cut, whether one was hit at each cut, and the first one's reciprocal rank."""
    ranked = list(ranking)
    first = next((i for i, name in enumerate(ranked, start=1) if name in gold), None)
    return [
        *(len(gold & set(ranked[:cut])) / len(gold) for cut in recall),
        *(1.0 if first is not None and first <= cut else 0.0 for cut in hits),
        1.0 / first if first else 0.0,
    ]
