"""Calls end once, whatever ends them and whichever process is gone, and an API gets what
it is owed.
"""

import asyncio
from collections import Counter

import pytest

from datasources.base import Database
from datasources.mock import MemoryDatabase
from graphrag.agents.errors import AgentNotRunning
from graphrag.bridge.phone_messages import StreamStart
from graphrag.bridge.signals import CallOver
from graphrag.voice import errors
from graphrag.voice.call_slots import CallSlots
from graphrag.voice.follow_up import FollowUp
from tests.support.agent_life import Api, Killed
from tests.support.agents import REVIEWER
from tests.support.clock import Clock
from tests.support.phone_calls import (
    SECOND,
    SID,
    NoPhone,
    PhoneServer,
    call_of,
    pair,
    phone_server_on,
    with_limit,
)
from tests.support.waiting import until


async def renewed(database: Database, call_id: str, clock: Clock) -> None:
    """Wait until the lease of a call is renewed since the clock was set."""
    async with asyncio.timeout(10):
        while True:
            record = await database.records("default").get("lease", f"turn/{call_id}")
            if record is not None and record.data["expiresTime"] >= clock() + 15 * SECOND:
                return
            await asyncio.sleep(0.01)


async def test_a_full_or_stopping_process_refuses_and_lets_calls_say_goodbye(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, most=1)
    _, token = await server.ring()
    with pytest.raises(errors.CallsFull):
        await server.ring("CA2")
    serving = await server.answer(token)
    server.slots.stop_accepting()
    draining = asyncio.create_task(server.slots.drain(0))
    await asyncio.gather(serving, draining, return_exceptions=True)
    await server.quiet()
    (call,), _ = await server.calls.listed(REVIEWER).list()
    assert (call.status, call.end_reason) == ("ended", "draining")
    with pytest.raises(errors.CallsFull):
        await server.ring("CA3")


async def test_one_number_or_person_has_a_share_of_the_places_and_others_are_taken(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, agent=with_limit(20), most=10)
    for number in range(2):
        await server.ring(f"CA{number}")
        await server.ring(None, user_id="vera", caller_phone=f"+3361111000{number}")
    with pytest.raises(errors.CallsFull):
        await server.ring("CA2")
    with pytest.raises(errors.CallsFull):
        await server.ring(None, user_id="vera", caller_phone="+33611110002")
    _, token = await server.ring("CB", caller_phone="+33622220000")
    serving = await server.answer(token, "CB")
    server.clock.now += 22 * SECOND  # nobody came for the places of the first number
    await server.ring("CA3")
    server.speakers[0].end_soon("caller_hung_up")
    await serving


async def test_callers_who_withhold_their_number_have_half_of_the_places_together(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, agent=with_limit(20), most=10)
    for number in range(5):
        await server.ring(f"CA{number}", caller_phone=None)
    with pytest.raises(errors.CallsFull):
        await server.ring("CA5", caller_phone=None)
    await server.ring("CB")


async def test_the_place_of_a_running_call_counts_for_its_caller_until_it_ends(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, agent=with_limit(20), most=5)
    _, serving = await server.connect("CA1")
    server.clock.now += 60 * SECOND
    with pytest.raises(errors.CallsFull):
        await server.ring("CA2")
    server.speakers[0].end_soon("caller_hung_up")
    await serving
    await server.ring("CA2")


async def test_a_call_that_does_not_leave_is_cut_when_the_process_stops(
    server: PhoneServer, api: Api
) -> None:
    call, serving = await server.connect()
    server.speakers[0].end_soon = lambda reason: None  # type: ignore[method-assign]
    await server.slots.drain(0)
    assert serving.cancelled()
    await server.quiet()
    ended = await call_of(server, call.call_id)
    assert (ended.status, ended.end_reason) == ("ended", "draining")
    assert len(api.of("/calls")) == 2


async def test_a_call_of_a_killed_process_ends_as_lost_and_its_api_knows(
    database: Database, api: Api
) -> None:
    dying, other = pair(database, api)
    call, serving = await dying.connect()
    for _ in range(6):  # it is served: nobody ends it
        other.clock.now += 9 * SECOND
        await renewed(database, call.call_id, other.clock)
        await other.tick()
    assert (await call_of(other, call.call_id)).status == "active"
    last_held = other.clock()
    dying.records.is_dead = True
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    other.clock.now += 3_000 * SECOND  # it is looked at when a server is there again
    await other.tick()
    ended = await call_of(other, call.call_id)
    assert ended.ended_time is not None
    assert abs(ended.ended_time - last_held) <= 1 * SECOND, "it lasted as long as it was served"
    assert api.of("/calls")[-1].body["seconds"] == 54
    assert (ended.status, ended.end_reason, ended.outcome) == ("ended", "lost", "info_only")
    other.clock.now += 3_600 * SECOND
    await other.tick()
    assert {each.key for each in api.sent if each.method == "PATCH"} == {f"{call.call_id}:on_end"}
    assert {each.status for each in await other.life.deliveries.list()} == {"done"}


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_any_write_a_call_ends_once_on_another_server(
    api: Api, after: bool
) -> None:
    ends = Counter[str | None]()
    died = True
    number = 0
    while died:
        number += 1
        async with MemoryDatabase() as database:
            api.sent.clear()
            dying = phone_server_on(database, api, dies_at=number, after=after)
            dying.on_serving = lambda speaker: speaker.end_soon("caller_hung_up")
            try:
                _, token = await dying.ring()
                await asyncio.gather(await dying.answer(token))
                await dying.life.deliveries.wait_until_sent(timeout_s=1)
            except Killed:
                pass
            died = dying.records.is_dead
            await dying.life.deliveries.close()
            other = phone_server_on(database, api, clock=dying.clock)
            for _ in range(3):
                other.clock.now += 3_600 * SECOND
                await other.tick()
            calls, _ = await other.calls.listed(REVIEWER).list()
            assert all(call.status == "ended" for call in calls), number
            ends.update(call.end_reason for call in calls)
            owed = await other.life.deliveries.list()
            assert all(each.status == "done" for each in owed), number
            assert {each.key for each in api.sent} == {each.id for each in owed}
            threads = await database.records("default").query("thread")
            assert all(not thread.data["agentOpen"] for thread in threads)
            assert not threads or {each.event for each in owed} >= {"on_start", "on_end"}
    assert number > 8
    assert set(ends) <= {"caller_hung_up", "lost", "line_lost"}
    assert ends["lost"] >= 3


async def test_a_server_away_too_long_changes_no_call_that_ended_meanwhile(
    memory: Database, api: Api
) -> None:
    away, other = pair(memory, api)
    call, serving = await away.connect()
    record = await memory.records("default").get("lease", f"turn/{call.call_id}")
    await memory.records("default").delete(
        "lease", record.key, expected_version=record.version or ""
    )
    other.clock.now += 21 * SECOND
    await other.tick()
    lost = await call_of(other, call.call_id)
    assert lost.end_reason == "lost"
    away.speakers[0].end_soon("caller_hung_up")
    await asyncio.gather(serving, return_exceptions=True)
    await away.quiet()
    assert await call_of(other, call.call_id) == lost
    assert len([each for each in api.sent if each.method == "PATCH"]) == 1


async def test_a_person_ends_a_call_wherever_it_is_served(memory: Database, api: Api) -> None:
    server, other = pair(memory, api)
    for ends in (server, other):
        call, token = await server.ring(f"CA{id(ends)}")
        serving = await server.answer(token, f"CA{id(ends)}")
        assert (await ends.calls.end(call.call_id, REVIEWER)).is_open
        await asyncio.wait_for(serving, 60)
        assert (await call_of(other, call.call_id)).end_reason == "ended_by_person"
        with pytest.raises(errors.CallEnded):
            await ends.calls.end(call.call_id, REVIEWER)
    ringing, _ = await server.ring("CA9")
    assert (await other.calls.end(ringing.call_id, REVIEWER)).status == "ended"


async def test_a_call_ended_before_its_stream_is_held_is_held_by_nobody(
    memory: Database, api: Api
) -> None:
    server, other = pair(memory, api)
    call, token = await server.ring()
    taken = await server.calls.take(token, SID)
    phone = NoPhone()
    ended = await other.calls.end(call.call_id, REVIEWER)
    assert (ended.status, ended.end_reason) == ("ended", "lost")
    start = StreamStart(stream_id="MZ1", call_sid=SID, token=token)
    before = len(server.states.seen)
    await asyncio.wait_for(server.calls.serve(taken, phone, start), 60)
    assert (phone.closed, server.slots.taken, server.speakers) == (True, 0, [])
    assert server.states.seen[before:] == [None], "it is counted as open no more"
    assert not api.of("/calls")


async def test_a_clock_that_is_set_back_makes_no_call_shorter_than_nothing(
    server: PhoneServer,
) -> None:
    call, serving = await server.connect()
    server.clock.now -= 60 * SECOND
    server.speakers[0].end_soon("caller_hung_up")
    await serving
    assert (await call_of(server, call.call_id)).duration_sec == 0


async def test_an_agent_that_is_stopped_refuses_calls_and_with_now_ends_those_that_run_side_by_side(
    memory: Database, api: Api
) -> None:
    server, other = pair(memory, api)
    serving: list[asyncio.Task[None]] = []
    for number in range(4):
        _, token = await server.ring(f"CA{number}")
        serving.append(await server.answer(token, f"CA{number}"))
    server.shop.is_running = other.shop.is_running = False
    with pytest.raises(AgentNotRunning):
        await other.ring("CA9")
    assert not any(task.done() for task in serving)
    await asyncio.wait_for(other.life.endings.end_all(agent_id="shop"), 60)
    await asyncio.gather(*serving)
    calls, _ = await other.calls.listed(REVIEWER).list()
    assert Counter(call.end_reason for call in calls) == {"draining": 4}


async def test_a_call_whose_agent_went_before_its_stream_ends_and_hangs_up(
    server: PhoneServer,
) -> None:
    call, token = await server.ring(None)
    server.shop.agent = None
    phone = NoPhone()
    await server.calls.serve(await server.calls.take(token, None), phone, None)  # type: ignore[arg-type]
    assert (phone.closed, (await call_of(server, call.call_id)).end_reason) == (True, "error")
    assert await server.calls.after(call.call_id) == FollowUp()
    assert server.slots.taken == 0


@pytest.mark.parametrize(
    ("over", "text"),
    [
        (CallOver("caller_hung_up"), ""),
        (CallOver("model_unreachable"), "We cannot take your call"),
        (CallOver("session_failed"), "We cannot take your call"),
        (CallOver("max_duration"), "Thank you"),
        (CallOver("max_duration", None, True), ""),
        (CallOver("transferred", "a destination that the document does not have"), ""),
    ],
)
async def test_what_the_caller_meets_after_the_stream_and_what_the_agents_health_knows(
    server: PhoneServer, over: CallOver, text: str
) -> None:
    call, serving = await server.connect()
    # it comes before the end is stored
    asked = asyncio.create_task(server.calls.after(call.call_id))
    await asyncio.sleep(0)
    server.speakers[0].over.set_result(over)
    after = await asked
    await serving
    assert after.destination is None
    assert text in after.text
    assert bool(text) == bool(after.text)
    assert server.shop.unreachable == (over.reason == "model_unreachable")
    assert await server.calls.after("no such call") == FollowUp()


async def test_calls_go_on_until_the_last_seconds_of_a_process_that_stops(
    memory: Database, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphrag.voice.call_slots.LAST_WORDS_S", 0.2)
    server = phone_server_on(memory, api, slots=CallSlots(50))
    _, serving = await server.connect()
    draining = asyncio.create_task(server.slots.drain(0.6))
    await until(lambda: server.slots.is_draining)
    assert not server.speakers[0].over.done()
    await asyncio.wait_for(draining, 60)
    await serving
    assert server.speakers[0].over.result() == CallOver("draining", None, True)
