"""An automation and a run as REST and the command line send them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from graphrag.agent.thread_store import Thread, session_of
from graphrag.answer_body import AnswerBody
from graphrag.automations.automation import Automation, AutomationFields


class RunSummary(AnswerBody):
    """A run of an automation. Units: times in milliseconds since 1970, cost in US dollars.

    How it ended (`endReason`), what it found (`report.outcome`) and what waits for people
    are three things.
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
    """Return a run as a list shows it."""
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
    """An automation. `schedule` says in words when it runs, `waiting` how many of its proposals
    wait, `decidable` how many of these the person who reads it may decide.
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
    """Return an automation with its last run, as far as that was stored; `more` are other fields.

    Who sees no runs learns how the last one ended, and nothing of what it wrote.
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
