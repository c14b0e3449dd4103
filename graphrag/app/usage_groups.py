"""Sums up model calls, questions and decisions by person, model, day or graph."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, final

from graphrag.agent.turn_trace import DAY_MS, TracedTurn
from graphrag.app.usage_report import By, UsageGroup, UsageGroups
from graphrag.app.wiring import Services
from graphrag.approvals import Person
from graphrag.leases import now_ms
from graphrag.llm.registry import OFFLINE

MAX_DAYS: Final = 90
MAX_TURNS: Final = 5_000  # of a workspace
MAX_OWN_THREADS: Final = 200  # conversations of a person that are looked at
MAX_DECISIONS: Final = 5_000  # entries of a workspace's audit log
MAX_GROUPS: Final = 20  # persons, models or graphs; the others are added up
PAGE: Final = 500

_DECIDED = ("approve", "approve_edited", "reject")


@final
@dataclass(slots=True)
class _Sum:
    """The usage of one group. `costs`: of each call, None where a price is unknown."""

    calls: int = 0
    questions: int = 0
    decisions: int = 0
    tokens: int = 0
    cached: int = 0
    costs: list[float | None] = field(default_factory=list[float | None])

    def add_call(self, call: dict[str, Any]) -> None:
        self.calls += 1
        self.tokens += call["inputTokens"] + call["outputTokens"]
        self.cached += call["cachedTokens"]
        self.costs.append(0.0 if call["provider"] == OFFLINE else call.get("costUsd"))

    def add(self, other: _Sum) -> None:
        self.calls += other.calls
        self.questions += other.questions
        self.decisions += other.decisions
        self.tokens += other.tokens
        self.cached += other.cached
        self.costs += other.costs

    def group(self, name: str, *, others: int = 0) -> UsageGroup:
        known = [cost for cost in self.costs if cost is not None]
        return UsageGroup(
            name=name,
            calls=self.calls,
            questions=self.questions,
            decisions=self.decisions,
            total_tokens=self.tokens,
            cached_tokens=self.cached,
            cost=sum(known) if len(known) == len(self.costs) else None,
            others=others,
        )


async def usage_by(workspaces: Sequence[tuple[Services, Person]], by: By, days: int) -> UsageGroups:
    """Returns the usage of everybody in the workspaces where the person is an admin, and of the
    person's own conversations in the others.

    Calls are stored as long as traces. `days` are days of UTC, MAX_DAYS at most. Raises:
    SourceError.
    """
    since = (now_ms() // DAY_MS - min(days, MAX_DAYS) + 1) * DAY_MS
    sums: dict[str, _Sum] = {}
    cut = False
    for services, person in workspaces:
        is_admin = person.at_least("admin")
        turns = 0
        source = services.traces.turns(since) if is_admin else _own_turns(services, person, since)
        async with aclosing(source) as found:
            async for turn in found:
                if (turns := turns + 1) > MAX_TURNS:
                    cut = True
                    break
                _take_turn(sums, turn, by)
        cut |= await _take_decisions(sums, services, None if is_admin else person, by, since)
    kept = max((services.settings.trace_days for services, _ in workspaces), default=0)
    return UsageGroups(groups=_largest(sums, by), days=days, kept_days=kept, cut=cut)


async def _own_turns(services: Services, person: Person, since: int) -> AsyncGenerator[TracedTurn]:
    """Yields the turns of a person's latest conversations."""
    for thread in await services.threads.list(person, limit=MAX_OWN_THREADS):
        if thread.last_updated_time < since:
            continue
        for stored in await services.traces.of_thread(thread.key):
            turn = TracedTurn.of(stored)
            if turn.time >= since:
                yield turn


def _take_turn(sums: dict[str, _Sum], turn: TracedTurn, by: By) -> None:
    """Adds a turn. It is a question of each group whose model answered in it."""
    asked = set[str]()
    for start, call in turn.calls:
        name = {
            "person": turn.user_id,
            "graph": turn.graph_key,
            "day": _day(start),
            "model": f"{call['provider']} {call['model']}",
        }[by]
        sums.setdefault(name, _Sum()).add_call(call)
        asked.add(name if by == "model" else "")
    if turn.is_run:
        return
    named = {"person": turn.user_id, "graph": turn.graph_key, "day": _day(turn.time)}
    for name in asked if by == "model" else [named[by]]:
        sums.setdefault(name, _Sum()).questions += 1


async def _take_decisions(
    sums: dict[str, _Sum], services: Services, person: Person | None, by: By, since: int
) -> bool:
    """Adds what people decided, one person's only if one is given. Returns whether there is more.

    A model decides nothing.
    """
    if by == "model":
        return False
    before: int | None = None
    for _ in range(0, MAX_DECISIONS, PAGE):
        entries = await services.approvals.audit.entries(before=before, limit=PAGE)
        for entry in entries:
            if entry.at < since:
                return False
            facts = entry.facts
            is_own = person is None or facts.get("userId") == person.user_id
            if is_own and facts.get("verdict") in _DECIDED and facts.get("role") != "system":
                named = {"person": facts["userId"], "graph": facts.get("graphKey", "")}
                name = _day(entry.at) if by == "day" else str(named[by])
                sums.setdefault(name, _Sum()).decisions += 1
        if len(entries) < PAGE - 1:  # the head of the log is no entry
            return False
        before = entries[-1].sequence
    return True


def _day(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d")


def _largest(sums: dict[str, _Sum], by: By) -> list[UsageGroup]:
    """Returns the days in order, or the largest groups and the sum of the others."""
    if by == "day":
        return [sums[name].group(name) for name in sorted(sums)]
    ranked = sorted(sums, key=lambda name: (-sums[name].tokens, -sums[name].questions, name))
    groups = [sums[name].group(name) for name in ranked[:MAX_GROUPS]]
    return groups + _others([sums[name] for name in ranked[MAX_GROUPS:]])


def _others(rest: Iterable[_Sum]) -> list[UsageGroup]:
    total, number = _Sum(), 0
    for one in rest:
        total.add(one)
        number += 1
    return [total.group("", others=number)] if number else []
