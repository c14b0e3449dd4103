"""Figures of calls by day: outcomes, waits, containment, causes of failure and cost.

A call counts on the day on which it began, in UTC. Contained calls are those that the agent served
to their end: they neither failed nor were transferred to a person.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

from pydantic import Field

from graphrag.answer_body import AnswerBody
from graphrag.voice.call_records import Call, CallRecords

FAILURES: Final = frozenset(
    (
        "line_lost",
        "model_unreachable",
        "model_refused",
        "session_failed",
        "draining",
        "lost",
        "error",
    )
)  # reasons of an end that neither caller nor agent chose
MAX_COUNTED: Final = 10_000  # calls that one request reads
PAGE: Final = 500
NO_OUTCOME: Final = "none"


class Waits(AnswerBody):
    """Waiting times in milliseconds. `count`: number of waits."""

    count: int = 0
    p50: int | None = None
    p95: int | None = None


class CallFigures(AnswerBody):
    """Figures of ended calls. `day`: in UTC, absent for the total.

    `contained`: calls that neither failed nor were transferred. `failures`: calls by the reason of
    their failure. `answerWaits`: from the end of the caller's speech to the answer's first sound.
    `greetingWaits`: from the start of a stream to the first sound. `costUsd`: of calls with a known
    cost; `withoutCost`: calls without one, as the model has no known price or is on this machine.
    """

    day: str | None = None
    calls: int = 0
    seconds: float = 0.0
    contained: int = 0
    transferred: int = 0
    failed: int = 0
    outcomes: dict[str, int] = Field(default_factory=dict[str, int])
    failures: dict[str, int] = Field(default_factory=dict[str, int])
    answer_waits: Waits = Field(default_factory=Waits)
    greeting_waits: Waits = Field(default_factory=Waits)
    cost_usd: float = 0.0
    without_cost: int = 0


class FiguresOfCalls(AnswerBody):
    """`days`: newest first. `more`: older calls were not counted, as there are too many."""

    since: int
    total: CallFigures
    days: list[CallFigures]
    more: bool = False


async def read_ended(
    records: CallRecords, *, since: int, agent_id: str | None = None, most: int = MAX_COUNTED
) -> tuple[list[Call], bool]:
    """Returns the newest ended calls since a time in ms since 1970, at most `most`, and whether
    there are more.
    """
    found: list[Call] = []
    cursor: str | None = None
    if most <= 0:
        calls, _ = await records.list(agent_id=agent_id, status="ended", since=since, limit=1)
        return [], bool(calls)
    while len(found) < most:
        page, cursor = await records.list(
            agent_id=agent_id,
            status="ended",
            since=since,
            cursor=cursor,
            limit=min(PAGE, most - len(found)),
        )
        found += page
        if cursor is None:
            break
    return found, cursor is not None


async def figures_of(calls: Sequence[Call], *, since: int, more: bool) -> FiguresOfCalls:
    """Returns the figures of ended calls. Computed in a thread, because there may be many."""
    return await asyncio.to_thread(_figures, calls, since, more)


def _figures(calls: Sequence[Call], since: int, more: bool) -> FiguresOfCalls:
    days: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        days[datetime.fromtimestamp(call.started_time / 1000, UTC).date().isoformat()].append(call)
    rows = [_row(days[day], day) for day in sorted(days, reverse=True)]
    return FiguresOfCalls(since=since, total=_row(calls, None), days=rows, more=more)


def _row(calls: Sequence[Call], day: str | None) -> CallFigures:
    failures = Counter(call.end_reason for call in calls if call.end_reason in FAILURES)
    transferred = sum(call.end_reason == "transferred" for call in calls)
    costs = [call.usage.get("costUsd") for call in calls]
    known = [float(cost) for cost in costs if isinstance(cost, int | float)]
    return CallFigures(
        day=day,
        calls=len(calls),
        seconds=round(sum(call.duration_sec or 0.0 for call in calls), 1),
        contained=len(calls) - transferred - failures.total(),
        transferred=transferred,
        failed=failures.total(),
        outcomes=dict(Counter(call.outcome or NO_OUTCOME for call in calls).most_common()),
        failures={str(reason): count for reason, count in failures.most_common()},
        answer_waits=_waits(wait for call in calls for wait in call.latency.get("turns") or ()),
        greeting_waits=_waits(call.latency.get("firstAudioMs") for call in calls),
        cost_usd=round(sum(known), 6),
        without_cost=len(costs) - len(known),
    )


def _waits(values: Iterable[Any]) -> Waits:
    """Returns the percentiles by nearest rank."""
    ordered = sorted(value for value in values if isinstance(value, int))
    if not ordered:
        return Waits()
    p50, p95 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.95))
    return Waits(count=len(ordered), p50=p50, p95=p95)
