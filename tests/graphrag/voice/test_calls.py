"""Telephone calls ring, are answered, end once and are forgotten, on each store and on several servers."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from datasources.base import Database
from datasources.errors import SourceUnavailable
from datasources.mock import MemoryDatabase
from datasources.record_kinds import RECORD_INDEXES
from graphrag.agents.errors import AgentNotFound, AgentNotRunning
from graphrag.roles import Person
from graphrag.voice import call_errors, call_feed
from graphrag.voice.call_after import AfterCall
from graphrag.voice.call_places import CallPlaces
from graphrag.voice.call_records import Call
from graphrag.voice.media_messages import StreamStart
from graphrag.voice.ringing_calls import HELD_S
from graphrag.voice.signals import CallOver
from tests.support.agent_life import Api, Killed, Sent, compiled, document
from tests.support.agents import EDITOR, REVIEWER, VIEWER
from tests.support.clock import Clock
from tests.support.phone_calls import CALLED, NUMBER, SID, NoPhone, PhoneServer, Speaker, phone_server_on
from tests.support.waiting import until
from tools.http.fetch import HttpAnswer

ADMIN = Person("ann", "admin", "default")
SECOND, DAY = 1_000, 86_400_000


def ids(sent: Sent) -> HttpAnswer:
    return HttpAnswer(status=201, value={"id": "c-7"}) if sent.method == "POST" else HttpAnswer(status=200)


@pytest.fixture
def api() -> Api:
    return Api(answers={"/calls": ids})


@pytest.fixture
def server(memory: Database, api: Api) -> PhoneServer:
    return phone_server_on(memory, api)


def pair(database: Database, api: Api, **more: Any) -> tuple[PhoneServer, PhoneServer]:
    clock = Clock()
    return tuple(phone_server_on(database, api, clock=clock, **more) for _ in range(2))  # type: ignore[return-value]


async def call_of(server: PhoneServer, call_id: str) -> Call:
    call = await server.calls.records.get(call_id)
    assert call is not None
    return call


def with_limit(most: int) -> Any:
    return compiled(document(limits={"max_calls": most}))


def blocking(message: str | None) -> Any:
    check = {"name": "black", "url": "{{base_url}}/blocked", "block_if": "$.blocked", "on_block": "hangup"}
    if message:
        check |= {"on_block": "message", "message": message}
    return compiled(document(pre_call_checks=[check]))


async def stored_text(database: Database) -> str:
    kinds = [*RECORD_INDEXES, "call"]
    found = [await database.records("default").query(kind, limit=1_000) for kind in kinds]
    return "\n".join(str(dict(record.data)) + record.key for records in found for record in records)


async def renewed(database: Database, call_id: str, clock: Clock) -> None:
    """Wait until the lease of a call is renewed since the clock was set."""
    async with asyncio.timeout(10):
        while True:
            record = await database.records("default").get("lease", f"turn/{call_id}")
            if record is not None and record.data["expiresTime"] >= clock() + 15 * SECOND:
                return
            await asyncio.sleep(0.01)


async def test_a_call_lives_from_webhook_to_end_and_is_forgotten(database: Database, api: Api) -> None:
    server, other = pair(database, api)
    call, token = await server.ring()
    assert (call.status, server.places.taken) == ("ringing", 1)
    server.clock.now += 2 * SECOND
    serving = await server.answer(token)
    assert (await call_of(server, call.call_id)).status == "active"
    with pytest.raises(call_errors.CallOpen):
        await other.calls.forget(call.call_id, ADMIN)
    server.clock.now += 30 * SECOND
    server.speakers[0].over.set_result(CallOver("transferred", "+33123456789", False))
    await serving
    await server.quiet()
    assert server.places.taken == 0

    assert [each.method for each in api.of("/calls")] == ["POST", "PATCH"]
    ended = api.of("/calls")[1].body
    assert (ended["outcome"], ended["reason"], ended["seconds"]) == ("info_only", "transferred", 30)
    whole = await other.calls.document(call.call_id, REVIEWER)
    assert (whole["status"], whole["endReason"], whole["outcome"]) == ("ended", "transferred", "info_only")
    assert (whole["durationSec"], whole["callerPhone"], whole["callSid"]) == (30, NUMBER, SID)
    assert whole["transcript"][0]["content"] == f"I am {NUMBER}."
    assert whole["flags"]["had_conversation"] is True
    assert "token" not in str(whole).lower()
    after = await other.calls.after(call.call_id)
    assert after.destination == "+33123456789"
    assert server.speakers[0].feed.messages[-1]["reason"] == "transferred"
    followed = [each["type"] async for each in other.calls.follow(call.call_id, REVIEWER)]
    assert followed == ["call:state", "call:said", "call:ended"]

    server.clock.now += 30 * DAY - 32 * SECOND
    await other.tick()
    assert NUMBER in await stored_text(database)
    server.clock.now += 33 * SECOND
    await other.tick()
    text = await stored_text(database)
    assert NUMBER not in text
    assert CALLED not in text
    assert SID not in text
    assert "+33123456789" not in text
    (kept,), cursor = await other.calls.listed(ADMIN).list()
    assert (kept.outcome, kept.duration_sec, kept.next_time, cursor) == ("info_only", 30, None, None)


async def test_a_webhook_twice_at_once_to_two_servers_is_one_call_and_stream(
    database: Database, api: Api
) -> None:
    servers = pair(database, api)
    begun = await asyncio.gather(*(server.ring() for server in servers for _ in range(2)))
    assert len({call.call_id for call, _ in begun}) == 1
    assert len(await servers[0].calls.records.open_calls()) == 1
    tokens = [token for _, token in begun]
    takers = [server.calls.take(token, SID) for token in tokens for server in servers]
    taken = await asyncio.gather(*takers, return_exceptions=True)
    assert Counter(type(each).__name__ for each in taken) == {"Call": 1, "StreamRefused": 7}
    with pytest.raises(call_errors.CallEnded):
        await servers[0].ring()


async def test_a_token_is_for_one_call_one_time_and_some_seconds(
    server: PhoneServer, memory: Database, api: Api
) -> None:
    elsewhere = phone_server_on(memory, api, clock=server.clock, workspace="other")
    call, token = await server.ring()
    forged = token[:-1] + ("A" if token[-1] != "A" else "B")
    for text in ("", "x", forged, token.replace("default", "other"), token + "A", "a." * 300):
        for each in (server, elsewhere):
            with pytest.raises(call_errors.StreamRefused):
                await each.calls.take(text, SID)
    with pytest.raises(call_errors.StreamRefused):
        await elsewhere.calls.take(token, SID)
    with pytest.raises(call_errors.StreamRefused):  # stolen: it is burned
        await server.calls.take(token, "CA" + "6" * 32)
    with pytest.raises(call_errors.StreamRefused):
        await server.calls.take(token, SID)
    assert await server.calls.after(call.call_id) == AfterCall()
    assert (await call_of(server, call.call_id)).end_reason == "line_lost"
    _, late = await server.ring("CA2")
    server.clock.now += 15 * SECOND
    with pytest.raises(call_errors.StreamRefused):
        await server.calls.take(late, "CA2")
    _, talk = await server.ring(None)
    server.clock.now += 59 * SECOND
    await (await server.answer(talk, "browser-1") and asyncio.sleep(0))
    server.speakers[-1].end_soon("caller_hung_up")


async def test_no_more_calls_than_an_agent_and_a_process_may_have(database: Database, api: Api) -> None:
    servers = pair(database, api, agent=with_limit(3), most=50)
    begun = await asyncio.gather(*(servers[i % 2].ring(f"CA{i}") for i in range(8)), return_exceptions=True)
    rung = [each for each in begun if isinstance(each, tuple)]
    assert all(isinstance(each, tuple | call_errors.CallsFull) for each in begun)
    assert 1 <= len(rung) <= 3
    assert len(await servers[0].calls.records.open_calls()) == len(rung)
    for number in range(3 - len(rung)):
        await servers[0].ring(f"CB{number}")
    with pytest.raises(call_errors.CallsFull):
        await servers[0].ring("CC")
    assert sum(server.places.taken for server in servers) == 3
    servers[0].clock.now += 22 * SECOND  # no stream came: others find room before anybody looked
    await servers[1].ring("CD")
    assert sum(server.places.taken for server in servers) == 1
    await servers[1].tick()
    assert [call.call_sid for call in await servers[0].calls.records.open_calls()] == ["CD"]


async def test_a_full_or_stopping_process_refuses_and_lets_calls_say_goodbye(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, most=1)
    _, token = await server.ring()
    with pytest.raises(call_errors.CallsFull):
        await server.ring("CA2")
    serving = await server.answer(token)
    server.places.is_draining = True
    draining = asyncio.create_task(server.places.drain(0))
    await asyncio.gather(serving, draining, return_exceptions=True)
    await server.quiet()
    (call,), _ = await server.calls.listed(REVIEWER).list()
    assert (call.status, call.end_reason) == ("ended", "draining")
    with pytest.raises(call_errors.CallsFull):
        await server.ring("CA3")


async def test_a_call_that_does_not_leave_is_cut_when_the_process_stops(
    server: PhoneServer, api: Api
) -> None:
    call, serving = await server.connect()
    server.speakers[0].end_soon = lambda reason: None  # type: ignore[method-assign]
    await server.places.drain(0)
    assert serving.cancelled()
    await server.quiet()
    ended = await call_of(server, call.call_id)
    assert (ended.status, ended.end_reason) == ("ended", "draining")
    assert len(api.of("/calls")) == 2


@pytest.mark.parametrize("message", [None, "You owe us money, {{caller_phone}}."])
async def test_a_blocked_caller_leaves_a_record_and_nothing_is_owed(
    memory: Database, api: Api, message: str | None
) -> None:
    api.answers["/blocked"] = HttpAnswer(status=200, value={"blocked": True})
    server = phone_server_on(memory, api, agent=blocking(message))
    said = message.replace("{{caller_phone}}", NUMBER) if message else ""
    for _ in range(2):
        with pytest.raises(call_errors.CallBlocked) as blocked:
            await server.ring()
        assert (blocked.value.message, blocked.value.language) == (said, "en-US")
        assert blocked.value.text("en") == (said or "the assistant is not available to you")
    assert len(api.of("/blocked")) == 1
    (call,), _ = await server.calls.listed(REVIEWER).list()
    assert (call.status, call.end_reason, server.places.taken) == ("ended", "blocked", 0)
    talk, token = await server.ring(None)
    phone = NoPhone()
    await server.calls.serve(await server.calls.take(token, None), phone, None)  # type: ignore[arg-type]
    assert (phone.closed, (await call_of(server, talk.call_id)).end_reason) == (True, "blocked")
    assert await server.life.deliveries.list() == []
    assert server.openings == []
    await server.calls.forget(call.call_id, ADMIN)
    assert (await call_of(server, call.call_id)).refusal is None


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
    dying.records.is_dead = True
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    other.clock.now += 21 * SECOND
    await other.tick()
    ended = await call_of(other, call.call_id)
    assert (ended.status, ended.end_reason, ended.outcome) == ("ended", "lost", "info_only")
    other.clock.now += 3_600 * SECOND
    await other.tick()
    assert {each.key for each in api.sent if each.method == "PATCH"} == {f"{call.call_id}:on_end"}
    assert {each.status for each in await other.life.deliveries.list()} == {"done"}


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_any_write_a_call_ends_once_on_another_server(api: Api, after: bool) -> None:
    ends, died = Counter[str | None](), True
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
    await memory.records("default").delete("lease", record.key, expected_version=record.version or "")
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
        await asyncio.wait_for(serving, 5)
        assert (await call_of(other, call.call_id)).end_reason == "ended_by_person"
        with pytest.raises(call_errors.CallEnded):
            await ends.calls.end(call.call_id, REVIEWER)
    ringing, _ = await server.ring("CA9")
    assert (await other.calls.end(ringing.call_id, REVIEWER)).status == "ended"


async def test_a_call_ended_before_its_stream_is_held_is_held_by_nobody(memory: Database, api: Api) -> None:
    server, other = pair(memory, api)
    call, token = await server.ring()
    taken, phone = await server.calls.take(token, SID), NoPhone()
    ended = await other.calls.end(call.call_id, REVIEWER)
    assert (ended.status, ended.end_reason) == ("ended", "lost")
    start = StreamStart(stream_id="MZ1", call_sid=SID, token=token)
    states: list[str | None] = []
    watch = server.calls.parts.watch
    watch.state = lambda call_id, agent_id, status: states.append(status)  # type: ignore[method-assign]
    await asyncio.wait_for(server.calls.serve(taken, phone, start), 5)
    assert (phone.closed, server.places.taken, server.speakers) == (True, 0, [])
    assert states == [None], "it is counted as open no more"
    assert not api.of("/calls")


async def test_a_webhook_twice_at_once_takes_its_agents_one_place_once(memory: Database, api: Api) -> None:
    server = phone_server_on(memory, api, agent=with_limit(1))
    first, _ = await server.ring()
    looks = iter([None])

    async def before_the_first_was_stored(call_id: str) -> Call | None:
        return next(looks, await read(call_id))

    read, server.calls.records.get = server.calls.records.get, before_the_first_was_stored
    second, token = await server.ring()
    assert (second.call_id, server.places.taken) == (first.call_id, 1)
    serving = await server.answer(token)
    server.speakers[0].end_soon("caller_hung_up")
    await serving


async def test_a_clock_that_is_set_back_makes_no_call_shorter_than_nothing(server: PhoneServer) -> None:
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
    await asyncio.wait_for(other.life.endings.end_all_of("shop"), 5)
    await asyncio.gather(*serving)
    calls, _ = await other.calls.listed(REVIEWER).list()
    assert Counter(call.end_reason for call in calls) == {"draining": 4}


async def test_who_may_see_end_and_forget_calls(server: PhoneServer, memory: Database, api: Api) -> None:
    call, _ = await server.ring()
    mine, _ = await server.ring(None, user_id=EDITOR.user_id)
    stranger = Person("ann", "admin", "other")
    for person in (VIEWER, EDITOR):
        with pytest.raises(call_errors.CallForbidden):
            await server.calls.get(call.call_id, person)
        with pytest.raises(call_errors.CallForbidden):
            server.calls.listed(person)
    assert (await server.calls.get(mine.call_id, EDITOR)).user_id == EDITOR.user_id
    await server.calls.end(mine.call_id, EDITOR)
    with pytest.raises(call_errors.CallForbidden):
        await server.calls.forget(mine.call_id, REVIEWER)
    with pytest.raises(call_errors.CallNotFound):
        await server.calls.get(call.call_id, stranger)
    with pytest.raises(AgentNotFound):
        await server.calls.begin("shop2", call_sid="CA2")
    only_chat = phone_server_on(memory, api, agent=compiled(document(channels=["chat"])))
    with pytest.raises(call_errors.AgentInChatOnly):
        await only_chat.ring("CA3")


async def test_lists_of_calls_go_on_also_within_one_millisecond(database: Database, api: Api) -> None:
    server = phone_server_on(database, api, agent=with_limit(100))
    for number in range(12):
        server.clock.now += SECOND * (number % 3 == 0)
        await server.ring(f"CA{number}")
    whole, _ = await server.calls.listed(REVIEWER).list()
    assert len(whole) == 12
    found: list[str] = []
    cursor = None
    while True:
        page, cursor = await server.calls.listed(REVIEWER).list(limit=5, cursor=cursor)
        found += [call.call_id for call in page]
        if cursor is None:
            break
    assert found == [call.call_id for call in whole]
    since, _ = await server.calls.listed(REVIEWER).list(
        since=server.clock.now, status="ringing", agent_id="shop"
    )
    assert len(since) == 3
    assert (await server.calls.listed(REVIEWER).list(outcome="ordered"))[0] == []


async def test_what_was_got_ready_for_a_call_is_left_when_no_stream_comes(
    memory: Database, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(HELD_S, "phone", -0.95)
    server = phone_server_on(memory, api)
    await server.ring()
    await until(lambda: server.openings[0].is_closed)


@pytest.mark.parametrize("starts", [60, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_no_place_leaks_over_starts_with_faults(memory: Database, api: Api, starts: int) -> None:
    server = phone_server_on(memory, api, agent=with_limit(20), most=20)
    choose, write, failing = random.Random(7), server.records._write, [False]  # pyright: ignore[reportPrivateUsage]

    async def faulty(made: Any) -> Any:
        if failing[0] and choose.random() < 0.2:
            raise SourceUnavailable(source="x", reason="out of order")
        return await write(made)

    server.records._write = faulty  # type: ignore[method-assign]

    def ends(speaker: Speaker) -> None:
        if choose.random() < 0.2:
            speaker.over.set_exception(RuntimeError("the bridge broke"))
        else:
            speaker.end_soon("caller_hung_up")

    server.on_serving = ends

    async def one(number: int) -> None:
        failing[0] = choose.random() < 0.3
        try:
            _, token = await server.ring(f"CA{number}")
            if choose.random() < 0.3:
                return  # no stream comes
            call = await server.calls.take(token, f"CA{number}")
            await server.calls.serve(call, NoPhone(), None)  # type: ignore[arg-type]
        except (call_errors.CallsFull, call_errors.StreamRefused, SourceUnavailable):
            server.clock.now += 5 * SECOND

    for first in range(0, starts, 10):
        await asyncio.gather(*(one(number) for number in range(first, first + 10)))
        server.clock.now += choose.randrange(3) * SECOND
    failing[0] = False
    for _ in range(20):
        server.clock.now += 60 * SECOND
        await server.tick()
    assert server.places.taken == 0
    assert await server.calls.records.open_calls() == []
    calls, _ = await server.calls.listed(REVIEWER).list(limit=2_000)
    assert len(calls) > starts // 10
    assert len({call.end_reason for call in calls}) >= 3


async def test_a_call_whose_agent_went_before_its_stream_ends_and_hangs_up(server: PhoneServer) -> None:
    call, token = await server.ring(None)
    server.shop.agent = None
    phone = NoPhone()
    await server.calls.serve(await server.calls.take(token, None), phone, None)  # type: ignore[arg-type]
    assert (phone.closed, (await call_of(server, call.call_id)).end_reason) == (True, "error")
    assert await server.calls.after(call.call_id) == AfterCall()
    assert server.places.taken == 0


@pytest.mark.parametrize(
    ("over", "text"),
    [
        (CallOver("caller_hung_up"), ""),
        (CallOver("model_unreachable"), "We cannot take your call"),
        (CallOver("session_failed"), "We cannot take your call"),
        (CallOver("max_duration"), "Thank you"),
        (CallOver("max_duration", None, True), ""),
        (CallOver("transferred", "sip:a@b.example"), ""),
    ],
)
async def test_what_the_caller_meets_after_the_stream_and_what_the_agents_health_knows(
    server: PhoneServer, over: CallOver, text: str
) -> None:
    call, serving = await server.connect()
    asked = asyncio.create_task(server.calls.after(call.call_id))  # it comes before the end is stored
    await asyncio.sleep(0)
    server.speakers[0].over.set_result(over)
    after = await asked
    await serving
    assert after.destination == over.destination
    assert text in after.text
    assert bool(text) == bool(after.text)
    assert server.shop.unreachable == (over.reason == "model_unreachable")
    assert await server.calls.after("no such call") == AfterCall()


async def test_calls_go_on_until_the_last_seconds_of_a_process_that_stops(
    memory: Database, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphrag.voice.call_places.LAST_WORDS_S", 0.2)
    server = phone_server_on(memory, api)
    server.places = server.calls.places = CallPlaces(50)
    _, serving = await server.connect()
    draining = asyncio.create_task(server.places.drain(0.6))
    await asyncio.sleep(0.1)
    assert server.places.is_draining
    assert not server.speakers[0].over.done()
    await asyncio.wait_for(draining, 10)
    await serving
    assert server.speakers[0].over.result() == CallOver("draining", None, True)


async def test_a_follower_goes_on_after_the_store_was_away_and_after_being_too_slow(
    memory: Database, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_feed, "LOOK_S", 0.02)
    server = phone_server_on(memory, api)
    call, serving = await server.connect()
    server.speakers[0].feed.add({"type": "call:state", "status": "active"})  # then it is let go
    failures = iter([False, True])
    read = server.calls.records.get

    async def now_and_then(call_id: str) -> Call | None:
        if next(failures, False):
            raise SourceUnavailable(source="test", reason="away")
        return await read(call_id)

    followed: list[dict[str, Any]] = []
    server.calls.records.get = now_and_then
    async with asyncio.timeout(10):
        async for message in server.calls.follow(call.call_id, REVIEWER):
            followed.append(message)
            if len(followed) == 3:
                server.speakers[0].end_soon("caller_hung_up")
                await serving
    kinds = [each["type"] for each in followed]
    assert kinds == ["call:state", "call:state", "call:said", "call:state", "call:ended"]
