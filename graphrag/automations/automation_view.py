"""An automation and a run as lists show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphrag.agent.thread_store import Thread
from graphrag.automations.automation import Automation


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationView:
    """An automation with what a list shows of it. Units: times in milliseconds since 1970."""

    automation: Automation
    words: str
    """Its schedule, in words of the reader's language."""
    next_times: Sequence[int]
    last: Thread | None
    """Its last run, as far as it was stored."""
    waiting: int
    """Proposals of its runs that wait for people."""
    reader_sees_runs: bool
    """Else the list says how the last run ended, and nothing of what it wrote."""

    def to_document(self, now: int) -> dict[str, Any]:
        """Return what clients and scripts see, without its message."""
        a = self.automation
        kept = a.model_dump(by_alias=True, exclude_none=True, exclude={"seed_id", "last_seen", "spent"})
        kept.pop("schemaVersion", None)
        kept["id"] = kept.pop("_key", a.key)
        last = None if self.last is None or self.last.session is None else run_summary(self.last)
        if last is not None and not self.reader_sees_runs:
            kept_of = {"report": "outcome", "waiting": "type"}
            last |= {name: {field: last[name][field]} for name, field in kept_of.items() if name in last}
        return {
            **kept,
            "schedule": self.words,
            "nextTimes": list(self.next_times),
            "waiting": self.waiting,
            "spentToday": a.spent_on(now).sums(),
            **({"last": last} if last else {}),
        }


def run_summary(thread: Thread) -> dict[str, Any]:
    """Return a run as a list shows it."""
    session = thread.session
    if session is None:
        return {}
    shown = {"kind", "automation_id", "automation_version", "trigger", "scheduled_time", "queued_time"}
    shown |= {"started_time", "ended_time", "phase", "end_reason", "waiting", "roundtrips", "usage", "report"}
    shown |= {"roundtrip_limit", "active_ms", "last_event_time", "last_person_time", "proposed"}
    found = session.model_dump(mode="json", by_alias=True, exclude_none=True, include=shown)
    more = {"model": thread.model, "provider": thread.provider}
    return {
        "sessionId": thread.key,
        "graphKey": thread.graph_key,
        "name": thread.title,
        "userId": thread.user_id,
        **found,
        **{name: value for name, value in more.items() if value},
    }
