"""Conversations with agents begin, end once whichever server finds it, and their API gets what
it is owed.
"""

import asyncio
from pathlib import Path

import pytest

from datasources.base import Database
from datasources.mock import MemoryDatabase
from graphrag.agent.thread_store import StoredThread, ThreadBusy, ThreadNotFound
from graphrag.agents.errors import DeliveryNotFound, DeliveryRefused
from tests.support.agent_life import SECOND, Api, Killed, Sent, Server, server_on
from tests.support.agents import EDITOR, VIEWER
from tests.support.automations import DAY, HOUR, MINUTE
from tests.support.chosen_database import database_in
from tests.support.clock import Clock
from tests.support.waiting import until
from tools.http.fetch import HttpAnswer, RequestFailed

IDLE = 1_800 * SECOND
DOWN = RequestFailed("unreachable")
CALLS = {"POST": HttpAnswer(status=201, value={"id": "c-7"}), "PATCH": HttpAnswer(status=200)}


def ids(sent: Sent) -> HttpAnswer:
    return CALLS[sent.method]


@pytest.fixture
def api() -> Api:
    return Api(answers={"/calls": ids})


async def begun(database: Database, api: Api) -> tuple[Server, StoredThread]:
    server = server_on(database, api)
    stored = await server.begin()
    await server.quiet()
    return server, stored


async def test_a_conversation_lives_from_first_message_to_idle_end(
    database: Database, api: Api
) -> None:
    server = server_on(database, api)
    stored = await server.begin(caller_phone="+33612345678")
    await server.quiet()
    part = await server.part(stored)
    assert part.instructions == "You sell. Today is 2025-11-24."
    assert part.ctx["had_conversation"] is True
    (started,) = api.sent
    assert started.body == {
        "agent": "shop",
        "phone": "+33612345678",
        "startedAt": "2025-11-24T00:00:00Z",
    }
    server.clock.now += 90 * SECOND
    await server.say(stored, "Is it\nopen?", "Yes.")
    server.clock.now = part.idle_time - 1
    await server.tick()
    assert (await server.part(stored)).is_open
    server.clock.now += 1
    await server.tick()
    part = await server.part(stored)
    assert (part.end_reason, part.outcome, part.ctx["call_id"]) == ("idle", "info_only", "c-7")
    _, note, end = api.sent
    assert note.body == {"callId": "c-7", "content": "Caller: Is it open?\nAssistant: Yes."}
    said = [
        {"role": "user", "content": "Is it\nopen?", "timestamp": "2025-11-24T00:01:30Z"},
        {"role": "assistant", "content": "Yes.", "timestamp": "2025-11-24T00:01:30Z"},
    ]
    assert end.body == {
        "id": "c-7",
        "outcome": "info_only",
        "reason": "idle",
        "seconds": 1800,
        "transcript": said,
    }
    assert [each.key for each in api.sent] == [
        f"{stored.thread.key}:{event}" for event in ("on_start", "on_no_action", "on_end")
    ]
    assert len(await server.life.deliveries.list(agent_id="shop")) == 3
    assert not await server.life.deliveries.list(agent_id="other")
    assert await server.life.endings.end(stored.thread.key, "ended_by_person") is None
    server.clock.now += 2 * DAY
    await server.tick()
    assert len(api.sent) == 3


async def test_flags_decide_the_outcome_and_what_is_owed(memory: Database, api: Api) -> None:
    server, stored = await begun(memory, api)
    await server.say(stored, "One.", "Ordered.", order_placed=True, should_hangup=True)
    await server.tick()  # who hung up is not waited for
    part = await server.part(stored)
    assert (part.end_reason, part.outcome) == ("agent_hung_up", "ordered")
    assert [each.path for each in api.sent] == ["/calls", "/calls"]


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_conversation_killed_at_any_write_ends_once_and_owes_nothing_in_the_end(
    kind: str, after: bool, tmp_path: Path
) -> None:
    """Every write of a life, from the first message to the last delivery, is the last
    of its process.
    """
    at = 0
    while True:
        at += 1
        opened = MemoryDatabase() if kind == "memory" else database_in(tmp_path / f"{at}.db")
        async with opened as database:
            api = Api(answers={"/calls": ids})
            clock = Clock()
            dying = server_on(database, api, clock=clock, dies_at=at, after=after)
            key = None
            try:
                stored = await dying.begin()
                key = stored.thread.key
                await dying.quiet()
                await dying.say(stored, "Hello.", "Good day.")
                await dying.life.endings.end(key, "ended_by_person")
                await dying.quiet()
            except Killed:
                pass
            await dying.life.deliveries.close()
            was_killed = dying.records.is_dead
            other = server_on(database, api, clock=clock)
            for _ in range(3):
                clock.now += IDLE
                await other.tick()
            threads = await database.records("default").query("thread", {"agentOpen": False})
            if not threads:
                assert was_killed
                assert api.sent == []  # there was no conversation yet
                continue
            (thread,) = threads
            assert key in (None, thread.key)
            assert thread.data["agent"]["endReason"] in ("ended_by_person", "idle")
            found = await other.deliveries(thread.key)
            assert {each.status for each in found.values()} == {"done"}, f"killed at write {at}"
            keys = {each.key for each in api.sent}
            assert keys == {
                f"{thread.key}:{event}" for event in ("on_start", "on_no_action", "on_end")
            }
            assert len(api.sent) <= 4  # one of them twice, at most
            (end,) = {repr(each.body) for each in api.sent if each.method == "PATCH"}
            assert "c-7" in end
            if not was_killed:
                break
    print(f"{at - 1} kills")
    assert at > 8


async def test_of_two_servers_that_find_an_end_one_stores_and_sends_it(
    database: Database, api: Api
) -> None:
    clock = Clock()
    servers = [server_on(database, api, clock=clock) for _ in range(2)]
    stored = await servers[0].begin()
    await servers[0].quiet()
    clock.now += IDLE
    ends = await asyncio.gather(
        *(each.life.endings.end(stored.thread.key, "idle") for each in servers),
        return_exceptions=True,
    )
    assert (
        len([each for each in ends if each is not None and not isinstance(each, ThreadBusy)]) == 1
    )
    await asyncio.gather(*(each.life.deliveries.send_due() for each in servers))
    for each in servers:
        await each.quiet()
    await asyncio.gather(*(each.tick() for each in servers))
    assert sorted(each.key.partition(":")[2] for each in api.sent) == [
        "on_end",
        "on_no_action",
        "on_start",
    ]


async def test_what_an_api_is_owed_while_down_arrives_later_with_its_key(
    memory: Database, api: Api
) -> None:
    api.answers = {"/calls": DOWN, "/messages": DOWN}
    server, stored = await begun(memory, api)
    waits: list[int] = []
    for _ in range(7):
        delivery = (await server.deliveries())["on_start"]
        waits.append((delivery.next_time - server.clock.now) // SECOND)
        server.clock.now = delivery.next_time
        await server.life.deliveries.send_due()
    assert waits == [1, 5, 30, 120, 600, 3600, 3600]
    assert {each.key for each in api.sent} == {f"{stored.thread.key}:on_start"}
    await server.life.endings.end(stored.thread.key, "ended_by_person")
    await server.quiet()
    api.answers = {"/calls": ids}
    server.clock.now += HOUR
    await server.tick()
    server.clock.now += 10 * MINUTE
    await server.tick()
    assert {each.status for each in (await server.deliveries()).values()} == {"done"}
    assert api.sent[-1].body["id"] == "c-7"


async def test_a_delivery_ends_after_a_day_and_is_sent_again_by_a_person(
    memory: Database, api: Api
) -> None:
    api.answers = {"/calls": HttpAnswer(status=503)}
    server, stored = await begun(memory, api)
    since = server.clock.now
    while (delivery := (await server.deliveries())["on_start"]).status == "waiting":
        server.clock.now = delivery.next_time
        await server.life.deliveries.send_due()
    assert delivery.status == "expired"
    assert 22 * HOUR < server.clock.now - since <= DAY
    assert (delivery.http_status, delivery.error) == (503, "refused_by_server")
    api.answers = {"/calls": ids}
    assert (await server.life.deliveries.retry(delivery.id)).status == "waiting"
    await server.quiet()
    assert (await server.deliveries())["on_start"].status == "done"
    with pytest.raises(DeliveryRefused):
        await server.life.deliveries.retry(delivery.id)
    with pytest.raises(DeliveryNotFound):
        await server.life.deliveries.retry("no-such:on_end")
    server.clock.now += 31 * DAY
    await server.life.deliveries.send_due()
    assert "on_start" not in await server.deliveries(stored.thread.key)


@pytest.mark.parametrize(
    ("status", "becomes"),
    [
        *((code, "done") for code in (200, 204, 299, 409)),
        *((code, "refused") for code in (400, 401, 403, 404, 405, 422)),
        *((code, "waiting") for code in (302, 408, 425, 429, 500, 502, 503)),
    ],
)
async def test_the_status_of_an_answer_says_what_becomes_of_a_delivery(
    memory: Database, api: Api, status: int, becomes: str
) -> None:
    api.answers = {"/calls": HttpAnswer(status=status, value={"id": "c-1"})}
    server = server_on(memory, api)
    await server.begin()
    await server.quiet()
    delivery = (await server.deliveries())["on_start"]
    assert (delivery.status, delivery.http_status, delivery.attempts) == (becomes, status, 1)
    assert delivery.stored == ({"call_id": "c-1"} if 200 <= status < 300 else {})


async def test_the_end_waits_a_minute_for_the_beginning_then_goes_without(
    memory: Database, api: Api
) -> None:
    api.answers = {"/calls": lambda sent: DOWN if sent.method == "POST" else CALLS["PATCH"]}
    server, stored = await begun(memory, api)
    await server.life.endings.end(stored.thread.key, "ended_by_person")
    await server.quiet()
    for _ in range(11):
        server.clock.now += 5 * SECOND
        await server.tick()
    assert {each.method for each in api.of("/calls")} == {"POST"}
    server.clock.now += 5 * SECOND
    await server.tick()
    assert "id" not in api.of("/calls")[-1].body
    assert (await server.deliveries())["on_end"].status == "done"


async def test_what_the_beginning_gave_is_waited_for_by_who_needs_it(
    memory: Database, api: Api
) -> None:
    api.held = {"/calls": asyncio.Event()}
    server = server_on(memory, api)
    stored = await server.begin()
    first = server.life.deliveries.first_values
    assert await first(stored.thread.key) is None
    waiting = asyncio.create_task(first(stored.thread.key, wait_ms=10_000))
    await until(lambda: api.of("/calls"))
    assert not waiting.done()
    api.held["/calls"].set()
    assert await waiting == {"call_id": "c-7"}


async def test_idleness_ends_no_running_turn_and_a_person_stops_it(
    memory: Database, api: Api
) -> None:
    server, stored = await begun(memory, api)
    key = stored.thread.key
    server.clock.now += IDLE
    leases = server.life.endings._parts.leases
    async with leases.held(key):
        await server.life.endings.end_idle()
        assert (await server.part(stored)).is_open
        with pytest.raises(ThreadBusy):
            await server.life.endings.end(key, "ended_by_person")
        ending = asyncio.create_task(server.life.endings.end(key, "ended_by_person", stop=True))
        holder = None
        while holder is None or not holder.data.get("unwanted"):
            await asyncio.sleep(0.01)
            holder = await leases.holder(key)
    assert (await ending) is not None
    assert (await server.part(stored)).end_reason == "ended_by_person"


async def test_a_deleted_conversation_ends_first_and_its_api_gets_its_due(
    memory: Database, api: Api
) -> None:
    server = server_on(memory, api)
    stored = await server.begin()
    key = stored.thread.key
    with pytest.raises(ThreadNotFound):
        await server.life.endings.forget(key, VIEWER)
    await server.life.endings.forget(key, EDITOR)
    assert [each.key.partition(":")[2] for each in api.sent] == [
        "on_start",
        "on_no_action",
        "on_end",
    ]
    with pytest.raises(ThreadNotFound):
        await server.part(stored)


async def test_conversations_end_with_their_agent_or_their_graph(
    memory: Database, api: Api
) -> None:
    server = server_on(memory, api)
    for _ in range(3):
        await server.begin()
    await server.quiet()
    assert await server.life.endings.end_all(agent_id="another") == 0
    assert await server.life.endings.end_all(agent_id="shop") == 3
    assert len(api.of("/messages")) == 3  # sent before the agent is gone
    stored = await server.begin()
    await server.quiet()
    server.shop.agent = None
    server.clock.now += IDLE
    await server.tick()
    part = await server.part(stored)
    assert (part.end_reason, part.outcome) == ("idle", None)
    assert set(await server.deliveries(stored.thread.key)) == {"on_start"}
