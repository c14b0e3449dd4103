"""Telephone calls ring, are answered, end once and are forgotten, on each store
and on several servers.
"""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from datasources.base import Database
from datasources.errors import SourceUnavailable
from datasources.record_kinds import RECORD_INDEXES
from graphrag.agents.errors import AgentNotFound
from graphrag.bridge.signals import CallOver
from graphrag.roles import Person
from graphrag.voice import call_feed, errors
from graphrag.voice.call_records import Call
from graphrag.voice.follow_up import FollowUp
from graphrag.voice.incoming_calls import TOKEN_S
from tests.support.agent_life import Api, compiled, document
from tests.support.agents import REVIEWER
from tests.support.phone_calls import (
    CALLED,
    NUMBER,
    SECOND,
    SID,
    NoPhone,
    PhoneServer,
    Speaker,
    call_of,
    pair,
    phone_server_on,
    with_limit,
)
from tests.support.waiting import until
from tools.http.fetch import HttpAnswer

ADMIN = Person("ann", "admin", "default")
DAY = 86_400_000


def blocking(message: str | None) -> Any:
    check = {
        "name": "black",
        "url": "{{base_url}}/blocked",
        "block_if": "$.blocked",
        "on_block": "hangup",
    }
    if message:
        check |= {"on_block": "message", "message": message}
    return compiled(document(pre_call_checks=[check]))


async def stored_text(database: Database) -> str:
    kinds = [*RECORD_INDEXES, "call"]
    found = [await database.records("default").query(kind, limit=1_000) for kind in kinds]
    return "\n".join(str(dict(record.data)) + record.key for records in found for record in records)


async def test_a_call_lives_from_webhook_to_end_and_is_forgotten(
    database: Database, api: Api
) -> None:
    voice = {"destinations": {"sales": {"number": "+33123456789"}}}
    server, other = pair(database, api, agent=compiled(document(voice=voice)))
    call, token = await server.ring()
    assert (call.status, server.slots.taken) == ("ringing", 1)
    server.clock.now += 2 * SECOND
    serving = await server.answer(token)
    assert (await call_of(server, call.call_id)).status == "active"
    with pytest.raises(errors.CallOpen):
        await other.calls.forget(call.call_id, ADMIN)
    server.clock.now += 30 * SECOND
    server.speakers[0].over.set_result(CallOver("transferred", "sales", False))
    await serving
    assert server.slots.taken == 0
    after = await other.calls.after(call.call_id)
    assert after.destination == "+33123456789"
    assert server.speakers[0].feed.messages[-1]["status"] == "transferring"
    server.clock.now += 40 * SECOND
    report = {"DialCallStatus": "completed", "DialCallDuration": "40"}
    await other.calls.after_dial(
        call.call_id, agent_id="shop", tried=after.tried, number=after.number, report=report
    )
    await other.quiet()

    assert [each.method for each in api.of("/calls")] == ["POST", "PATCH"]
    ended = api.of("/calls")[1].body
    assert (ended["outcome"], ended["reason"], ended["seconds"]) == ("info_only", "transferred", 30)
    whole = await other.calls.document(call.call_id, REVIEWER)
    assert (whole["status"], whole["endReason"], whole["outcome"]) == (
        "ended",
        "transferred",
        "info_only",
    )
    assert (whole["durationSec"], whole["callerPhone"], whole["callSid"]) == (30, NUMBER, SID)
    assert whole["transcript"][0]["content"] == f"I am {NUMBER}."
    assert whole["flags"]["had_conversation"] is True
    assert "token" not in str(whole).lower()
    assert whole["transfers"][0]["seconds"] == 40
    followed = [each["type"] async for each in other.calls.follow(call.call_id, REVIEWER)]
    assert followed == ["call:state", "call:said", "call:ended"]

    server.clock.now += 30 * DAY - 72 * SECOND
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
    assert (kept.outcome, kept.duration_sec, kept.next_time, cursor) == (
        "info_only",
        30,
        None,
        None,
    )


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
    with pytest.raises(errors.CallEnded):
        await servers[0].ring()


async def test_a_token_is_for_one_call_one_time_and_some_seconds(
    server: PhoneServer, memory: Database, api: Api
) -> None:
    elsewhere = phone_server_on(memory, api, clock=server.clock, workspace="other")
    call, token = await server.ring()
    forged = token[:-1] + ("A" if token[-1] != "A" else "B")
    for text in ("", "x", forged, token.replace("default", "other"), token + "A", "a." * 300):
        for each in (server, elsewhere):
            with pytest.raises(errors.StreamRefused):
                await each.calls.take(text, SID)
    with pytest.raises(errors.StreamRefused):
        await elsewhere.calls.take(token, SID)
    with pytest.raises(errors.StreamRefused):  # stolen: it is burned
        await server.calls.take(token, "CA" + "6" * 32)
    with pytest.raises(errors.StreamRefused):
        await server.calls.take(token, SID)
    assert await server.calls.after(call.call_id) == FollowUp()
    assert (await call_of(server, call.call_id)).end_reason == "line_lost"
    _, late = await server.ring("CA2")
    server.clock.now += 15 * SECOND
    with pytest.raises(errors.StreamRefused):
        await server.calls.take(late, "CA2")
    _, talk = await server.ring(None)
    server.clock.now += 59 * SECOND
    await (await server.answer(talk, "browser-1") and asyncio.sleep(0))
    server.speakers[-1].end_soon("caller_hung_up")


async def test_no_more_calls_than_an_agent_and_a_process_may_have(
    database: Database, api: Api
) -> None:
    servers = pair(database, api, agent=with_limit(3), most=50)
    begun = await asyncio.gather(
        *(servers[i % 2].ring(f"CA{i}") for i in range(8)), return_exceptions=True
    )
    rung = [each for each in begun if isinstance(each, tuple)]
    assert all(isinstance(each, tuple | errors.CallsFull) for each in begun)
    assert 1 <= len(rung) <= 3
    assert len(await servers[0].calls.records.open_calls()) == len(rung)
    for number in range(3 - len(rung)):
        await servers[0].ring(f"CB{number}")
    with pytest.raises(errors.CallsFull):
        await servers[0].ring("CC")
    assert sum(server.slots.taken for server in servers) == 3
    servers[0].clock.now += 22 * SECOND  # no stream came: others find room before anybody looked
    await servers[1].ring("CD")
    assert sum(server.slots.taken for server in servers) == 1
    await servers[1].tick()
    assert [call.call_sid for call in await servers[0].calls.records.open_calls()] == ["CD"]


@pytest.mark.parametrize("message", [None, "You owe us money, {{caller_phone}}."])
async def test_a_blocked_caller_leaves_a_record_and_nothing_is_owed(
    memory: Database, api: Api, message: str | None
) -> None:
    api.answers["/blocked"] = HttpAnswer(status=200, value={"blocked": True})
    server = phone_server_on(memory, api, agent=blocking(message))
    said = message.replace("{{caller_phone}}", NUMBER) if message else ""
    for _ in range(2):
        with pytest.raises(errors.CallBlocked) as blocked:
            await server.ring()
        assert (blocked.value.message, blocked.value.language) == (said, "en-US")
        assert blocked.value.text("en") == (said or "the assistant is not available to you")
    assert len(api.of("/blocked")) == 1
    (call,), _ = await server.calls.listed(REVIEWER).list()
    assert (call.status, call.end_reason, server.slots.taken) == ("ended", "blocked", 0)
    talk, token = await server.ring(None)
    phone = NoPhone()
    await server.calls.serve(await server.calls.take(token, None), phone, None)  # type: ignore[arg-type]
    assert (phone.closed, (await call_of(server, talk.call_id)).end_reason) == (True, "blocked")
    assert await server.life.deliveries.list() == []
    assert server.openings == []
    await server.calls.forget(call.call_id, ADMIN)
    assert (await call_of(server, call.call_id)).refusal is None


async def test_a_webhook_twice_at_once_takes_its_agents_one_place_once(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, agent=with_limit(1))
    first, _ = await server.ring()
    looks = iter([None])

    async def before_the_first_was_stored(call_id: str) -> Call | None:
        return next(looks, await read(call_id))

    read = server.calls.records.get
    server.calls.records.get = before_the_first_was_stored
    second, token = await server.ring()
    assert (second.call_id, server.slots.taken) == (first.call_id, 1)
    serving = await server.answer(token)
    server.speakers[0].end_soon("caller_hung_up")
    await serving


async def test_what_was_got_ready_for_a_call_is_left_when_no_stream_comes(
    memory: Database, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TOKEN_S, "phone", -0.95)
    server = phone_server_on(memory, api)
    await server.ring()
    await until(lambda: server.openings[0].is_closed)


@pytest.mark.parametrize("starts", [60, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_no_place_leaks_over_starts_with_faults(
    memory: Database, api: Api, starts: int
) -> None:
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
            _, token = await server.ring(f"CA{number}", caller_phone=f"+3361234{number:04}")
            if choose.random() < 0.3:
                return  # no stream comes
            call = await server.calls.take(token, f"CA{number}")
            await server.calls.serve(call, NoPhone(), None)  # type: ignore[arg-type]
        except (errors.CallsFull, errors.StreamRefused, SourceUnavailable):
            server.clock.now += 5 * SECOND

    for first in range(0, starts, 10):
        await asyncio.gather(*(one(number) for number in range(first, first + 10)))
        server.clock.now += choose.randrange(3) * SECOND
    failing[0] = False
    for _ in range(20):
        server.clock.now += 60 * SECOND
        await server.tick()
    assert server.slots.taken == 0
    assert await server.calls.records.open_calls() == []
    calls, _ = await server.calls.listed(REVIEWER).list(limit=2_000)
    assert len(calls) > starts // 10
    assert len({call.end_reason for call in calls}) >= 3


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


async def test_only_agents_that_take_calls_are_rung(
    server: PhoneServer, memory: Database, api: Api
) -> None:
    with pytest.raises(AgentNotFound):
        await server.calls.begin("shop2", call_sid="CA2")
    only_chat = phone_server_on(memory, api, agent=compiled(document(channels=["chat"])))
    with pytest.raises(errors.AgentInChatOnly):
        await only_chat.ring("CA3")
