"""The state machine of sessions keeps its table, written a second time in tests/data,
and its rules.
"""

import csv
import random
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest

from graphrag.sessions.machine import (
    ACTIVE,
    FACTS,
    OPEN,
    WAITING,
    EndReason,
    EventName,
    Phase,
    SessionEvent,
    SessionKind,
    SessionLimits,
    SessionState,
    Transition,
    delay_ms,
    transition,
)

COPY = list(
    csv.DictReader(
        (Path(__file__).parents[2] / "data" / "session_table.csv").read_text("utf-8").splitlines()
    )
)
GROUPS = {"ACTIVE": ACTIVE, "WAITING": WAITING, "OPEN": OPEN}
CONTEXTS = {
    Phase.WAITING_VALIDATION: [{"type": "validation", "approvalIds": ["a"]}],
    Phase.WAITING_COMMUNICATION_RESPONSE: [
        {"type": "communication", "module": "Validation", "callId": "c"},
        {"type": "rounds", "used": 5, "max": 5},
    ],
    Phase.WAITING_COMPLETION_CONFIRMATION: [
        {"type": "completion", "reason": reason, "at": 5} for reason in ("COMPLETED", "ERROR")
    ],
    Phase.WAITING_NETWORK_RETRY: [{"type": "network", "retryAt": 9, "attempts": 1}],
}
NOW = 1_000_000


def states(kind: SessionKind, phase: Phase) -> Iterator[SessionState]:
    ends: list[EndReason | None] = [None]
    if kind is SessionKind.AUTOMATION and phase in ACTIVE:
        ends = [None, EndReason.SUSPENDED]
    if phase is Phase.COMPLETED:
        ends = [EndReason.COMPLETED, EndReason.NETWORK_ERROR]
    for waiting in CONTEXTS.get(phase, [None]):
        for end in ends:
            yield SessionState(
                kind=kind, phase=phase, waiting=waiting, end_reason=end, roundtrips=1
            )


def expected(state: SessionState, event: SessionEvent) -> dict[str, str] | None:
    """Interpret the copy of the table, word by word."""
    if state.kind is SessionKind.SEED:
        return None
    for row in COPY:
        phases = GROUPS.get(row["phase"], {row["phase"]})
        if state.phase not in phases or event.name != row["event"]:
            continue
        if row["n"] in ("49", "50") and state.phase is Phase.EXECUTING_ACTIONS:
            continue
        if all(
            _holds(word.strip(), state, event) for word in row["guard"].split("&") if word.strip()
        ):
            return row
    return None


def _holds(word: str, state: SessionState, event: SessionEvent) -> bool:
    if word in ("chat", "automation"):
        return state.kind.value == word
    if word == "slot_free":
        return state.kind is SessionKind.CHAT or word in event.facts
    if word == "resumable":
        return state.end_reason == "SUSPENDED" or (
            state.end_reason is None and "unheld" in event.facts
        )
    if word == "rounds":
        return state.waiting is not None and state.waiting["type"] == "rounds"
    if word.startswith("reason"):
        if event.name == "session_completed":
            reason: Any = event.reason
        else:
            reason = state.end_reason or (state.waiting.get("reason") if state.waiting else None)
        if word.startswith("reason not"):
            return reason is not None and reason != word.split()[-1]
        return reason is not None and reason == word.split()[-1]
    return word in event.facts


def facts_of(phase: Phase, name: EventName) -> list[frozenset[str]]:
    """List every combination of the facts that rows of this phase and event ask about."""
    asked = {"unheld"} if name is EventName.SESSION_ACTIVATION_REQUESTED else set[str]()
    for row in COPY:
        if name == row["event"] and phase in GROUPS.get(row["phase"], {row["phase"]}):
            asked |= {word.strip() for word in row["guard"].split("&")} & FACTS
    return [
        frozenset(some)
        for some in chain.from_iterable(
            combinations(sorted(asked), n) for n in range(len(asked) + 1)
        )
    ]


def after(row: dict[str, str], state: SessionState) -> str:
    if row["next"] == "SAME":
        return state.phase
    if row["next"] == "RECOVERED":
        kept = {Phase.EXECUTING_ENRICHMENTS, Phase.EXECUTING_ACTIONS}
        return state.phase if state.phase in kept else Phase.CALLING_AI
    return row["next"]


@pytest.mark.parametrize("kind", [*SessionKind])
@pytest.mark.parametrize("phase", [*Phase])
def test_every_event_in_every_phase_with_every_guard_follows_the_table(
    kind: SessionKind, phase: Phase
) -> None:
    for state in states(kind, phase):
        for name in EventName:
            reasons = list(EndReason) if name is EventName.SESSION_COMPLETED else [None]
            for facts in facts_of(phase, name):
                for reason in reasons:
                    event = SessionEvent(
                        name=name, facts=facts, reason=reason, data={"code": "network"}
                    )
                    row = expected(state, event)
                    step = transition(state, event, SessionLimits(), NOW)
                    if row is None:
                        assert step is None, (state, event)
                        continue
                    assert step is not None, (state, event, row)
                    assert step.row.number == int(row["n"])
                    assert step.state.phase == after(row, state)
                    assert (step.state.waiting is not None) == (step.state.phase in WAITING)


def test_the_table_has_13_phases_20_events_and_54_rows() -> None:
    assert (len(Phase), len(EventName), len(COPY)) == (13, 20, 54)
    assert {row["event"] for row in COPY} == set(EventName)


@pytest.mark.parametrize("kind", [SessionKind.CHAT, SessionKind.AUTOMATION])
def test_every_phase_can_be_reached(kind: SessionKind) -> None:
    found = {Phase.IDLE}
    open_ = [SessionState(kind=kind)]
    everything = list(chain.from_iterable(steps(kind, phase) for phase in Phase))
    while open_:
        state = open_.pop()
        for start, step in everything:
            if start.phase == state.phase and step.state.phase not in found:
                found.add(step.state.phase)
                open_.append(step.state)
    never = {
        SessionKind.CHAT: {
            Phase.COMPLETED,
            Phase.WAITING_NETWORK_RETRY,
            Phase.WAITING_COMPLETION_CONFIRMATION,
        },
        SessionKind.AUTOMATION: {Phase.WAITING_COMMUNICATION_RESPONSE},
    }
    assert found == set(Phase) - never[kind]


def steps(
    kind: SessionKind, phase: Phase
) -> Iterator[tuple[SessionState, Transition[SessionState]]]:
    for state in states(kind, phase):
        for name in EventName:
            for facts in facts_of(phase, name):
                for reason in EndReason:
                    event = SessionEvent(name=name, facts=facts, reason=reason)
                    step = transition(state, event, SessionLimits(), NOW)
                    if step is not None:
                        yield state, step


def test_an_open_phase_of_a_run_has_a_way_out_without_a_person_unless_it_waits_for_one() -> None:
    for phase in OPEN - {Phase.WAITING_VALIDATION, Phase.WAITING_COMMUNICATION_RESPONSE}:
        ways = {
            step.state.phase
            for _, step in steps(SessionKind.AUTOMATION, phase)
            if "person" not in step.actions and step.state.phase is not phase
        }
        assert ways, phase


def run(
    *events: SessionEvent, state: SessionState | None = None, limit: int | None = 20
) -> SessionState:
    state = state or SessionState(kind=SessionKind.AUTOMATION, roundtrip_limit=limit)
    for event in events:
        step = transition(state, event, SessionLimits(), NOW)
        assert step is not None, (state, event)
        state = step.state
    return state


def event(name: EventName, *facts: str, **data: Any) -> SessionEvent:
    return SessionEvent(name=name, facts=frozenset(facts), data=data)


STARTED = (
    event(EventName.SESSION_ACTIVATION_REQUESTED, "slot_free"),
    event(EventName.ENRICHMENTS_EXECUTED),
)
READS = (
    event(EventName.AI_RESPONSE_RECEIVED),
    event(EventName.AI_RESPONSE_PARSED, "calls", "reads"),
    event(EventName.DATA_QUERIES_EXECUTED),
)


def test_a_run_that_would_ask_the_model_once_too_often_is_to_end() -> None:
    state = run(*STARTED, *READS * 2, limit=2)
    assert state.phase is Phase.WAITING_COMPLETION_CONFIRMATION
    assert state.waiting is not None
    assert state.waiting == {"type": "completion", "reason": "LIMIT_REACHED", "at": NOW + 5000}
    assert state.roundtrips == 2
    ended = run(event(EventName.COMPLETION_CONFIRMED), state=state)
    assert (ended.phase, ended.end_reason) == (Phase.COMPLETED, EndReason.LIMIT_REACHED)
    more = run(event(EventName.COMPLETION_REJECTED), state=state)
    assert (more.phase, more.roundtrips, more.roundtrip_limit) == (Phase.CALLING_AI, 3, 12)


def test_a_spent_budget_ends_a_run_before_its_calls_are_used_up() -> None:
    state = run(*STARTED, *READS[:2], event(EventName.DATA_QUERIES_EXECUTED, "budget_spent"))
    assert state.waiting["reason"] == "LIMIT_REACHED"


def test_a_call_that_gave_no_answer_is_not_counted_again() -> None:
    state = run(*STARTED, event(EventName.NETWORK_ERROR_OCCURRED, code="network"), limit=1)
    assert state.phase is Phase.WAITING_NETWORK_RETRY
    state = run(event(EventName.NETWORK_AVAILABLE, "slot_free"), state=state)
    assert (state.phase, state.roundtrips) == (Phase.CALLING_AI, 1)
    taken = run(event(EventName.SESSION_ACTIVATION_REQUESTED, "unheld", "slot_free"), state=state)
    assert (taken.phase, taken.roundtrips, taken.attempts) == (Phase.CALLING_AI, 1, 1)


def test_waits_for_a_network_double_to_ten_minutes_and_an_answer_ends_the_count() -> None:
    state = run(*STARTED)
    waits = list[int]()
    for _ in range(7):
        state = run(event(EventName.NETWORK_ERROR_OCCURRED, code="busy"), state=state)
        waits.append(state.waiting["retryAt"] - NOW)
        state = run(event(EventName.NETWORK_AVAILABLE, "slot_free"), state=state)
    assert waits == [30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000]
    assert run(event(EventName.AI_RESPONSE_RECEIVED), state=state).network_failures == 0
    assert delay_ms(1, 7.5, SessionLimits()) == 7500
    assert delay_ms(10**9, None, SessionLimits()) == 600_000


def test_a_suspended_run_goes_on_where_it_was() -> None:
    state = run(*STARTED)
    paused = transition(
        state,
        SessionEvent(name=EventName.SESSION_COMPLETED, reason=EndReason.SUSPENDED),
        SessionLimits(),
        NOW,
    )
    assert (paused.state.phase, paused.state.end_reason) == (Phase.CALLING_AI, EndReason.SUSPENDED)
    back = run(event(EventName.SESSION_ACTIVATION_REQUESTED, "slot_free"), state=paused.state)
    assert (back.phase, back.end_reason, back.roundtrips) == (Phase.CALLING_AI, None, 1)


def test_a_fact_that_no_guard_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="slot_fre"):
        transition(
            SessionState(kind=SessionKind.CHAT),
            event(EventName.RETRY_SCHEDULED, "slot_fre"),
            SessionLimits(),
            NOW,
        )


def random_event(chance: random.Random) -> SessionEvent:
    share = chance.choice((0.1, 0.5, 0.9))
    data = {"code": "busy", "retryAfterS": chance.choice((0.0, 30.5, 1e9))}
    return SessionEvent(
        name=chance.choice(list(EventName)),
        facts=frozenset(fact for fact in sorted(FACTS) if chance.random() < share),
        reason=chance.choice([None, *EndReason]),
        data={name: value for name, value in data.items() if chance.random() < share},
    )


@pytest.mark.parametrize("seed", [*range(10)])
@pytest.mark.parametrize("kind", [*SessionKind])
def test_no_order_of_events_breaks_a_rule(kind: SessionKind, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        check_any_order(kind, chance)


def check_any_order(kind: SessionKind, chance: random.Random) -> None:
    state = SessionState(kind=kind, roundtrip_limit=20 if kind is SessionKind.AUTOMATION else None)
    for _ in range(60):
        step = transition(state, random_event(chance), SessionLimits(), chance.randrange(10**13))
        if step is None:
            continue
        assert kind is not SessionKind.SEED
        if state.phase is Phase.COMPLETED:
            assert step.row.number == 7
        state = step.state
        assert (state.waiting is not None) == (state.phase in WAITING)
        assert state.roundtrip_limit is None or state.roundtrips <= state.roundtrip_limit
        if kind is SessionKind.CHAT:
            assert state.phase not in (
                Phase.COMPLETED,
                Phase.WAITING_NETWORK_RETRY,
                Phase.WAITING_COMPLETION_CONFIRMATION,
            )


@pytest.mark.parametrize("phase", [*Phase])
def test_a_run_whose_budget_is_spent_enters_no_phase_that_asks_a_model(phase: Phase) -> None:
    asking = {Phase.CALLING_AI, Phase.EXECUTING_ENRICHMENTS}
    for state in states(SessionKind.AUTOMATION, phase):
        for name in EventName:
            for facts in facts_of(phase, name):
                for reason in EndReason:
                    spent = SessionEvent(name=name, facts=facts | {"budget_spent"}, reason=reason)
                    step = transition(state, spent, SessionLimits(), NOW)
                    # A run that pauses, or that only gets a sign of life, is asked about when
                    # it goes on.
                    if step is not None and step.row.number not in (49, 54):
                        assert step.state.phase not in asking, (state, spent)
