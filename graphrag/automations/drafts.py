"""The input forms of automations, for REST and the command line, and their validation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from graphrag.automations.automation import NAME_CHARS, Automation, Budget
from graphrag.automations.errors import AutomationInvalid, AutomationTooLong
from graphrag.commands import SentBlock
from graphrag.config import Settings
from graphrag.i18n import Language
from graphrag.llm.base import clean
from graphrag.sessions.schedules import Missed, check_distance

MESSAGE_CHARS: Final = 100_000
MAX_DATA_BYTES: Final = 65_536
T = TypeVar("T")
_CHECKED_ELSEWHERE: Final = frozenset(
    {"graph_key", "name", "message", "blocks", "from_thread_id", "version"}
)


def _small(data: Any) -> Any:
    if len(json.dumps(data)) > MAX_DATA_BYTES:
        raise ValueError(f"the data of an event has at most {MAX_DATA_BYTES} bytes")
    return data


EventName = Annotated[str, Field(max_length=80, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
ModelName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
EventKey = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
EventData = Annotated[Any, AfterValidator(_small)]


class _Form(BaseModel):
    """Base of the input forms. Unknown fields and other types are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, alias_generator=to_camel, allow_inf_nan=False
    )

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the form. Raises: AutomationInvalid with the first invalid field."""
        return _read(TypeAdapter(cls), fields)


class EventRequest(_Form):
    """An event. `data`: passed to the runs as data. `key`: an event with the same key is accepted
    once.
    """

    data: EventData = None
    key: EventKey | None = None


class EventDraft(EventRequest):
    """An event with its name, as the command line accepts it."""

    name: EventName


class BudgetDraft(_Form):
    """Limits of one run, and of the runs of one day. Units: tokens, US dollars, seconds.

    Null: no limit for costs, otherwise unchanged. Omitted: unchanged, or the default for a new
    automation.
    """

    model_calls: int | None = Field(default=None, ge=1, le=200)
    tokens: int | None = Field(default=None, ge=1, le=1_000_000_000)
    cost_usd: float | None = Field(default=None, gt=0, le=1_000_000)
    active_s: int | None = Field(default=None, ge=1, le=86_400)
    day_runs: int | None = Field(default=None, ge=1, le=1_000)
    day_cost_usd: float | None = Field(default=None, gt=0, le=1_000_000)

    def changed(self, budget: Budget) -> Budget:
        """Returns the budget with the given limits."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        limits = {
            n: v for n, v in given.items() if v is not None or n in ("cost_usd", "day_cost_usd")
        }
        return budget.model_copy(update=limits)


class _DraftFields(_Form):
    """Fields that can be set when an automation is created, and changed later. Units: seconds,
    milliseconds since 1970.
    """

    cron: str | None = Field(default=None, max_length=1_000)
    dates: list[int] | None = Field(default=None, max_length=1_000)
    event: EventName | None = None
    timezone: str | None = Field(default=None, min_length=1, max_length=200)
    day_start_hour: int | None = Field(default=None, ge=0, le=23)
    first_day: Literal["monday", "sunday", "saturday"] | None = None
    mode: Literal["report", "propose"] | None = None
    require_validation: bool | None = None
    only_if_changed: bool | None = None
    overlap: Literal["supersede", "skip"] | None = None
    missed: Missed | None = None
    catch_up_s: int | None = Field(default=None, ge=0, le=366 * 86_400)
    proposal_ttl_s: int | None = Field(default=None, ge=60, le=366 * 86_400)
    language: Language | None = None
    provider: ModelName | None = None
    model: ModelName | None = None
    budget: BudgetDraft | None = None

    def apply(self, automation: Automation) -> Automation:
        """Returns the automation with the given fields; null means the default."""
        given = {
            n: getattr(self, n) for n in self.model_fields_set - _CHECKED_ELSEWHERE - {"budget"}
        }
        defaults = {name: Automation.model_fields[name].default for name in given}
        changes = {
            name: defaults[name] if value is None else value for name, value in given.items()
        }
        if "dates" in changes:
            changes["dates"] = tuple(sorted(set(changes["dates"])))
        if self.cron is not None and "dates" not in given:  # one replaces the other
            changes["dates"] = ()
        elif self.dates and "cron" not in given:
            changes["cron"] = None
        if self.budget is not None:
            changes["budget"] = self.budget.changed(automation.budget)
        return automation.model_copy(update=changes)


class AutomationDraft(_DraftFields):
    """A new automation. `from_thread_id`: its messages begin with the person's messages of this
    thread.
    """

    graph_key: str = Field(min_length=1, max_length=200)
    name: str
    message: str = ""
    blocks: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    from_thread_id: str | None = Field(default=None, min_length=1, max_length=200)


class AutomationChanges(_DraftFields):
    """Changed fields of an automation. `version`: the version that the person read."""

    version: int = Field(ge=1)
    name: str | None = None
    message: str | None = None
    blocks: list[dict[str, Any]] | None = None


def sent_blocks(raw: Sequence[Any]) -> list[SentBlock]:
    """Returns blocks in the form that clients send. Raises: AutomationInvalid with the first
    invalid one.
    """
    return _read(TypeAdapter(list[SentBlock]), list(raw), "blocks")


def _read(form: TypeAdapter[T], given: Any, *where: str) -> T:
    try:
        return form.validate_python(given)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        field = ".".join((*where, *(str(part) for part in first["loc"])))
        raise AutomationInvalid("automation_value", field=field, reason=first["msg"]) from None


def checked_name(name: str) -> str:
    """Returns the name as it is stored. Raises: AutomationInvalid."""
    normalized = " ".join(clean(name).split())
    if not 1 <= len(normalized) <= NAME_CHARS:
        raise AutomationInvalid("automation_name_length", most=NAME_CHARS)
    return normalized


def check_message(message: str) -> None:
    """Checks the length of a message. Raises: AutomationInvalid if it is empty,
    AutomationTooLong.
    """
    if not message.strip():
        raise AutomationInvalid("automation_message_empty")
    if len(message) > MESSAGE_CHARS:
        raise AutomationTooLong("automation_message_long", chars=len(message), most=MESSAGE_CHARS)


def scheduled(automation: Automation, settings: Settings, now: int) -> Automation:
    """Returns the validated automation with the time of its next run after `now`.

    Raises: ScheduleError.
    """
    timetable = automation.schedule
    check_distance(timetable, now, settings.automation_min_interval_s)
    update = {
        "cron": timetable.cron,
        "next_time": timetable.next(now) if automation.enabled else None,
    }
    return automation.model_copy(update=update)
