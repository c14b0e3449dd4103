"""The stored form of a session: the sub-document `session` of a template (SEED) or
of one run (AUTOMATION).

It is written with its thread in one compare-and-set. A conversation (CHAT) stores none: its phase
follows from the status of its turn.
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
TurnStatus = Literal["idle", "running", "waiting", "limit", "failed", "stopped"]
REPORT_CHARS: Final = 4_000

INDEXED_FIELDS: Final = ("automationId", "open", "tended", "phase", "queuedTime", "scheduledTime")
"""Fields of a session that its record repeats beside the thread's own, to be found by them."""

STATUS_OF: Final[Mapping[Phase, TurnStatus]] = {
    **dict.fromkeys(ACTIVE, "running"),
    Phase.IDLE: "idle",
    Phase.WAITING_VALIDATION: "waiting",
    Phase.WAITING_COMMUNICATION_RESPONSE: "waiting",
    Phase.WAITING_COMPLETION_CONFIRMATION: "running",
    Phase.WAITING_NETWORK_RETRY: "waiting",
    Phase.COMPLETED: "idle",
}
"""Status of the turn of a session in each phase."""


ANNOUNCED: Final = frozenset({Phase.WAITING_VALIDATION, Phase.COMPLETED})
"""Phases that are announced to metrics, webhooks and the automation when a run enters them."""


class SessionUsage(Document):
    """Sums of a session's model calls. Units: tokens, US dollars; `unpriced_tokens` are of calls
    whose price nobody knows, and which `cost_usd` leaves out.
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
    """What a run found, in its own words or the service's; `message_id` names the answer
    that said it.
    """

    outcome: Outcome
    text: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """What one run may still use. Units: tokens, US dollars, milliseconds; None: no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    active_ms: int = 600_000

    def is_spent_by(self, session: AgentSession) -> bool:
        """Whether the session has used as much: another call of the model would exceed it."""
        used = session.usage
        return (self.tokens is not None and used.tokens >= self.tokens) or (
            self.cost_usd is not None and used.cost_usd >= self.cost_usd
        )


class AgentSession(SessionState):
    """A template or a run. Units: times in milliseconds since 1970, `active_ms` in milliseconds."""

    model_config = ConfigDict(extra="forbid")

    automation_id: str
    automation_version: int = 1
    trigger: Trigger = "manual"
    scheduled_time: int = 0
    queued_time: int | None = None
    started_time: int | None = None
    ended_time: int | None = None
    usage: SessionUsage = SessionUsage()
    active_ms: int = 0
    last_event_time: int = 0
    last_person_time: int = 0
    parse_errors: int = 0
    """Answers of wrong form without a good one between."""
    require_validation: bool = True
    finish: SessionReport | None = None
    """What the model reported in a step that also proposed or read; it counts once that is done."""
    report: SessionReport | None = None
    proposed: int = Field(default=0, ge=0)
    """Proposals that this session made."""
    expiry_notified: bool | None = None
    """Whether an operator was notified that what it waits for expires within a day."""
    unannounced: bool | None = None
    """Whether its end, or that it waits for people, is still to be announced; stored
    with that transition.
    """

    @property
    def is_open(self) -> bool:
        """Whether the scheduler still has to do with it: not ended, or paused."""
        return self.kind is SessionKind.AUTOMATION and self.phase is not Phase.COMPLETED

    @property
    def is_tended(self) -> bool:
        """Whether each tick looks at it: open, and not waiting for people."""
        return self.is_open and self.phase is not Phase.WAITING_VALIDATION

    def after(
        self, event: SessionEvent, limits: SessionLimits, now: int
    ) -> Transition[Self] | None:
        """Return what an event makes of the session, None: it is refused. Units: `now`
        as the times.
        """
        made = transition(self, event, limits, now)
        if made is None:
            return None
        state = made.state
        # While it was paused, or its process dead, it did not work.
        worked = self.phase in ACTIVE and event.name is not EventName.SESSION_ACTIVATION_REQUESTED
        elapsed = max(0, now - self.last_event_time) if worked and self.last_event_time else 0
        changes: dict[str, Any] = {
            "active_ms": self.active_ms + elapsed,
            "last_event_time": now,
            "expiry_notified": self.expiry_notified
            if state.phase is Phase.WAITING_VALIDATION
            else None,
        }
        stamps = made.row.stamps
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
        return replace(made, state=state.model_copy(update=changes))

    def indexed(self) -> dict[str, Any]:
        """Return the fields by which sessions are found, as the record of the thread repeats them.

        One that is still to be announced is found with those that are tended.
        """
        is_tended = self.is_tended or self.unannounced is True
        phase = self.phase.value
        queued = self.queued_time
        scheduled = self.scheduled_time
        values = (self.automation_id, self.is_open, is_tended, phase, queued, scheduled)
        return {name: v for name, v in zip(INDEXED_FIELDS, values, strict=True) if v is not None}
