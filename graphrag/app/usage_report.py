"""Adds up what a person's conversations used, by model, and where their limits stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from graphrag.agent.thread_store import Thread
from graphrag.agent.turn_trace import DAY_MS
from graphrag.app.wiring import Services
from graphrag.approvals import Person
from graphrag.leases import now_ms
from graphrag.llm.usage_accounts import Payer

MAX_THREADS = 10_000
MAX_TURNS = 5_000


class _ReportPart(BaseModel):
    """A part of the report, in JSON with the wire's names."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class ModelUsage(_ReportPart):
    provider: str
    model: str
    threads: int
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost: float


class UsageStanding(_ReportPart):
    """A limit of this month (UTC) that counts for the caller. Units: tokens, US dollars; absent: none."""

    whose: Literal["person", "workspace", "service"]
    workspace: str
    used_tokens: int
    used_cost: float
    max_tokens: int | None = None
    max_cost: float | None = None


class PersonUsage(_ReportPart):
    user_id: str
    threads: int
    total_tokens: int
    cost: float


class UsageGroup(_ReportPart):
    """What one person, model, day or graph used. Units: tokens, US dollars."""

    name: str
    calls: int
    total_tokens: int
    cached_tokens: int
    cost: float


class UsageAnswer(_ReportPart):
    """What the caller's own conversations used, and their limits. Units: tokens, US dollars.

    `people`: what everybody's conversations in these workspaces used, for admins; `groups`: their calls, as
    asked for.
    """

    threads: int
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost: float
    models: list[ModelUsage]
    limits: list[UsageStanding] = Field(default_factory=list[UsageStanding])
    people: list[PersonUsage] = Field(default_factory=list[PersonUsage])
    groups: list[UsageGroup] = Field(default_factory=list[UsageGroup])


By = Literal["person", "model", "day", "graph"]


async def usage_by(workspaces: Sequence[tuple[Services, Person]], by: By, days: int) -> list[UsageGroup]:
    """Add up the calls of models in everybody's conversations, for admins, which the caller checks.

    Calls are noted for as long as traces are kept, of the latest MAX_TURNS turns. Raises: SourceError.
    """
    since = (now_ms() // DAY_MS - days + 1) * DAY_MS
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for services, person in workspaces:
        if not person.at_least("admin"):
            continue
        for user, graph, start, call in await services.traces.chats(since, MAX_TURNS):
            day = datetime.fromtimestamp(start / 1000, UTC).strftime("%Y-%m-%d")
            name = {
                "person": user,
                "graph": graph,
                "day": day,
                "model": f"{call['provider']} {call['model']}",
            }
            groups.setdefault(name[by], []).append(call)
    found = [
        UsageGroup(
            name=name,
            calls=len(calls),
            total_tokens=sum(call["inputTokens"] + call["outputTokens"] for call in calls),
            cached_tokens=sum(call["cachedTokens"] for call in calls),
            cost=sum(call.get("costUsd", 0.0) for call in calls),
        )
        for name, calls in groups.items()
    ]
    return sorted(found, key=lambda one: one.name if by == "day" else (-one.total_tokens, one.name))


async def usage_report(
    workspaces: Sequence[tuple[Services, Person]], *, graph_key: str | None = None
) -> UsageAnswer:
    """Return the usage of a person in some workspaces or of one graph; for an admin also everybody's.

    Raises: SourceError.
    """
    threads: list[Thread] = []
    everybodys: list[Thread] = []
    limits: list[UsageStanding] = []
    for services, person in workspaces:
        threads += await services.threads.list(person, graph_key=graph_key, limit=MAX_THREADS)
        if person.at_least("admin"):
            everybodys += await services.threads.list_all(
                person.workspace, graph_key=graph_key, limit=MAX_THREADS
            )
        payer = Payer(workspace=person.workspace, person=person.user_id)
        limits += [
            UsageStanding(
                whose=standing.whose,
                workspace=person.workspace,
                used_tokens=standing.used.tokens,
                used_cost=standing.used.cost_usd,
                max_tokens=standing.allowed.tokens,
                max_cost=standing.allowed.cost_usd,
            )
            for standing in await services.meter.accounts.standings(payer)
        ]
    return UsageAnswer(
        threads=len(threads),
        prompt_tokens=sum(t.total_prompt_tokens for t in threads),
        completion_tokens=sum(t.total_completion_tokens for t in threads),
        total_tokens=sum(t.total_tokens for t in threads),
        cost=sum(t.total_cost for t in threads),
        models=_by_model(threads),
        limits=limits,
        people=_by_person(everybodys),
    )


def _by_person(threads: Sequence[Thread]) -> list[PersonUsage]:
    """Add up by person, the one who used most first."""
    groups: dict[str, list[Thread]] = {}
    for thread in threads:
        groups.setdefault(thread.user_id, []).append(thread)
    found = [
        PersonUsage(
            user_id=user_id,
            threads=len(group),
            total_tokens=sum(t.total_tokens for t in group),
            cost=sum(t.total_cost for t in group),
        )
        for user_id, group in groups.items()
    ]
    return sorted(found, key=lambda used: (-used.total_tokens, -used.threads, used.user_id))


def _by_model(threads: Sequence[Thread]) -> list[ModelUsage]:
    """Add up by the model that last answered in a conversation."""
    groups: dict[tuple[str, str], list[Thread]] = {}
    for thread in threads:
        groups.setdefault((thread.provider or "", thread.model or ""), []).append(thread)
    return [
        ModelUsage(
            provider=provider,
            model=model,
            threads=len(group),
            prompt_tokens=sum(t.total_prompt_tokens for t in group),
            completion_tokens=sum(t.total_completion_tokens for t in group),
            total_tokens=sum(t.total_tokens for t in group),
            cost=sum(t.total_cost for t in group),
        )
        for (provider, model), group in sorted(groups.items())
    ]
