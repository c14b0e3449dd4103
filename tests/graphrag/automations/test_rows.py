"""Transitions that people and the clock cause while nobody works on a run: queued, asked to try
again, decided while the graph is busy, out of time while it waits.
"""

from graphrag.agent.thread_store import session_of
from graphrag.approvals import Approve
from graphrag.llm.errors import ModelUnreachable
from graphrag.sessions.machine import SessionEvent
from graphrag.sessions.phases import EventName, Phase
from tests.support.agents import EDITOR, REVIEWER
from tests.support.automations import HOUR, MINUTE, TWO, finish, move, scripted_night
from tests.support.scripted_provider import Says

AWAY = ModelUnreachable(provider="scripted", reason="refused")


async def test_a_run_that_waits_for_its_slot_says_since_when() -> None:
    async with scripted_night() as (night, _):
        made = await night.automation()
        night.clock.now = TWO
        claimed = await night.automations.claim(made, TWO, trigger="manual")
        assert claimed is not None
        session = session_of(claimed.thread)
        assert (session.phase, session.queued_time) == (Phase.IDLE, TWO)
        assert (session.last_event_time, session.started_time) == (TWO, None)


async def test_a_person_who_lets_a_run_try_again_begins_its_waits_anew() -> None:
    async with scripted_night(*[AWAY] * 5, finish()) as (night, _):
        made = await night.ran()
        now = TWO
        for wait_s in (30, 60, 120):
            now += wait_s * 1000
            assert await night.run_at(now) == 1
        session = await night.session(made)
        assert session.waiting is not None
        assert session.waiting["retryAt"] == now + 240_000
        (run,) = await night.runs(made)
        asked = await night.control.resume(run.key, EDITOR)
        assert session_of(asked).phase is Phase.WAITING_NETWORK_RETRY
        assert await night.run_at(now) == 1
        session = await night.session(made)
        assert session.waiting is not None
        assert (session.waiting["retryAt"], session.waiting["attempts"]) == (now + 30_000, 1)
        assert await night.run_at(now + 30_000) == 1
        assert (await night.session(made)).phase is Phase.COMPLETED


async def test_a_run_that_a_person_lets_try_again_is_not_ended_by_the_day_that_passed() -> None:
    async with scripted_night(AWAY, finish()) as (night, _):
        made = await night.ran(dates=(TWO,), cron=None)
        (run,) = await night.runs(made)
        night.clock.now = TWO + 25 * HOUR
        await night.control.resume(run.key, EDITOR)
        assert await night.run_at(TWO + 25 * HOUR) == 1
        assert (await night.session(made)).end_reason == "COMPLETED"


async def test_a_run_that_ended_without_network_goes_on_when_a_person_asks_for_it() -> None:
    async with scripted_night(AWAY, finish()) as (night, _):
        made = await night.ran(dates=(TWO,), cron=None)
        assert await night.run_at(TWO + 25 * HOUR) == 0
        assert (await night.session(made)).end_reason == "NETWORK_ERROR"
        assert await night.run_at(TWO + 26 * HOUR) == 0
        (run,) = await night.runs(made)
        await night.control.resume(run.key, EDITOR)
        assert await night.run_at(TWO + 26 * HOUR) == 1
        session = await night.session(made)
        assert (session.end_reason, session.roundtrips) == ("COMPLETED", 1)


async def test_a_decision_is_noted_also_while_others_are_left_or_the_graph_is_busy() -> None:
    two = Says(calls=[move(), move("error-handler")])
    async with scripted_night(two, finish()) as (night, _):
        made = await night.ran()
        first, second = await night.approvals.list(status="pending", by=REVIEWER)
        night.clock.now = TWO + MINUTE
        await night.approvals.decide(first.id, Approve(), REVIEWER)
        assert await night.run_at(TWO + 2 * MINUTE) == 0
        session = await night.session(made)
        assert session.phase is Phase.WAITING_VALIDATION
        assert session.last_person_time == TWO + 2 * MINUTE
        async with night.worker.runner.slots.held(made.graph_key):
            night.clock.now = TWO + 3 * MINUTE
            await night.approvals.decide(second.id, Approve(), REVIEWER)
            assert await night.run_at(TWO + 4 * MINUTE) == 0
            session = await night.session(made)
            assert session.phase is Phase.WAITING_VALIDATION
            assert session.last_person_time == TWO + 4 * MINUTE
            assert await night.run_at(TWO + 5 * MINUTE) == 0
            assert (await night.session(made)).last_person_time == TWO + 4 * MINUTE
        assert await night.run_at(TWO + 6 * MINUTE) == 1
        assert (await night.session(made)).end_reason == "COMPLETED"


async def test_a_run_that_is_out_of_time_while_it_waits_for_people_goes_on_waiting() -> None:
    async with scripted_night(Says(calls=[move()])) as (night, _):
        made = await night.ran()
        (run,) = await night.runs(made)
        overdue = SessionEvent(name=EventName.SCHEDULER_HEARTBEAT, facts=frozenset({"overdue"}))
        after = await night.worker.runner.events.apply(run.key, overdue)
        assert session_of(after) == session_of(run)
