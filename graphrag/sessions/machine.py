"""The phases of a session and what leads from one to the next: one table, one pure function.

A conversation (CHAT), a template (SEED) and one run of an automation (AUTOMATION) are the same kind
of document; `transition` says for each event which row of `ROWS` is taken, or that the event is
refused because it is late or doubled. It does no I/O and reads no clock: `now` is given.

The table is `transitions.csv`. A row is taken when the session is in `phase` (or in one of its
group: ACTIVE, WAITING, OPEN), the event comes and every word of the guard holds; rows of one phase
and event are tried in order. `next` is a phase, SAME, or RECOVERED (where a session goes on whose
process died). `also` is for the caller to do: take or free the graph's slot, note something in the
conversation, answer a call.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from datasources.types import Document


class SessionKind(StrEnum):
    """What a session is."""

    CHAT = "chat"
    SEED = "seed"
    AUTOMATION = "automation"


class Phase(StrEnum):
    """Where a session stands."""

    IDLE = "idle"
    EXECUTING_ENRICHMENTS = "executing_enrichments"
    CALLING_AI = "calling_ai"
    PARSING_AI_RESPONSE = "parsing_ai_response"
    WAITING_VALIDATION = "waiting_validation"
    WAITING_COMMUNICATION_RESPONSE = "waiting_communication_response"
    EXECUTING_DATA_QUERIES = "executing_data_queries"
    EXECUTING_ACTIONS = "executing_actions"
    WAITING_COMPLETION_CONFIRMATION = "waiting_completion_confirmation"
    WAITING_NETWORK_RETRY = "waiting_network_retry"
    RETRYING_AFTER_FORMAT_ERROR = "retrying_after_format_error"
    RETRYING_AFTER_ACTION_FAILURE = "retrying_after_action_failure"
    COMPLETED = "completed"


class EndReason(StrEnum):
    """Why a session ended, or why it pauses (SUSPENDED)."""

    COMPLETED = "COMPLETED"
    LIMIT_REACHED = "LIMIT_REACHED"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    SUSPENDED = "SUSPENDED"
    NETWORK_ERROR = "NETWORK_ERROR"


class EventName(StrEnum):
    """What can happen to a session."""

    SESSION_ACTIVATION_REQUESTED = "session_activation_requested"
    USER_MESSAGE_SENT = "user_message_sent"
    ENRICHMENTS_EXECUTED = "enrichments_executed"
    AI_RESPONSE_RECEIVED = "ai_response_received"
    AI_RESPONSE_PARSED = "ai_response_parsed"
    VALIDATION_RECEIVED = "validation_received"
    COMMUNICATION_RESPONSE_RECEIVED = "communication_response_received"
    DATA_QUERIES_EXECUTED = "data_queries_executed"
    ACTIONS_EXECUTED = "actions_executed"
    COMPLETION_CONFIRMED = "completion_confirmed"
    COMPLETION_REJECTED = "completion_rejected"
    NETWORK_ERROR_OCCURRED = "network_error_occurred"
    PARSE_ERROR_OCCURRED = "parse_error_occurred"
    ACTION_FAILURE_OCCURRED = "action_failure_occurred"
    NETWORK_RETRY_SCHEDULED = "network_retry_scheduled"
    RETRY_SCHEDULED = "retry_scheduled"
    NETWORK_AVAILABLE = "network_available"
    SYSTEM_ERROR_OCCURRED = "system_error_occurred"
    SESSION_COMPLETED = "session_completed"
    SCHEDULER_HEARTBEAT = "scheduler_heartbeat"


_USUAL: Final = {
    Phase.WAITING_VALIDATION: "validation",
    Phase.WAITING_COMMUNICATION_RESPONSE: "communication",
    Phase.WAITING_COMPLETION_CONFIRMATION: "completion",
    Phase.WAITING_NETWORK_RETRY: "network",
}
"""What a waiting phase waits for, where its row does not say it."""
WAITING: Final = frozenset(_USUAL)
ACTIVE: Final = frozenset(Phase) - WAITING - {Phase.IDLE, Phase.COMPLETED}
OPEN: Final = ACTIVE | WAITING | {Phase.IDLE}
GROUPS: Final[Mapping[str, frozenset[Phase]]] = {"ACTIVE": ACTIVE, "WAITING": WAITING, "OPEN": OPEN}

FACTS: Final = frozenset(
    {
        *("slot_free", "unheld", "broke_off", "overdue"),
        *("calls", "reads", "proposals", "finish", "question", "third_in_a_row"),
        *("needs_validation", "open_left", "approved", "granted"),
        *("rounds_out", "rounds_spent", "budget_spent", "usage_limit"),
    }
)
"""What an event can say of the session and its surroundings; the words of the table's guards."""

_RESUMED: Final = frozenset({6, 7, 44})
"""Rows that repeat a call that gave no answer: it is not counted again."""
_ASKING: Final = frozenset({Phase.EXECUTING_ENRICHMENTS, Phase.CALLING_AI})
"""Phases that send requests to models: a run whose budget is spent enters neither."""
_STEPS: Final = frozenset(
    {
        EventName.ENRICHMENTS_EXECUTED,
        EventName.AI_RESPONSE_RECEIVED,
        EventName.AI_RESPONSE_PARSED,
        EventName.DATA_QUERIES_EXECUTED,
        EventName.ACTIONS_EXECUTED,
        EventName.ACTION_FAILURE_OCCURRED,
        EventName.RETRY_SCHEDULED,
    }
)
"""Stored steps of a session's own work: a crash loop ends with one."""
_KEPT_WHEN_RECOVERED: Final = frozenset({Phase.EXECUTING_ENRICHMENTS, Phase.EXECUTING_ACTIONS})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row of the table."""

    number: int
    phase: str
    event: str
    guard: tuple[str, ...]
    next: str
    actions: tuple[str, ...]

    @property
    def waiting(self) -> str | None:
        """What the phase that is entered waits for, as `validation` or `completion TIMEOUT`."""
        made = next((a for a in self.actions if a.startswith("waiting=")), None)
        return None if made is None else made.removeprefix("waiting=").partition(" (")[0]


def _split(text: str, separator: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def _read() -> tuple[TableRow, ...]:
    text = Path(__file__).with_name("transitions.csv").read_text("utf-8")
    return tuple(
        TableRow(
            number=int(line["n"]),
            phase=line["phase"],
            event=line["event"],
            guard=_split(line["guard"], "&"),
            next=line["next"],
            actions=_split(line["also"], ";"),
        )
        for line in csv.DictReader(text.splitlines())
    )


ROWS: Final = _read()


class SessionState(Document):
    """What of a session the table decides about."""

    kind: SessionKind
    phase: Phase = Phase.IDLE
    end_reason: EndReason | None = None
    waiting: dict[str, Any] | None = None
    """`type` (`validation`, `communication`, `rounds`, `completion` or `network`) and what belongs
    to it; present exactly in the waiting phases.
    """
    roundtrips: int = 0
    """Calls of the model so far."""
    roundtrip_limit: int | None = None
    """Most calls of the model; None: no limit."""
    attempts: int = 0
    """Times the session was taken over from a process that died, without a stored step between."""
    network_failures: int = 0
    """Failed calls since the service last answered."""
    network_since: int | None = None
    """When the first of them failed, milliseconds since 1970."""


S = TypeVar("S", bound=SessionState)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """What happened, with what the guards ask about it.

    `facts` are words of `FACTS`. `data` goes into the waiting context of the phase that is entered:
    approval ids and reasons, the module and call id of a question, rounds used and allowed, `code`
    and `retryAfterS` of a network error, `retryAt` of a moved retry.
    """

    name: EventName
    facts: frozenset[str] = frozenset()
    reason: EndReason | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Figures of the table: milliseconds, and model calls."""

    confirm_ms: int = 5_000
    """How long a session shows that it is about to end before it does."""
    network_first_ms: int = 30_000
    network_longest_ms: int = 600_000
    network_total_ms: int = 86_400_000
    extra_calls: int = 10
    """Model calls added when a person wants the session to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition(Generic[S]):
    """The row that was taken, the state it leads to, and what the caller has to do
    besides storing it.
    """

    row: TableRow
    state: S
    actions: tuple[str, ...]
    limit_reached: bool = False
    """The model was not called again: the session's calls or budget are spent."""


def transition(
    state: S, event: SessionEvent, limits: SessionLimits, now: int
) -> Transition[S] | None:
    """Return where an event leads; None when it is refused: late, doubled, or sent to a template.

    Args:
        now: milliseconds since 1970.

    Raises:
        ValueError: the event carries a fact that no guard knows.
    """
    if not event.facts <= FACTS:
        raise ValueError(f"unknown facts: {sorted(event.facts - FACTS)}")
    if state.kind is SessionKind.SEED:
        return None
    holds = _guards(state, event)
    rows = ROWS_OF.get((state.phase, event.name), ())
    row = next((row for row in rows if all(map(holds, row.guard))), None)
    return None if row is None else _enter(state, event, row, limits, now)


def delay_ms(failures: int, retry_after_s: float | None, limits: SessionLimits) -> int:
    """Return how long to wait after the given number of failed calls in a row:
    doubled each time.
    """
    if retry_after_s is not None:
        return max(0, min(round(retry_after_s * 1000), limits.network_total_ms))
    # Above a few doublings the longest wait holds anyway; the exponent stays small.
    return min(
        limits.network_first_ms * 2 ** min(max(failures - 1, 0), 20), limits.network_longest_ms
    )


def _guards(state: SessionState, event: SessionEvent) -> Callable[[str], bool]:
    """Return whether a word of a guard holds."""
    facts = event.facts
    derived = {
        "chat": state.kind is SessionKind.CHAT,
        "automation": state.kind is SessionKind.AUTOMATION,
        # Nobody competes for a conversation: it needs no slot.
        "slot_free": state.kind is SessionKind.CHAT or "slot_free" in facts,
        "resumable": state.end_reason is EndReason.SUSPENDED
        or (state.end_reason is None and "unheld" in facts),
        "rounds": state.waiting is not None and state.waiting["type"] == "rounds",
    }
    # An end that is announced is asked about with its own reason, any other event with
    # the stored one.
    completing = event.name is EventName.SESSION_COMPLETED
    waiting_reason = state.waiting.get("reason") if state.waiting else None
    reason = event.reason if completing else (waiting_reason or state.end_reason)

    def holds(word: str) -> bool:
        if word.startswith("reason not "):
            return reason is not None and reason != word.removeprefix("reason not ")
        if word.startswith("reason "):
            return reason is not None and reason == word.removeprefix("reason ")
        return derived.get(word, word in facts)

    return holds


def _enter(
    state: S, event: SessionEvent, row: TableRow, limits: SessionLimits, now: int
) -> Transition[S]:
    after = _target(state, row)
    resumed = row.number in _RESUMED or (row.number in (5, 49) and state.phase is Phase.CALLING_AI)
    allowed = state.roundtrip_limit
    if row.number == 46 and allowed is not None:
        allowed += limits.extra_calls
    is_run = state.kind is SessionKind.AUTOMATION
    counted = is_run and after is Phase.CALLING_AI and not resumed
    spent = counted and allowed is not None and state.roundtrips >= allowed
    # A run that pauses (row 49) asks nothing now; it is looked at again when it goes on.
    asks = is_run and after in _ASKING and row.number != 49
    if spent or (asks and "budget_spent" in event.facts):
        limited = state.model_copy(
            update={
                "phase": Phase.WAITING_COMPLETION_CONFIRMATION,
                "waiting": _completion(EndReason.LIMIT_REACHED, limits, now),
                "end_reason": None,
                "roundtrip_limit": allowed,
                "attempts": 0,
            }
        )
        actions = (*row.actions, "LIMIT_REACHED noted")
        return Transition(row=row, state=limited, actions=actions, limit_reached=True)
    changes: dict[str, Any] = {
        "phase": after,
        "waiting": _waiting(state, event, row, after, limits, now),
        "end_reason": _end_reason(state, event, row),
        "roundtrips": state.roundtrips + counted,
        "roundtrip_limit": allowed,
        "attempts": state.attempts + 1
        if row.number == 5
        else 0
        if event.name in _STEPS
        else state.attempts,
        **_network(state, row, now),
    }
    return Transition(row=row, state=state.model_copy(update=changes), actions=row.actions)


def _completion(reason: str, limits: SessionLimits, now: int) -> dict[str, Any]:
    """Return what a session waits for whose end is announced."""
    return {"type": "completion", "reason": str(reason), "at": now + limits.confirm_ms}


def _target(state: SessionState, row: TableRow) -> Phase:
    if row.next == "SAME":
        return state.phase
    if row.next == "RECOVERED":
        return state.phase if state.phase in _KEPT_WHEN_RECOVERED else Phase.CALLING_AI
    return Phase(row.next)


def _end_reason(state: SessionState, event: SessionEvent, row: TableRow) -> EndReason | None:
    if row.number in (49, 50):
        return event.reason
    if row.number == 45:
        return EndReason(str(state.waiting["reason"])) if state.waiting else EndReason.COMPLETED
    if row.next == "SAME" or row.number == 43:
        return state.end_reason
    return None


def _waiting(
    state: SessionState,
    event: SessionEvent,
    row: TableRow,
    after: Phase,
    limits: SessionLimits,
    now: int,
) -> dict[str, Any] | None:
    if after not in WAITING:
        return None
    if row.next == "SAME":
        return state.waiting
    made = row.waiting
    if made is None:  # still waiting for the same: what is new of it comes with the event
        before = (
            state.waiting if state.waiting and state.phase is after else {"type": _USUAL[after]}
        )
        return {**before, **event.data}
    what, _, reason = made.partition(" ")
    if what == "completion":
        if "usage_limit" in event.facts:
            reason = EndReason.LIMIT_REACHED
        return _completion(reason, limits, now)
    if what == "network":
        failures = state.network_failures + 1
        data = {k: v for k, v in event.data.items() if k != "retryAfterS"}
        wait = delay_ms(failures, event.data.get("retryAfterS"), limits)
        return {"type": what, **data, "retryAt": now + wait, "attempts": failures}
    return {"type": what, **event.data}


def _network(state: SessionState, row: TableRow, now: int) -> dict[str, Any]:
    if row.number == 41:
        since = now if state.network_since is None else state.network_since
        return {"network_failures": state.network_failures + 1, "network_since": since}
    # A person who starts it again after a day gives it a new day; an answer ends the count.
    if row.number in (6, 7, 12):
        return {"network_failures": 0, "network_since": None}
    return {}


def _rows_of(rows: Iterable[TableRow]) -> dict[tuple[Phase, EventName], tuple[TableRow, ...]]:
    found: dict[tuple[Phase, EventName], tuple[TableRow, ...]] = {}
    for row in rows:
        phases = GROUPS[row.phase] if row.phase in GROUPS else frozenset({Phase(row.phase)})
        # What an action under way began is finished first: its session neither ends
        # nor pauses meanwhile.
        skipped = {Phase.EXECUTING_ACTIONS} if row.number in (49, 50) else set[Phase]()
        for phase in phases - skipped:
            key = (phase, EventName(row.event))
            found[key] = (*found.get(key, ()), row)
    return found


ROWS_OF: Final = _rows_of(ROWS)
