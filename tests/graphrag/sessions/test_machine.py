"""The state machine of sessions does what the rules of `rules.py` say."""

import random
from collections.abc import Iterator
from itertools import chain, combinations, product
from typing import Any

import pytest

from graphrag.sessions.machine import (
    SessionEvent,
    SessionLimits,
    SessionState,
    Transition,
    delay_ms,
    transition,
)
from graphrag.sessions.phases import (
    ACTIVE,
    FACTS,
    OPEN,
    ROWS,
    WAITING,
    EndReason,
    EventName,
    Phase,
    SessionKind,
    Stamp,
)
from tests.graphrag.sessions.rules import FACTS_OF, RULES, Expected, announced, expected

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


def states(kind: SessionKind, phase: Phase, limit: int | None = None) -> Iterator[SessionState]:
    ends: list[EndReason | None] = [None]
    if kind is SessionKind.AUTOMATION and phase in ACTIVE:
        ends = [None, EndReason.SUSPENDED]
    if phase is Phase.COMPLETED:
        ends = [EndReason.COMPLETED, EndReason.NETWORK_ERROR]
    for waiting in CONTEXTS.get(phase, [None]):
        for end in ends:
            yield SessionState(
                kind=kind,
                phase=phase,
                waiting=waiting,
                end_reason=end,
                roundtrips=1,
                roundtrip_limit=limit,
                attempts=2,
            )


NEVER_OF_CHAT = frozenset(
    {Phase.COMPLETED, Phase.WAITING_NETWORK_RETRY, Phase.WAITING_COMPLETION_CONFIRMATION}
)
"""A conversation never ends, and waits for no network: a person tries again."""
ASKING = frozenset({Phase.CALLING_AI, Phase.EXECUTING_ENRICHMENTS})


def facts_of(name: EventName) -> list[frozenset[str]]:
    """Lists every combination of the facts that an event carries."""
    facts = FACTS_OF.get(name, ())
    combined = chain.from_iterable(combinations(facts, n) for n in range(len(facts) + 1))
    return [frozenset(some) for some in combined]


def events_of(kind: SessionKind) -> Iterator[SessionEvent]:
    budgets = (frozenset[str](), frozenset({"budget_spent"}))
    for name in EventName:
        reasons = [None, *EndReason] if name is EventName.SESSION_COMPLETED else [None]
        for facts, reason, budget in product(
            facts_of(name), reasons, budgets if kind is SessionKind.AUTOMATION else budgets[:1]
        ):
            data = {"code": "network"}
            yield SessionEvent(name=name, facts=facts | budget, reason=reason, data=data)


def is_limited(state: SessionState, event: SessionEvent, rule: Expected) -> bool:
    """Whether a run may not do what the rule says: its calls or its budget are spent."""
    if state.kind is not SessionKind.AUTOMATION:
        return False
    limit = state.roundtrip_limit
    if limit is not None and rule.raises_limit:
        limit += 10
    if counts_call(state, rule) and limit is not None and state.roundtrips >= limit:
        return True
    pauses = rule.reason is EndReason.SUSPENDED
    return "budget_spent" in event.facts and rule.phase in ASKING and not pauses


def counts_call(state: SessionState, rule: Expected) -> bool:
    enters = rule.phase is Phase.CALLING_AI and state.phase is not Phase.CALLING_AI
    return enters and not rule.repeats and state.kind is SessionKind.AUTOMATION


def after(state: SessionState, event: SessionEvent, rule: Expected) -> SessionState:
    """Returns the state that a rule leads to, with the limits of a run."""
    limited = is_limited(state, event, rule)
    changes = counters_after(state, rule, limited)
    if limited:
        rule = announced(EndReason.LIMIT_REACHED)
    waiting: dict[str, Any] | None = None
    end = rule.reason
    match rule.waits_for:
        case None:
            pass
        case "completion":
            assert end is not None
            waiting = {"type": "completion", "reason": end.value, "at": NOW + 5_000}
            end = None
        case "network" if state.phase is Phase.CALLING_AI:
            waiting = {"type": "network", **event.data, "retryAt": NOW + 30_000, "attempts": 1}
            changes |= {"network_failures": 1, "network_since": NOW}
        case _ if state.phase is rule.phase:
            waiting = {**(state.waiting or {}), **event.data}
        case kind:
            waiting = {"type": kind, **event.data}
    changes |= {"phase": rule.phase, "waiting": waiting, "end_reason": end}
    return state.model_copy(update=changes)


def counters_after(state: SessionState, rule: Expected, limited: bool) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if counts_call(state, rule) and not limited:
        changes["roundtrips"] = state.roundtrips + 1
    if rule.raises_limit and state.roundtrip_limit is not None:
        changes["roundtrip_limit"] = state.roundtrip_limit + 10
    if rule.takeover:
        changes["attempts"] = state.attempts + 1
    if rule.progress or limited:
        changes["attempts"] = 0
    if rule.fresh:
        changes |= {"network_failures": 0, "network_since": None}
    return changes


@pytest.mark.parametrize("limit", [1, 20])
@pytest.mark.parametrize("kind", [*SessionKind])
@pytest.mark.parametrize("phase", [*Phase])
def test_every_event_in_every_phase_with_every_fact_does_what_the_rules_say(
    kind: SessionKind, phase: Phase, limit: int
) -> None:
    if kind is SessionKind.CHAT and phase in NEVER_OF_CHAT:
        return
    for state, event in product(states(kind, phase, limit), events_of(kind)):
        rule = expected(state, event)
        step = transition(state, event, SessionLimits(), NOW)
        if rule is None:
            assert step is None, (state, event)
            continue
        assert step is not None, (state, event, rule)
        if rule.changes_nothing:
            assert step.state == state
            continue
        assert step.state == after(state, event, rule), (state, event, rule)
        assert (step.state.waiting is not None) == (step.state.phase in WAITING)
        assert (Stamp.PERSON in step.row.stamps) == rule.by_person
        limit_note = ["LIMIT_REACHED"] if is_limited(state, event, rule) else []
        assert list(step.notes) == [*([rule.note] if rule.note else []), *limit_note]


def test_the_table_has_13_phases_and_20_events_and_a_row_for_each() -> None:
    assert (len(Phase), len(EventName)) == (13, 20)
    assert {row.event for row in ROWS} == set(EventName) == RULES.keys()
    assert frozenset[Phase]().union(*(row.phases for row in ROWS)) == set(Phase)


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
        SessionKind.CHAT: NEVER_OF_CHAT,
        SessionKind.AUTOMATION: {Phase.WAITING_COMMUNICATION_RESPONSE},
    }
    assert found == set(Phase) - never[kind]


def steps(
    kind: SessionKind, phase: Phase
) -> Iterator[tuple[SessionState, Transition[SessionState]]]:
    for state in states(kind, phase):
        for name in EventName:
            for facts in facts_of(name):
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
            if Stamp.PERSON not in step.row.stamps and step.state.phase is not phase
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
            assert state.end_reason is EndReason.NETWORK_ERROR
        state = step.state
        assert (state.waiting is not None) == (state.phase in WAITING)
        assert state.roundtrip_limit is None or state.roundtrips <= state.roundtrip_limit
        if kind is SessionKind.CHAT:
            assert state.phase not in NEVER_OF_CHAT
