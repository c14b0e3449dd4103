"""The state machine of sessions: the pure function `transition` evaluates the table of `phases`.

Conversations, templates and runs of automations share the table. `transition` does no I/O; the
caller passes the time as `now`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from datasources.types import Document
from graphrag.sessions.phases import (
    ANNOUNCED_REASON,
    EVENT_REASON,
    FACTS,
    RECOVERED,
    ROWS_OF,
    SAME,
    Count,
    EndReason,
    EventName,
    NoteKind,
    Phase,
    SessionKind,
    TransitionRow,
)

# Phases that send requests to models. A run whose budget is spent does not enter them.
_ASKING: Final = frozenset({Phase.EXECUTING_ENRICHMENTS, Phase.CALLING_AI})
# Phases in which a session continues after its process died in them.
_KEPT_WHEN_RECOVERED: Final = frozenset(
    {
        Phase.EXECUTING_ENRICHMENTS,
        Phase.PARSING_AI_RESPONSE,
        Phase.EXECUTING_DATA_QUERIES,
        Phase.EXECUTING_ACTIONS,
    }
)


class SessionState(Document):
    """The part of a session that the table reads and changes."""

    kind: SessionKind
    phase: Phase = Phase.IDLE
    end_reason: EndReason | None = None
    waiting: dict[str, Any] | None = None
    """`type` (`validation`, `communication`, `rounds`, `completion` or `network`) and the fields
    of that type; present exactly in the waiting phases.
    """
    roundtrips: int = 0
    """Number of model calls."""
    roundtrip_limit: int | None = None
    """Maximum number of model calls; None: no limit."""
    attempts: int = 0
    """Number of take-overs from processes that died, since the last stored step."""
    network_failures: int = 0
    """Number of failed model calls since the service last answered."""
    network_since: int | None = None
    """Time of the first of these failures, milliseconds since 1970."""


S = TypeVar("S", bound=SessionState)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """An event, with the facts that the guards use.

    `facts`: words of `FACTS`. `data`: added to `waiting` of the phase that is entered, as approval
    ids and reasons, the module and call id of a question, the rounds used and allowed, `code` and
    `retryAfterS` of a network error, `retryAt` of a rescheduled retry.
    """

    name: EventName
    facts: frozenset[str] = frozenset()
    reason: EndReason | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Limits of the state machine: milliseconds, and model calls."""

    confirm_ms: int = 5_000
    """Time between the announcement of an end and the end."""
    network_first_ms: int = 30_000
    network_longest_ms: int = 600_000
    network_total_ms: int = 86_400_000
    extra_calls: int = 10
    """Model calls added when a person lets the session continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition(Generic[S]):
    """The applied row of the table, the resulting state, and the kinds of the system messages to
    add to the conversation.
    """

    row: TransitionRow
    state: S
    notes: tuple[NoteKind, ...]


def transition(
    state: S, event: SessionEvent, limits: SessionLimits, now: int
) -> Transition[S] | None:
    """Returns the transition of an event, or None if the event is refused: it is late, repeated, or
    sent to a template.

    Args:
        now: milliseconds since 1970.

    Raises:
        ValueError: the event carries an unknown fact.
    """
    if not event.facts <= FACTS:
        raise ValueError(f"unknown facts: {sorted(event.facts - FACTS)}")
    if state.kind is SessionKind.SEED:
        return None
    holds = _guards(state, event)
    rows = ROWS_OF.get((state.phase, event.name), ())
    row = next((row for row in rows if all(map(holds, row.guard))), None)
    if row is None:
        return None
    notes: tuple[NoteKind, ...] = (row.note,) if row.note else ()
    if row.next == SAME:
        return Transition(row=row, state=state, notes=notes)
    phase = _next_phase(state, row)
    changes = _counters(state, row, phase, limits, now)
    if _is_limited(state, event, row, phase, changes):
        notes = (*notes, "LIMIT_REACHED")
        phase = Phase.WAITING_COMPLETION_CONFIRMATION
        waiting = _completion(EndReason.LIMIT_REACHED, limits, now)
        changes |= {"roundtrips": state.roundtrips, "attempts": 0}
        end_reason = None
    else:
        waiting, end_reason = _waiting_and_end(state, event, row, changes, limits, now)
    changes |= {"phase": phase, "waiting": waiting, "end_reason": end_reason}
    return Transition(row=row, state=state.model_copy(update=changes), notes=notes)


def delay_ms(failures: int, retry_after_s: float | None, limits: SessionLimits) -> int:
    """Returns the pause after consecutive failed calls. It doubles with each failure."""
    if retry_after_s is not None:
        return max(0, min(round(retry_after_s * 1000), limits.network_total_ms))
    # The maximum is reached after a few failures. The bounded exponent keeps the number small.
    return min(
        limits.network_first_ms * 2 ** min(max(failures - 1, 0), 20), limits.network_longest_ms
    )


def _guards(state: SessionState, event: SessionEvent) -> Callable[[str], bool]:
    """Returns the function that evaluates a word of a guard."""
    facts = event.facts
    derived = {
        "chat": state.kind is SessionKind.CHAT,
        "automation": state.kind is SessionKind.AUTOMATION,
        # Slots limit runs only; a conversation needs none.
        "slot_free": state.kind is SessionKind.CHAT or "slot_free" in facts,
        "resumable": state.end_reason is EndReason.SUSPENDED
        or (state.end_reason is None and "unheld" in facts),
        "rounds": state.waiting is not None and state.waiting["type"] == "rounds",
    }
    # The guard of an end compares the event's own reason, every other guard the stored one.
    is_end = event.name is EventName.SESSION_COMPLETED
    reason = event.reason if is_end else (_announced(state) or state.end_reason)

    def holds(word: str) -> bool:
        if word.startswith("reason not "):
            return reason is not None and reason != word.removeprefix("reason not ")
        if word.startswith("reason "):
            return reason is not None and reason == word.removeprefix("reason ")
        return derived.get(word, word in facts)

    return holds


def _next_phase(state: SessionState, row: TransitionRow) -> Phase:
    if row.next == RECOVERED:
        return state.phase if state.phase in _KEPT_WHEN_RECOVERED else Phase.CALLING_AI
    return Phase(row.next)


def _counters(
    state: SessionState, row: TransitionRow, phase: Phase, limits: SessionLimits, now: int
) -> dict[str, Any]:
    """Returns the counters that the row changes."""
    changes: dict[str, Any] = {}
    # A phase that is entered again (RECOVERED) repeats its call, which is already counted.
    enters_call = phase is Phase.CALLING_AI and phase is not state.phase
    if Count.CALL in row.counts and enters_call and state.kind is SessionKind.AUTOMATION:
        changes["roundtrips"] = state.roundtrips + 1
    if Count.MORE_CALLS in row.counts and state.roundtrip_limit is not None:
        changes["roundtrip_limit"] = state.roundtrip_limit + limits.extra_calls
    if Count.TAKEOVER in row.counts:
        changes["attempts"] = state.attempts + 1
    if Count.PROGRESS in row.counts:
        changes["attempts"] = 0
    if Count.NO_ANSWER in row.counts:
        changes["network_failures"] = state.network_failures + 1
        changes["network_since"] = now if state.network_since is None else state.network_since
    if Count.ANSWER in row.counts:
        changes |= {"network_failures": 0, "network_since": None}
    return changes


def _is_limited(
    state: SessionState,
    event: SessionEvent,
    row: TransitionRow,
    phase: Phase,
    changes: Mapping[str, Any],
) -> bool:
    """Returns whether a run must not call the model again: its calls or its budget are spent."""
    if state.kind is not SessionKind.AUTOMATION:
        return False
    allowed = changes.get("roundtrip_limit", state.roundtrip_limit)
    if "roundtrips" in changes and allowed is not None and state.roundtrips >= allowed:
        return True
    # A run that pauses makes no call; its budget is checked when it continues.
    return "budget_spent" in event.facts and phase in _ASKING and not row.ends


def _waiting_and_end(
    state: SessionState,
    event: SessionEvent,
    row: TransitionRow,
    changes: Mapping[str, Any],
    limits: SessionLimits,
    now: int,
) -> tuple[dict[str, Any] | None, EndReason | None]:
    """Returns `waiting` and `end_reason` of the state that the row leads to."""
    ends = row.reason(event.facts)
    match row.waits_for:
        case "":
            return None, _end_reason(state, event, ends)
        case "completion":
            return _completion(EndReason(ends), limits, now), None
        case "network":
            failures = changes["network_failures"]
            data = {name: value for name, value in event.data.items() if name != "retryAfterS"}
            retry_at = now + delay_ms(failures, event.data.get("retryAfterS"), limits)
            waiting = {"type": "network", **data, "retryAt": retry_at, "attempts": failures}
            return waiting, None
        case "kept":
            return {**(state.waiting or {}), **event.data}, None
        case kind:
            return {"type": kind, **event.data}, None


def _end_reason(state: SessionState, event: SessionEvent, ends: str) -> EndReason | None:
    if ends == EVENT_REASON:
        return event.reason
    if ends == ANNOUNCED_REASON:
        return EndReason(_announced(state) or EndReason.COMPLETED)
    return EndReason(ends) if ends else None


def _announced(state: SessionState) -> str | None:
    """Returns the end reason in `waiting`."""
    return (state.waiting or {}).get("reason")


def _completion(reason: EndReason, limits: SessionLimits, now: int) -> dict[str, Any]:
    """Returns the content of `waiting` for a session whose end is announced."""
    return {"type": "completion", "reason": reason.value, "at": now + limits.confirm_ms}
