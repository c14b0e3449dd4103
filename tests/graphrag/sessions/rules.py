"""The rules of sessions, one function an event: what a session becomes, by its kind and phase.

Written from the specification's rules, by event and in words, not by row: the program's table is
compared with what these functions return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from graphrag.sessions.machine import SessionEvent, SessionState
from graphrag.sessions.phases import EndReason, EventName, Phase, SessionKind

WORKING: Final = frozenset(
    {
        Phase.EXECUTING_ENRICHMENTS,
        Phase.CALLING_AI,
        Phase.PARSING_AI_RESPONSE,
        Phase.EXECUTING_DATA_QUERIES,
        Phase.EXECUTING_ACTIONS,
        Phase.RETRYING_AFTER_FORMAT_ERROR,
        Phase.RETRYING_AFTER_ACTION_FAILURE,
    }
)
FACTS_OF: Final[Mapping[EventName, tuple[str, ...]]] = {
    EventName.SESSION_ACTIVATION_REQUESTED: ("slot_free", "unheld", "broke_off"),
    EventName.AI_RESPONSE_PARSED: (
        *("calls", "reads", "proposals", "needs_validation"),
        *("finish", "question", "rounds_out", "rounds_spent"),
    ),
    EventName.PARSE_ERROR_OCCURRED: ("third_in_a_row",),
    EventName.VALIDATION_RECEIVED: ("open_left", "approved", "slot_free"),
    EventName.COMMUNICATION_RESPONSE_RECEIVED: ("granted",),
    EventName.DATA_QUERIES_EXECUTED: ("proposals", "needs_validation", "finish"),
    EventName.ACTIONS_EXECUTED: ("open_left", "finish"),
    EventName.ACTION_FAILURE_OCCURRED: ("open_left",),
    EventName.NETWORK_AVAILABLE: ("slot_free",),
    EventName.SYSTEM_ERROR_OCCURRED: ("usage_limit",),
    EventName.SCHEDULER_HEARTBEAT: ("overdue",),
}
"""Facts that an event carries, beside `budget_spent`, which every event of a run may carry."""
FOR_PEOPLE: Final = frozenset({Phase.WAITING_VALIDATION, Phase.WAITING_COMMUNICATION_RESPONSE})
"""Phases that wait for a person, for as long as that takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The state after an event, before the limits of a run are applied.

    `reason`: of an end that is announced, or stored. `repeats`: a call without an answer is made
    again and not counted. `fresh`: the failures of the network are counted from 0 again.
    """

    phase: Phase
    waits_for: str | None = None
    reason: EndReason | None = None
    note: str | None = None
    repeats: bool = False
    fresh: bool = False
    by_person: bool = False
    progress: bool = False
    takeover: bool = False
    raises_limit: bool = False
    changes_nothing: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A session and an event, in the words of the rules."""

    state: SessionState
    event: SessionEvent

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def is_chat(self) -> bool:
        return self.state.kind is SessionKind.CHAT

    @property
    def has_slot(self) -> bool:
        """A conversation needs no slot."""
        return self.is_chat or "slot_free" in self.event.facts

    @property
    def waits_for(self) -> str | None:
        return (self.state.waiting or {}).get("type")

    def has(self, fact: str) -> bool:
        return fact in self.event.facts


def expected(state: SessionState, event: SessionEvent) -> Expected | None:
    """Returns what the rules say; None: the event is refused. A template refuses every event."""
    if state.kind is SessionKind.SEED:
        return None
    return RULES[event.name](Case(state, event))


def announced(reason: EndReason, *, note: str | None = None, progress: bool = False) -> Expected:
    """A run says that it is about to end, and why."""
    return Expected(
        phase=Phase.WAITING_COMPLETION_CONFIRMATION,
        waits_for="completion",
        reason=reason,
        note=note,
        progress=progress,
    )


def recovered(phase: Phase) -> Phase:
    """Blocks and calls are executed, and actions finished; else the model is asked again."""
    keeps = (
        Phase.EXECUTING_ENRICHMENTS,
        Phase.PARSING_AI_RESPONSE,
        Phase.EXECUTING_DATA_QUERIES,
        Phase.EXECUTING_ACTIONS,
    )
    return phase if phase in keeps else Phase.CALLING_AI


def activation(case: Case) -> Expected | None:
    if case.is_chat:
        if case.phase is not Phase.IDLE:
            return None
        again = Phase.CALLING_AI if case.has("broke_off") else Phase.IDLE
        return Expected(phase=again, by_person=True)
    if case.phase is Phase.IDLE and not case.has_slot:
        return Expected(phase=Phase.IDLE)
    if not case.has_slot:
        return None
    end = case.state.end_reason
    if case.phase is Phase.IDLE:
        return Expected(phase=Phase.EXECUTING_ENRICHMENTS)
    if case.phase in WORKING and (
        end is EndReason.SUSPENDED or (end is None and case.has("unheld"))
    ):
        return Expected(phase=recovered(case.phase), takeover=True)
    after_network = case.phase is Phase.COMPLETED and end is EndReason.NETWORK_ERROR
    if after_network or case.phase is Phase.WAITING_NETWORK_RETRY:
        return Expected(phase=Phase.CALLING_AI, repeats=True, fresh=True)
    return None


def user_message(case: Case) -> Expected | None:
    if not case.is_chat or case.phase not in {Phase.IDLE, *FOR_PEOPLE}:
        return None
    return Expected(phase=Phase.EXECUTING_ENRICHMENTS, by_person=True)


def enrichments(case: Case) -> Expected | None:
    if case.phase is not Phase.EXECUTING_ENRICHMENTS:
        return None
    return Expected(phase=Phase.CALLING_AI, progress=True)


def response_received(case: Case) -> Expected | None:
    if case.phase is not Phase.CALLING_AI:
        return None
    return Expected(phase=Phase.PARSING_AI_RESPONSE, progress=True, fresh=True)


def response_parsed(case: Case) -> Expected | None:
    if case.phase is not Phase.PARSING_AI_RESPONSE:
        return None
    if case.is_chat and case.has("calls") and case.has("rounds_spent"):
        return Expected(phase=Phase.CALLING_AI, progress=True)
    if case.is_chat and case.has("calls") and case.has("rounds_out"):
        return Expected(
            phase=Phase.WAITING_COMMUNICATION_RESPONSE, waits_for="rounds", progress=True
        )
    if case.has("reads"):
        return Expected(phase=Phase.EXECUTING_DATA_QUERIES, progress=True)
    if (proposed := proposals(case)) is not None:
        return proposed
    if not case.is_chat:
        return announced(EndReason.COMPLETED, progress=True) if case.has("finish") else None
    if case.has("question"):
        return Expected(
            phase=Phase.WAITING_COMMUNICATION_RESPONSE, waits_for="communication", progress=True
        )
    return Expected(phase=Phase.IDLE, progress=True)


def proposals(case: Case) -> Expected | None:
    """Proposals wait for a person where any level demands one, else they are applied."""
    if not case.has("proposals"):
        return None
    if case.has("needs_validation"):
        return Expected(phase=Phase.WAITING_VALIDATION, waits_for="validation", progress=True)
    return Expected(phase=Phase.EXECUTING_ACTIONS, progress=True)


def queries_executed(case: Case) -> Expected | None:
    if case.phase is not Phase.EXECUTING_DATA_QUERIES:
        return None
    return proposals(case) or finished_or_asked(case)


def finished_or_asked(case: Case, note: str | None = None) -> Expected:
    if not case.is_chat and case.has("finish"):
        return announced(EndReason.COMPLETED, progress=True)
    return Expected(phase=Phase.CALLING_AI, progress=True, note=note)


def actions_executed(case: Case) -> Expected | None:
    if case.phase is not Phase.EXECUTING_ACTIONS:
        return None
    if case.has("open_left"):
        return Expected(phase=Phase.WAITING_VALIDATION, waits_for="validation", progress=True)
    return finished_or_asked(case, "ACTIONS_EXECUTED")


def action_failed(case: Case) -> Expected | None:
    if case.phase is not Phase.EXECUTING_ACTIONS:
        return None
    if case.has("open_left"):
        return Expected(phase=Phase.WAITING_VALIDATION, waits_for="validation", progress=True)
    return Expected(phase=Phase.RETRYING_AFTER_ACTION_FAILURE, progress=True)


def validation(case: Case) -> Expected | None:
    """The decisions of a run are carried out by the approvals; it hears of them when none is left
    and the slot is free. A conversation carries out each.
    """
    if case.phase is not Phase.WAITING_VALIDATION:
        return None
    stays = Expected(phase=Phase.WAITING_VALIDATION, waits_for="validation", by_person=True)
    if case.has("open_left") and not case.is_chat:
        return stays
    if case.has("approved") and case.has_slot:
        return Expected(phase=Phase.EXECUTING_ACTIONS, by_person=True)
    if case.has("open_left") or not case.has_slot:
        return stays
    return Expected(phase=Phase.CALLING_AI, by_person=True)


def communication(case: Case) -> Expected | None:
    if case.phase is not Phase.WAITING_COMMUNICATION_RESPONSE:
        return None
    runs_calls = case.waits_for == "rounds" and case.has("granted")
    phase = Phase.EXECUTING_DATA_QUERIES if runs_calls else Phase.CALLING_AI
    return Expected(phase=phase, by_person=True)


def parse_error(case: Case) -> Expected | None:
    if case.phase is not Phase.PARSING_AI_RESPONSE:
        return None
    if case.has("third_in_a_row") and not case.is_chat:
        return announced(EndReason.COMPLETED)
    return Expected(phase=Phase.RETRYING_AFTER_FORMAT_ERROR, note="FORMAT_ERROR")


def retry(case: Case) -> Expected | None:
    retrying = (Phase.RETRYING_AFTER_FORMAT_ERROR, Phase.RETRYING_AFTER_ACTION_FAILURE)
    return Expected(phase=Phase.CALLING_AI, progress=True) if case.phase in retrying else None


def network_error(case: Case) -> Expected | None:
    if case.phase is not Phase.CALLING_AI:
        return None
    if case.is_chat:
        return Expected(phase=Phase.IDLE)
    return Expected(phase=Phase.WAITING_NETWORK_RETRY, waits_for="network", note="NETWORK_ERROR")


def retry_moved(case: Case) -> Expected | None:
    waits = case.phase is Phase.WAITING_NETWORK_RETRY
    return Expected(phase=case.phase, waits_for="network") if waits else None


def network_back(case: Case) -> Expected | None:
    waits = case.phase is Phase.WAITING_NETWORK_RETRY and case.has_slot
    return Expected(phase=Phase.CALLING_AI, repeats=True) if waits else None


def confirmed(case: Case) -> Expected | None:
    if case.phase is not Phase.WAITING_COMPLETION_CONFIRMATION:
        return None
    assert case.state.waiting is not None
    return Expected(phase=Phase.COMPLETED, reason=EndReason(case.state.waiting["reason"]))


def end_refused(case: Case) -> Expected | None:
    """A person lets a run continue, unless it ends because of an error."""
    waiting = case.state.waiting or {}
    if case.phase is not Phase.WAITING_COMPLETION_CONFIRMATION or waiting["reason"] == "ERROR":
        return None
    return Expected(phase=Phase.CALLING_AI, by_person=True, raises_limit=True)


def system_error(case: Case) -> Expected | None:
    if case.phase not in WORKING:
        return None
    if case.is_chat:
        return Expected(phase=Phase.IDLE)
    return announced(EndReason.LIMIT_REACHED if case.has("usage_limit") else EndReason.ERROR)


def session_ended(case: Case) -> Expected | None:
    """A conversation rests instead of ending. A run ends or pauses, its action finished."""
    if case.is_chat:
        return Expected(phase=Phase.IDLE) if case.phase in WORKING | FOR_PEOPLE else None
    reason = case.event.reason
    if reason is None or case.phase in (Phase.COMPLETED, Phase.EXECUTING_ACTIONS):
        return None
    if reason is not EndReason.SUSPENDED:
        return Expected(phase=Phase.COMPLETED, reason=reason)
    if case.phase not in WORKING:
        return None
    return Expected(phase=recovered(case.phase), reason=reason, progress=True)


def heartbeat(case: Case) -> Expected | None:
    if case.phase is Phase.COMPLETED:
        return None
    if case.phase in WORKING and not case.is_chat and case.has("overdue"):
        return announced(EndReason.TIMEOUT, note="SESSION_TIMEOUT")
    return Expected(phase=case.phase, changes_nothing=True)


RULES: Final[Mapping[EventName, Callable[[Case], Expected | None]]] = {
    EventName.SESSION_ACTIVATION_REQUESTED: activation,
    EventName.USER_MESSAGE_SENT: user_message,
    EventName.ENRICHMENTS_EXECUTED: enrichments,
    EventName.AI_RESPONSE_RECEIVED: response_received,
    EventName.AI_RESPONSE_PARSED: response_parsed,
    EventName.VALIDATION_RECEIVED: validation,
    EventName.COMMUNICATION_RESPONSE_RECEIVED: communication,
    EventName.DATA_QUERIES_EXECUTED: queries_executed,
    EventName.ACTIONS_EXECUTED: actions_executed,
    EventName.COMPLETION_CONFIRMED: confirmed,
    EventName.COMPLETION_REJECTED: end_refused,
    EventName.NETWORK_ERROR_OCCURRED: network_error,
    EventName.PARSE_ERROR_OCCURRED: parse_error,
    EventName.ACTION_FAILURE_OCCURRED: action_failed,
    EventName.NETWORK_RETRY_SCHEDULED: retry_moved,
    EventName.RETRY_SCHEDULED: retry,
    EventName.NETWORK_AVAILABLE: network_back,
    EventName.SYSTEM_ERROR_OCCURRED: system_error,
    EventName.SESSION_COMPLETED: session_ended,
    EventName.SCHEDULER_HEARTBEAT: heartbeat,
}
