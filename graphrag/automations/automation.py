"""The stored form of an automation: what is run, when, how far it may go, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from datasources.types import Document
from graphrag.i18n import Language
from graphrag.roles import Role
from graphrag.sessions.periods import Calendar
from graphrag.sessions.schedules import Missed, Schedule, schedule, zone_of

KIND = "automation"
SCHEMA_VERSION = 1
RUN = "auto/"
"""So begins the key of every run."""
NAME_CHARS = 80
MAX_SKIPPED = 50

PauseReason = Literal["person", "failures", "owner_unseen", "graph_gone"]
SkipReason = Literal["missed", "running", "waiting", "unchanged", "budget"]


class Budget(Document):
    """Most that one run, and a day of runs, may use. Units: tokens, US dollars, seconds;
    None: no limit.
    """

    model_config = ConfigDict(extra="forbid")

    model_calls: int = Field(default=20, ge=1, le=200)
    tokens: int = Field(default=200_000, ge=1)
    cost_usd: float | None = Field(default=None, gt=0)
    active_s: int = Field(default=600, ge=1, le=86_400)
    day_runs: int = Field(default=48, ge=1, le=1_000)
    day_cost_usd: float | None = Field(default=None, gt=0)


class RunUsage(Document):
    """What a run has used in all. Units: tokens, US dollars."""

    session_id: str = ""
    tokens: int = 0
    cost_usd: float = 0.0
    is_priced: bool = True


class Spent(Document):
    """What the runs of one day used, by run: a run that is counted again replaces its figures."""

    day: str = ""
    runs: int = 0
    tokens: dict[str, int] = Field(default_factory=dict[str, int])
    cost_usd: dict[str, float] = Field(default_factory=dict[str, float])
    is_priced: bool = True
    """Whether the price of all of it is known."""
    earlier: RunUsage = RunUsage()
    """What a run used on the days before, where it is not over at midnight."""

    def of(self, session_id: str) -> RunUsage:
        """Return what a run used until now, on this day and before."""
        before = self.earlier if self.earlier.session_id == session_id else RunUsage()
        return RunUsage(
            session_id=session_id,
            tokens=before.tokens + self.tokens.get(session_id, 0),
            cost_usd=before.cost_usd + self.cost_usd.get(session_id, 0.0),
        )

    def counted(self, used: RunUsage) -> Spent:
        """Return the day with what a run has used in all, of which earlier days have their part."""
        key = used.session_id
        before = self.earlier if self.earlier.session_id == key else RunUsage()
        tokens = self.tokens | {key: used.tokens - before.tokens}
        costs = self.cost_usd | {key: used.cost_usd - before.cost_usd}
        is_priced = self.is_priced and used.is_priced
        return self.model_copy(update={"tokens": tokens, "cost_usd": costs, "is_priced": is_priced})

    def sums(self) -> dict[str, Any]:
        """Returns the day's figures as they are shown; the cost is None where a part
        of it is unknown.
        """
        costs = sum(self.cost_usd.values()) if self.is_priced else None
        return {
            "day": self.day,
            "runs": self.runs,
            "tokens": sum(self.tokens.values()),
            "costUsd": costs,
        }


class LastSeen(Document):
    """The graph as the last run found it."""

    revision: int = -1
    history_time: int = 0


class Skipped(Document):
    """An occurrence, or several, that made no run."""

    time: int
    reason: SkipReason
    count: int = 1


class AutomationFields(BaseModel):
    """What of an automation is stored and sent to clients alike.

    Units: times in milliseconds since 1970, `*_s` in seconds.
    """

    workspace: str
    graph_key: str
    name: str
    user_id: str
    role: Role
    """The owner's role when it was last saved; a run has the lower of it and the role seen last."""
    version: int = 1
    enabled: bool = True
    paused_reason: PauseReason | None = None
    cron: str | None = None
    dates: tuple[int, ...] = ()
    event: str | None = None
    """What starts it besides its schedule and people."""
    timezone: str = "UTC"
    day_start_hour: int = 0
    first_day: str = "monday"
    next_time: int | None = None
    last_scheduled_time: int | None = None
    mode: Literal["report", "propose"] = "report"
    require_validation: bool = True
    only_if_changed: bool = True
    overlap: Literal["supersede", "skip"] = "supersede"
    missed: Missed = "last"
    catch_up_s: int = 86_400
    budget: Budget = Budget()
    proposal_ttl_s: int = 7 * 86_400
    language: Language = "en"
    failures: int = 0
    """Runs that failed one after the other."""
    skipped: tuple[Skipped, ...] = ()
    last_session_id: str | None = None
    last_ended_id: str | None = None
    """The run whose end was counted last."""
    created_time: int = 0
    last_updated_time: int = 0


class Automation(AutomationFields, Document):
    """A prepared task, as it is stored. `record_version` is what a change compares."""

    key: str
    seed_id: str
    spent: Spent = Spent()
    last_seen: LastSeen = LastSeen()
    schema_version: int = SCHEMA_VERSION
    record_version: str | None = Field(default=None, exclude=True)

    @property
    def schedule(self) -> Schedule:
        """Raises: ScheduleError where the zone is not known any more."""
        return schedule(cron=self.cron, dates=self.dates, timezone=self.timezone)

    @property
    def calendar(self) -> Calendar:
        return Calendar(
            timezone=self.timezone, day_start_hour=self.day_start_hour, first_day=self.first_day
        )

    def day_of(self, now: int) -> str:
        """Return the date of an instant in the automation's zone."""
        return datetime.fromtimestamp(now / 1000, zone_of(self.timezone)).date().isoformat()

    def spent_on(self, now: int) -> Spent:
        """Return what was used on the day of an instant."""
        day = self.day_of(now)
        last = self.last_session_id
        if self.spent.day == day:
            return self.spent
        return Spent(day=day, earlier=self.spent.of(last) if last else RunUsage())

    def used_up(self, now: int) -> Literal["runs", "cost"] | None:
        """Return which limit of a day keeps a run from being begun; None: it may be."""
        spent = self.spent_on(now)
        budget = self.budget
        if spent.runs >= budget.day_runs:
            return "runs"
        if budget.day_cost_usd is not None and sum(spent.cost_usd.values()) >= budget.day_cost_usd:
            return "cost"
        return None

    def cost_left(self, session_id: str, now: int) -> float | None:
        """Return what a run may cost in all, its earlier days included; None: there is no limit."""
        budget = self.budget
        spent = self.spent_on(now)
        limits = [] if budget.cost_usd is None else [budget.cost_usd]
        if budget.day_cost_usd is not None:
            others = sum(cost for key, cost in spent.cost_usd.items() if key != session_id)
            before = spent.earlier.cost_usd if spent.earlier.session_id == session_id else 0.0
            limits.append(max(0.0, budget.day_cost_usd - others) + before)
        return min(limits, default=None)

    def with_skipped(self, time: int, reason: SkipReason, count: int = 1) -> Automation:
        """Return the automation with one more skipped occurrence noted."""
        noted = (Skipped(time=time, reason=reason, count=count), *self.skipped)[:MAX_SKIPPED]
        return self.model_copy(update={"skipped": noted})

    def paused(self, reason: PauseReason) -> Automation:
        """Return the automation paused, with why."""
        return self.model_copy(update={"enabled": False, "paused_reason": reason})

    def to_data(self) -> Mapping[str, Any]:
        """Return what a record of it holds."""
        return self.model_dump(by_alias=True, exclude_none=True)


def session_id(automation_id: str, scheduled_time: int) -> str:
    """Return the key of the one run that an occurrence may become."""
    return f"{RUN}{automation_id}/{scheduled_time}"
