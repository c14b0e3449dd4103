"""Summarises the results of cases, reads and writes files of results, and compares two of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from graphrag.evaluation.answer_runs import WAYS, AnswerRow, Way
from graphrag.evaluation.scoring import QueryFileError, interval

VERDICTS = ("right", "partly", "wrong", "invented")
MEASURES = ("rounds", "tool_calls", "malformed", "prompt", "completion", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSummary:
    """Summary of the results of one way (agent or baseline) for questions or changes: shares from 0
    to 1, means, and total cost.

    `invented_marked` counts the invented answers that were marked as such to people.
    """

    way: Way
    kind: str
    cases: int
    shares: dict[str, float]
    right_interval: tuple[float, float]
    means: dict[str, float]
    cost_usd: float | None
    failed: int
    invented_marked: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the summary as JSON for scripts."""
        low, high = self.right_interval
        return {
            "cases": self.cases,
            **{name: round(share, 4) for name, share in self.shares.items()},
            "right_interval": [round(low, 4), round(high, 4)],
            **{name: round(mean, 3) for name, mean in self.means.items()},
            "cost_usd": self.cost_usd,
            "failed": self.failed,
            "invented_marked": self.invented_marked,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The difference of the agent's share of right results to an earlier run, over the cases of
    both.
    """

    cases: int
    difference: float
    interval: tuple[float, float]
    better: tuple[str, ...]
    worse: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison as JSON for scripts."""
        return {
            "cases": self.cases,
            "difference": round(self.difference, 4),
            "interval": [round(bound, 4) for bound in self.interval],
            "better": self.better,
            "worse": self.worse,
        }


def report_document(
    rows: Sequence[AnswerRow], comparison: Comparison | None, left_out: Sequence[str]
) -> dict[str, Any]:
    """Returns all results as JSON."""
    document: dict[str, Any] = {"left_out": list(left_out)}
    for summary in summarize(rows):
        document.setdefault(f"{summary.kind}s", {})[summary.way] = summary.as_dict()
    if comparison is not None:
        document["against"] = comparison.as_dict()
    return document


def summarize(rows: Sequence[AnswerRow]) -> list[AnswerSummary]:
    """Returns the summaries of questions and changes for each way with results."""
    groups: list[tuple[Way, str, list[AnswerRow]]] = [
        (way, kind, [row for row in rows if row.way == way and row.kind == kind])
        for kind in ("question", "change")
        for way in WAYS
    ]
    return [_summary(way, kind, group) for way, kind, group in groups if group]


def _summary(way: Way, kind: str, rows: Sequence[AnswerRow]) -> AnswerSummary:
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return AnswerSummary(
        way=way,
        kind=kind,
        cases=len(rows),
        shares={
            verdict: sum(row.verdict == verdict for row in rows) / len(rows) for verdict in VERDICTS
        },
        right_interval=interval([row.verdict == "right" for row in rows]),
        means={name: float(np.mean([getattr(row, name) for row in rows])) for name in MEASURES},
        cost_usd=sum(costs) if len(costs) == len(rows) else None,
        failed=sum(row.error is not None for row in rows),
        invented_marked=sum(row.verdict == "invented" and row.marked for row in rows),
    )


def compare(rows: Iterable[AnswerRow], earlier: Iterable[AnswerRow]) -> Comparison | None:
    """Compares the agent's results with an earlier run. Returns None if no case is in both."""
    current, previous = (_of_agent(run) for run in (rows, earlier))
    both = sorted(current.keys() & previous.keys())
    if not both:
        return None
    changes = [
        (current[case].verdict == "right") - (previous[case].verdict == "right") for case in both
    ]
    names = [case for case, _ in both]
    return Comparison(
        cases=len(both),
        difference=float(np.mean(changes)),
        interval=interval(changes),
        better=tuple(name for name, change in zip(names, changes, strict=True) if change > 0),
        worse=tuple(name for name, change in zip(names, changes, strict=True) if change < 0),
    )


def _of_agent(rows: Iterable[AnswerRow]) -> dict[tuple[str, str], AnswerRow]:
    return {(row.case, row.digest): row for row in rows if row.way == "agent"}


def read_rows(path: Path) -> list[AnswerRow]:
    """Returns the results in a file of JSON lines, the last one of each identity; empty without a
    file.

    An incomplete last line is ignored. Raises: QueryFileError.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise QueryFileError(file=str(path), reason=exc.strerror or str(exc)) from exc
    rows: dict[tuple[str, ...], AnswerRow] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = AnswerRow.model_validate_json(line)
        except ValidationError as exc:
            if number == len(lines):
                break
            reason = f"line {number} is not a result of `nodius eval --answers`"
            raise QueryFileError(file=str(path), reason=reason) from exc
        rows[row.identity] = row
    return list(rows.values())


def append_row(path: Path, row: AnswerRow) -> None:
    """Adds a result to a file, after removing an incomplete last line. Raises: QueryFileError."""
    try:
        with path.open("a+b") as file:
            file.seek(0)
            content = file.read()
            complete_bytes = content.rfind(b"\n") + 1
            if complete_bytes < len(content):
                file.truncate(complete_bytes)
            file.write(row.model_dump_json().encode() + b"\n")
    except OSError as exc:
        raise QueryFileError(file=str(path), reason=exc.strerror or str(exc)) from exc
