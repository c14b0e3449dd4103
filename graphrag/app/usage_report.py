"""Sums up the usage of a person's conversations by model, with the limits and their use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, TypeVar

from pydantic import Field

from graphrag.agent.thread_store import Thread
from graphrag.answer_body import AnswerBody
from graphrag.app.wiring import Services
from graphrag.approvals import Person
from graphrag.llm.usage_meter import Payer

K = TypeVar("K", bound=Hashable)

MAX_THREADS = 10_000


class ThreadsUsage(AnswerBody):
    """The usage of conversations. Units: tokens, US dollars; `cost` is None if a price is
    unknown.
    """

    threads: int
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost: float | None


class ModelUsage(ThreadsUsage):
    provider: str
    model: str


class UsageStanding(AnswerBody):
    """A limit of this month (UTC) that applies to the caller, and its use. Units: tokens, US
    dollars; None: unlimited.
    """

    whose: Literal["person", "workspace", "service"]
    workspace: str
    used_tokens: int
    used_cost: float
    max_tokens: int | None = None
    max_cost: float | None = None


class PersonUsage(AnswerBody):
    user_id: str
    threads: int
    total_tokens: int
    cost: float | None


By = Literal["person", "model", "day", "graph"]


class UsageGroup(AnswerBody):
    """The usage of one person, model, day or graph. Units: tokens, US dollars.

    `questions`: messages that were answered; `decisions`: proposals that were approved or rejected,
    0 for a model. `others`: the number of smaller groups of which this is the sum.
    """

    name: str
    calls: int
    questions: int = 0
    decisions: int = 0
    total_tokens: int
    cached_tokens: int
    cost: float | None
    others: int = 0


class UsageGroups(AnswerBody):
    """Usage by person, model, day (UTC) or graph. `kept_days`: how long calls are stored; `cut`:
    there was more than is counted.
    """

    groups: list[UsageGroup] = Field(default_factory=list[UsageGroup])
    days: int = 0
    kept_days: int = 0
    cut: bool = False


class UsageAnswer(ThreadsUsage, UsageGroups):
    """The usage of the caller's own conversations, and the limits. Units: tokens, US dollars.

    For admins, `people` is the usage of everybody's conversations in these workspaces. `groups` is
    that of calls, grouped as requested: everybody's for admins, one's own for others.
    """

    models: list[ModelUsage]
    limits: list[UsageStanding] = Field(default_factory=list[UsageStanding])
    people: list[PersonUsage] = Field(default_factory=list[PersonUsage])


async def usage_report(
    workspaces: Sequence[tuple[Services, Person]], *, graph_key: str | None = None
) -> UsageAnswer:
    """Returns the usage of a person in workspaces, or of one graph; for an admin also everybody's.

    Raises: SourceError.
    """
    threads: list[Thread] = []
    all_threads: list[Thread] = []
    limits: list[UsageStanding] = []
    for services, person in workspaces:
        threads += await services.threads.list(person, graph_key=graph_key, limit=MAX_THREADS)
        if person.at_least("admin"):
            all_threads += await services.threads.list_all(
                person.workspace, graph_key=graph_key, limit=MAX_THREADS
            )
        limits += await limits_of(services, person)
    models = _grouped(threads, lambda thread: (thread.provider or "", thread.model or ""))
    people = _grouped(all_threads, lambda thread: thread.user_id)
    return UsageAnswer(
        **_added_up(threads),
        models=[
            ModelUsage(provider=provider, model=model, **_added_up(group))
            for (provider, model), group in sorted(models.items())
        ],
        limits=limits,
        people=sorted(
            (PersonUsage(user_id=user_id, **_added_up(group)) for user_id, group in people.items()),
            key=lambda used: (-used.total_tokens, -used.threads, used.user_id),
        ),
    )


async def limits_of(services: Services, person: Person) -> list[UsageStanding]:
    """Returns the limits of this month that apply to a person in a workspace, and their use."""
    payer = Payer(workspace=person.workspace, person=person.user_id)
    return [
        UsageStanding(
            whose=account.whose,
            workspace=person.workspace,
            used_tokens=account.used.tokens,
            used_cost=account.used.cost_usd,
            max_tokens=account.max_tokens,
            max_cost=account.max_cost_usd,
        )
        for account in await services.meter.account_usages(payer)
    ]


def _grouped(threads: Sequence[Thread], key: Callable[[Thread], K]) -> dict[K, list[Thread]]:
    groups: dict[K, list[Thread]] = {}
    for thread in threads:
        groups.setdefault(key(thread), []).append(thread)
    return groups


def _added_up(threads: Sequence[Thread]) -> dict[str, Any]:
    return {
        "threads": len(threads),
        "prompt_tokens": sum(t.total_prompt_tokens for t in threads),
        "completion_tokens": sum(t.total_completion_tokens for t in threads),
        "total_tokens": sum(t.total_tokens for t in threads),
        "cost": _sum([None if t.unpriced_tokens else t.total_cost for t in threads]),
    }


def _sum(costs: Sequence[float | None]) -> float | None:
    """Returns the sum of costs, None if one is unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None
