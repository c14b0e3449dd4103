"""The phases and events of a session, and the table of transitions between them.

The table is `transitions.csv`, with one row for each transition. Its columns:

- `phase`, `except`: the phase, or the group of phases (ACTIVE, WAITING, OPEN) without `except`, in
  which the row applies.
- `event`, `guard`: the event, and conditions that must all hold. Rows of one phase and event are
  tried in order; the first whose guard holds is applied. If there is none, the event is late or
  repeated, and it is refused.
- `next`: the next phase. SAME: the session does not change. RECOVERED: the phase in which a session
  continues after its process died: the calls of an answer that was stored are run.
- `waits_for`: content of a waiting phase; `kept`: the session waits for the same as before.
- `ends`: the reason of an end or pause: an EndReason, `event` (the reason of the event) or
  `announced` (the reason in `waiting`). In `waiting_completion_confirmation` the reason is
  announced; in all other phases it is stored. `X; Y if FACT`: Y if the event carries FACT, else X.
  Empty: no reason.
- `counts`: changes of counters, words of `Count`.
- `stamps`: times that are set, words of `Stamp`.
- `note`: kind of the system message to add to the conversation.
- `also`: a remark for readers: further work of the caller, besides storing the session.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter


class SessionKind(StrEnum):
    """A conversation (CHAT), a template (SEED) or one run of an automation (AUTOMATION)."""

    CHAT = "chat"
    SEED = "seed"
    AUTOMATION = "automation"


class Phase(StrEnum):
    """The state of a session."""

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
    """The reason why a session ended, or SUSPENDED if it pauses."""

    COMPLETED = "COMPLETED"
    LIMIT_REACHED = "LIMIT_REACHED"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    SUSPENDED = "SUSPENDED"
    NETWORK_ERROR = "NETWORK_ERROR"


class EventName(StrEnum):
    """An event of a session."""

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


class Count(StrEnum):
    """A change of a counter of a session."""

    CALL = "call"
    """One more model call, if `calling_ai` is entered from another phase."""
    MORE_CALLS = "more_calls"
    """The limit of model calls is increased."""
    TAKEOVER = "takeover"
    """The session was taken over from a process that died."""
    PROGRESS = "progress"
    """A step of the session was stored. Resets the number of take-overs."""
    NO_ANSWER = "no_answer"
    """A model call failed because the service could not be reached."""
    ANSWER = "answer"
    """The service answered, or a person retries. Resets the number of failures."""


class Stamp(StrEnum):
    """A time of a session that a transition sets."""

    PERSON = "person"
    QUEUED = "queued"
    STARTED = "started"


WaitsFor = Literal["validation", "communication", "rounds", "completion", "network", "kept", ""]
NoteKind = Literal[
    "ACTIONS_EXECUTED", "FORMAT_ERROR", "LIMIT_REACHED", "NETWORK_ERROR", "SESSION_TIMEOUT"
]

WAITING: Final = frozenset(phase for phase in Phase if phase.startswith("waiting_"))
ACTIVE: Final = frozenset(Phase) - WAITING - {Phase.IDLE, Phase.COMPLETED}
RETRYING: Final = frozenset(phase for phase in Phase if phase.startswith("retrying_"))
OPEN: Final = ACTIVE | WAITING | {Phase.IDLE}
GROUPS: Final[Mapping[str, frozenset[Phase]]] = {"ACTIVE": ACTIVE, "WAITING": WAITING, "OPEN": OPEN}

SAME: Final = "SAME"
RECOVERED: Final = "RECOVERED"
EVENT_REASON: Final = "event"
ANNOUNCED_REASON: Final = "announced"

# Facts that an event can carry. Guards and `ends` of the table use them.
FACTS: Final = frozenset(
    {
        *("slot_free", "unheld", "broke_off", "overdue"),
        *("calls", "reads", "proposals", "finish", "question", "third_in_a_row"),
        *("needs_validation", "open_left", "approved", "granted"),
        *("rounds_out", "rounds_spent", "budget_spent", "usage_limit"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRow:
    """One row of the table; see the docstring of the module for its columns."""

    number: int
    phase: str
    excepted: str
    event: EventName
    guard: tuple[str, ...]
    next: str
    waits_for: WaitsFor
    ends: str
    counts: frozenset[Count]
    stamps: frozenset[Stamp]
    note: NoteKind | Literal[""]
    also: str

    @property
    def phases(self) -> frozenset[Phase]:
        """The phases in which the row applies."""
        phases = GROUPS[self.phase] if self.phase in GROUPS else frozenset({Phase(self.phase)})
        return phases - ({Phase(self.excepted)} if self.excepted else set())

    def reason(self, facts: frozenset[str]) -> str:
        """Returns the content of `ends` for an event with these facts."""
        usual, _, exception = self.ends.partition("; ")
        reason, _, fact = exception.partition(" if ")
        return reason if fact in facts else usual


def _read() -> tuple[TransitionRow, ...]:
    text = Path(__file__).with_name("transitions.csv").read_text("utf-8")
    rows = [
        {
            **line,
            "number": line["n"],
            "excepted": line["except"],
            "guard": [word for word in line["guard"].split(" & ") if word],
            "counts": line["counts"].split(),
            "stamps": line["stamps"].split(),
        }
        for line in csv.DictReader(text.splitlines())
    ]
    return TypeAdapter(tuple[TransitionRow, ...]).validate_python(rows)


def _by_phase_and_event(
    rows: Iterable[TransitionRow],
) -> dict[tuple[Phase, EventName], tuple[TransitionRow, ...]]:
    index: dict[tuple[Phase, EventName], tuple[TransitionRow, ...]] = {}
    for row in rows:
        for phase in row.phases:
            key = (phase, row.event)
            index[key] = (*index.get(key, ()), row)
    return index


ROWS: Final = _read()
ROWS_OF: Final = _by_phase_and_event(ROWS)
