"""The stored form of an automation: its schedule, its limits, its usage and its last runs."""

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
RUN = "auto/"  # Prefix of the keys of runs.
NAME_CHARS = 80
MAX_SKIPPED = 50
MAX_LATE = 20

PauseReason = Literal["person", "failures", "owner_unseen", "graph_gone"]
SkipReason = Literal[
    "missed", "running", "waiting", "unchanged", "budget", "all_paused", "workspace_budget"
]


class Budget(Document):
    """Limits of one run, and of the runs of one day. Units: tokens, US dollars, seconds; None: no
    limit.
    """

    model_config = ConfigDict(extra="forbid")

    model_calls: int = Field(default=20, ge=1, le=200)
    tokens: int = Field(default=200_000, ge=1)
    cost_usd: float | None = Field(default=None, gt=0)
    active_s: int = Field(default=600, ge=1, le=86_400)
    day_runs: int = Field(default=48, ge=1, le=1_000)
    day_cost_usd: float | None = Field(default=None, gt=0)


class RunUsage(Document):
    """Total usage of a run. Units: tokens, US dollars."""

    session_id: str = ""
    tokens: int = 0
    cost_usd: float = 0.0
    is_priced: bool = True


class Spent(Document):
    """The usage of one day by run. Recording a run again replaces its amounts."""

    day: str = ""
    runs: int = 0
    tokens: dict[str, int] = Field(default_factory=dict[str, int])
    cost_usd: dict[str, float] = Field(default_factory=dict[str, float])
    is_priced: bool = True
    """Whether all prices are known."""
    earlier: RunUsage = RunUsage()
    """Usage on previous days of a run that continues past midnight."""

    def of(self, session_id: str) -> RunUsage:
        """Returns the total usage of a run, on this day and before."""
        earlier = self.earlier if self.earlier.session_id == session_id else RunUsage()
        return RunUsage(
            session_id=session_id,
            tokens=earlier.tokens + self.tokens.get(session_id, 0),
            cost_usd=earlier.cost_usd + self.cost_usd.get(session_id, 0.0),
        )

    def counted(self, used: RunUsage) -> Spent:
        """Returns the day with a run's total usage recorded, less its usage on previous days."""
        key = used.session_id
        earlier = self.earlier if self.earlier.session_id == key else RunUsage()
        tokens = self.tokens | {key: used.tokens - earlier.tokens}
        costs = self.cost_usd | {key: used.cost_usd - earlier.cost_usd}
        is_priced = self.is_priced and used.is_priced
        return self.model_copy(update={"tokens": tokens, "cost_usd": costs, "is_priced": is_priced})

    def sums(self) -> dict[str, Any]:
        """Returns the totals of the day for display. The cost is None if a part of it
        is unknown.
        """
        costs = sum(self.cost_usd.values()) if self.is_priced else None
        return {
            "day": self.day,
            "runs": self.runs,
            "tokens": sum(self.tokens.values()),
            "costUsd": costs,
        }


class LastSeen(Document):
    """The state of the graph when the last run began."""

    revision: int = -1
    history_time: int = 0


class Skipped(Document):
    """One or several occurrences that started no run."""

    time: int
    reason: SkipReason
    count: int = 1


class AutomationFields(BaseModel):
    """The fields of an automation that are both stored and sent to clients.

    Units: times in milliseconds since 1970, `*_s` in seconds.
    """

    workspace: str
    graph_key: str
    name: str
    user_id: str
    role: Role
    """The owner's role at the last save. A run has this role or the one seen last, whichever is
    lower.
    """
    version: int = 1
    enabled: bool = True
    paused_reason: PauseReason | None = None
    cron: str | None = None
    dates: tuple[int, ...] = ()
    event: str | None = None
    """An event that starts it, in addition to its schedule and people."""
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
    provider: str | None = None
    """The provider of the model that its runs ask; None: the configured one."""
    model: str | None = None
    budget: Budget = Budget()
    proposal_ttl_s: int = 7 * 86_400
    language: Language = "en"
    failures: int = 0
    """Number of consecutive failed runs."""
    skipped: tuple[Skipped, ...] = ()
    late_times: tuple[int, ...] = ()
    """Occurrences that did not begin in time and were reported, the latest first."""
    last_session_id: str | None = None
    last_ended_id: str | None = None
    """The last run whose end was recorded."""
    created_time: int = 0
    last_updated_time: int = 0


class Automation(AutomationFields, Document):
    """An automation as it is stored. `record_version`: compared when it is written."""

    key: str
    seed_id: str
    spent: Spent = Spent()
    last_seen: LastSeen = LastSeen()
    schema_version: int = SCHEMA_VERSION
    record_version: str | None = Field(default=None, exclude=True)

    @property
    def schedule(self) -> Schedule:
        """The schedule. Raises: ScheduleError if the time zone no longer exists."""
        return schedule(cron=self.cron, dates=self.dates, timezone=self.timezone)

    @property
    def has_own_model(self) -> bool:
        return self.provider is not None or self.model is not None

    @property
    def calendar(self) -> Calendar:
        return Calendar(
            timezone=self.timezone, day_start_hour=self.day_start_hour, first_day=self.first_day
        )

    def day_of(self, now: int) -> str:
        """Returns the date of an instant in the automation's time zone."""
        return datetime.fromtimestamp(now / 1000, zone_of(self.timezone)).date().isoformat()

    def spent_on(self, now: int) -> Spent:
        """Returns the usage on the day of an instant."""
        day = self.day_of(now)
        last = self.last_session_id
        if self.spent.day == day:
            return self.spent
        return Spent(day=day, earlier=self.spent.of(last) if last else RunUsage())

    def used_up(self, now: int) -> Literal["runs", "cost"] | None:
        """Returns the daily limit that prevents another run, or None."""
        spent = self.spent_on(now)
        budget = self.budget
        if spent.runs >= budget.day_runs:
            return "runs"
        if budget.day_cost_usd is not None and sum(spent.cost_usd.values()) >= budget.day_cost_usd:
            return "cost"
        return None

    def cost_left(self, session_id: str, now: int) -> float | None:
        """Returns the maximum total cost of a run, including its previous days; None: no limit."""
        budget = self.budget
        spent = self.spent_on(now)
        limits = [] if budget.cost_usd is None else [budget.cost_usd]
        if budget.day_cost_usd is not None:
            others = sum(cost for key, cost in spent.cost_usd.items() if key != session_id)
            earlier = spent.earlier.cost_usd if spent.earlier.session_id == session_id else 0.0
            limits.append(max(0.0, budget.day_cost_usd - others) + earlier)
        return min(limits, default=None)

    def with_skipped(self, time: int, reason: SkipReason, count: int = 1) -> Automation:
        """Returns the automation with another skipped occurrence."""
        skipped = (Skipped(time=time, reason=reason, count=count), *self.skipped)[:MAX_SKIPPED]
        return self.model_copy(update={"skipped": skipped})

    def with_late(self, time: int) -> Automation:
        """Returns the automation with another late occurrence."""
        return self.model_copy(update={"late_times": (time, *self.late_times)[:MAX_LATE]})

    def paused(self, reason: PauseReason) -> Automation:
        """Returns the automation paused for this reason."""
        return self.model_copy(update={"enabled": False, "paused_reason": reason})

    def to_data(self) -> Mapping[str, Any]:
        """Returns the data of its record."""
        return self.model_dump(by_alias=True, exclude_none=True)


def session_id(automation_id: str, scheduled_time: int) -> str:
    """Returns the key of the run for an occurrence."""
    return f"{RUN}{automation_id}/{scheduled_time}"
