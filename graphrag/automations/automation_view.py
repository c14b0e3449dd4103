"""The forms of automations and runs that REST and the command line send."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from graphrag.agent.thread_store import Thread, session_of
from graphrag.answer_body import AnswerBody
from graphrag.automations.automation import Automation, AutomationFields


class RunSummary(AnswerBody):
    """A run of an automation. Units: times in milliseconds since 1970, cost in US dollars.

    `endReason` is how it ended, `report.outcome` its result, `waiting` what it waits for.
    """

    session_id: str
    kind: Literal["seed", "automation"]
    automation_id: str
    automation_version: int = 1
    graph_key: str
    name: str = ""
    user_id: str
    trigger: str = "manual"
    phase: str
    end_reason: str | None = None
    waiting: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    scheduled_time: int = 0
    reference_time: int | None = None
    queued_time: int | None = None
    started_time: int | None = None
    ended_time: int | None = None
    last_event_time: int = 0
    last_person_time: int = 0
    active_ms: int = 0
    roundtrips: int = 0
    roundtrip_limit: int | None = None
    proposed: int = 0
    usage: dict[str, Any] = Field(default_factory=dict[str, Any])
    provider: str | None = None
    model: str | None = None


def run_summary(thread: Thread) -> RunSummary:
    """Returns the summary of a run for lists."""
    return RunSummary.model_validate(
        {
            **session_of(thread).model_dump(mode="json", by_alias=True, exclude_none=True),
            "sessionId": thread.key,
            "graphKey": thread.graph_key,
            "name": thread.title,
            "userId": thread.user_id,
            "model": thread.model or None,
            "provider": thread.provider or None,
        }
    )


class AutomationAnswer(AutomationFields, AnswerBody):
    """An automation as sent to clients.

    `schedule`: its schedule in words. `waiting`: the number of its pending proposals. `decidable`:
    the number of those that the reader may decide.
    """

    id: str
    schedule: str
    next_times: list[int]
    last: RunSummary | None = None
    waiting: int = 0
    decidable: int = 0
    spent_today: dict[str, Any]


def automation_answer(
    automation: Automation, last: Thread | None, now: int, *, sees_runs: bool, **more: Any
) -> AutomationAnswer:
    """Returns an automation with its last run, if that is stored. `more`: further fields.

    Without `sees_runs` the last run has only its outcome, not what it wrote.
    """
    run = None if last is None or last.session is None else run_summary(last)
    if run is not None and not sees_runs:
        shown = {"report": "outcome", "waiting": "type"}
        parts = {
            name: {field: part[field]}
            for name, field in shown.items()
            if (part := getattr(run, name))
        }
        run = run.model_copy(update=parts)
    fields = automation.model_dump(include=set(AutomationFields.model_fields))
    spent = automation.spent_on(now).sums()
    return AutomationAnswer(**fields, id=automation.key, last=run, spent_today=spent, **more)
