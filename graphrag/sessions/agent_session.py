"""The stored form of a session: the field `session` in the thread of a template (SEED) or a run
(AUTOMATION).

It is written together with its thread in one compare-and-set. A conversation (CHAT) stores no
session: its phase follows from the status of its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field

from datasources.types import Document
from graphrag.sessions.machine import (
    SessionEvent,
    SessionLimits,
    SessionState,
    Transition,
    transition,
)
from graphrag.sessions.phases import ACTIVE, EventName, Phase, SessionKind, Stamp

Trigger = Literal["manual", "scheduled", "event"]
Outcome = Literal["ok", "findings", "failed"]
RunLimit = Literal["calls", "tokens", "cost"]
TurnStatus = Literal["idle", "running", "waiting", "limit", "failed", "stopped"]
REPORT_CHARS: Final = 4_000

# Fields of a session that are copied into the record of the thread, so that queries can use them.
INDEXED_FIELDS: Final = ("automationId", "open", "tended", "phase", "queuedTime", "scheduledTime")

# The status of the turn in each phase of a session.
STATUS_OF: Final[Mapping[Phase, TurnStatus]] = {
    **dict.fromkeys(ACTIVE, "running"),
    Phase.IDLE: "idle",
    Phase.WAITING_VALIDATION: "waiting",
    Phase.WAITING_COMMUNICATION_RESPONSE: "waiting",
    Phase.WAITING_COMPLETION_CONFIRMATION: "running",
    Phase.WAITING_NETWORK_RETRY: "waiting",
    Phase.COMPLETED: "idle",
}

# Phases that are announced to metrics, webhooks and the automation when a run enters them.
ANNOUNCED: Final = frozenset({Phase.WAITING_VALIDATION, Phase.COMPLETED})


class SessionUsage(Document):
    """The usage of all model calls of a session. Units: tokens, US dollars.

    `unpriced_tokens`: tokens of models without a known price; `cost_usd` does not include them.
    """

    prompt: int = 0
    cached: int = 0
    cache_written: int = 0
    completion: int = 0
    reasoning: int = 0
    cost_usd: float = 0.0
    unpriced_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


class SessionReport(Document):
    """The result of a run, written by the model or the service. `message_id`: the answer that
    contains it.
    """

    outcome: Outcome
    text: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """The limits of one run. Units: tokens, US dollars, milliseconds; None: no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    active_ms: int = 600_000

    def reached_by(self, session: AgentSession) -> RunLimit | None:
        """Returns the limit that the session has reached, so it must not call the model again."""
        used = session.usage
        if self.tokens is not None and used.tokens >= self.tokens:
            return "tokens"
        if self.cost_usd is not None and used.cost_usd >= self.cost_usd:
            return "cost"
        return None


class AgentSession(SessionState):
    """A template or a run. Units: times in milliseconds since 1970, `active_ms` in milliseconds."""

    model_config = ConfigDict(extra="forbid")

    automation_id: str
    automation_version: int = 1
    trigger: Trigger = "manual"
    scheduled_time: int = 0
    reference_time: int | None = None
    """The time from which periods are counted, if not `scheduled_time`: of the run that is tried
    again.
    """
    queued_time: int | None = None
    started_time: int | None = None
    ended_time: int | None = None
    usage: SessionUsage = SessionUsage()
    active_ms: int = 0
    last_event_time: int = 0
    last_person_time: int = 0
    parse_errors: int = 0
    """Number of consecutive answers that could not be parsed."""
    require_validation: bool = True
    finish: SessionReport | None = None
    """The report of a step that also proposes or reads. It is used when the step is complete."""
    report: SessionReport | None = None
    proposed: int = Field(default=0, ge=0)
    """Number of proposals of this session."""
    expiry_notified: bool | None = None
    """Whether an operator was notified that an awaited proposal expires within a day."""
    unannounced: bool | None = None
    """Whether entering a phase of ANNOUNCED is not announced yet. Stored with the transition."""

    @property
    def reference(self) -> int:
        """The time from which its periods are counted, however late it is."""
        return self.scheduled_time if self.reference_time is None else self.reference_time

    @property
    def is_open(self) -> bool:
        """Whether it is a run that has not ended; it may be paused."""
        return self.kind is SessionKind.AUTOMATION and self.phase is not Phase.COMPLETED

    @property
    def is_tended(self) -> bool:
        """Whether the scheduler checks it at each tick: it is open and does not wait for people."""
        return self.is_open and self.phase is not Phase.WAITING_VALIDATION

    def after(
        self, event: SessionEvent, limits: SessionLimits, now: int
    ) -> Transition[Self] | None:
        """Returns the transition of an event with the times that it sets, or None if the event is
        refused.

        Units: `now` in milliseconds since 1970.
        """
        step = transition(self, event, limits, now)
        if step is None:
            return None
        state = step.state
        # The time in which it was paused, or its process was dead, is not active time.
        worked = self.phase in ACTIVE and event.name is not EventName.SESSION_ACTIVATION_REQUESTED
        elapsed = max(0, now - self.last_event_time) if worked and self.last_event_time else 0
        changes: dict[str, Any] = {
            "active_ms": self.active_ms + elapsed,
            "last_event_time": now,
            "expiry_notified": self.expiry_notified
            if state.phase is Phase.WAITING_VALIDATION
            else None,
        }
        stamps = step.row.stamps
        if Stamp.PERSON in stamps:
            changes["last_person_time"] = now
        if Stamp.QUEUED in stamps:
            changes["queued_time"] = self.queued_time or now
        if Stamp.STARTED in stamps:
            changes["started_time"] = self.started_time or now
        if state.phase is Phase.COMPLETED:
            changes["ended_time"] = now
        if state.phase is not self.phase:
            changes["unannounced"] = True if state.phase in ANNOUNCED else None
        return replace(step, state=state.model_copy(update=changes))

    def indexed(self) -> dict[str, Any]:
        """Returns the INDEXED_FIELDS for the record of the thread.

        `tended` is also true for a session that is not announced yet.
        """
        is_tended = self.is_tended or self.unannounced is True
        phase = self.phase.value
        queued = self.queued_time
        scheduled = self.scheduled_time
        values = (self.automation_id, self.is_open, is_tended, phase, queued, scheduled)
        return {name: v for name, v in zip(INDEXED_FIELDS, values, strict=True) if v is not None}
