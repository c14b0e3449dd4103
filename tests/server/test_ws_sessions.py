"""A client that asks for it sees where runs of automations stand, and each change of them."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.base import Record
from graphrag.agent.thread_store import StoredThread, Threads
from graphrag.automations import automation_store
from graphrag.automations.drafts import AutomationDraft
from graphrag.roles import Person
from graphrag.sessions.machine import SessionEvent
from graphrag.sessions.phases import EndReason, EventName
from server.change_feed import SessionFeed
from server.ws_outbox import ClientGone, Outbox, OutboxLimits, encode
from tests.support.automations import MINUTE, finish, night_of
from tests.support.clock import MONDAY
from tests.support.log_entries import check_entry
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE
from tests.support.waiting import until
from tests.support.ws_server import GRAPH, Client, answered_ws, token, ws_server

OWNER = Person("ed", "editor", "default")
DRAFT = {"graphKey": GRAPH, "name": "Nightly", "message": "Look.", "cron": "0 2 * * *"}


async def subscribed(client: Client, **fields: Any) -> None:
    await client.send("ai:sessions", _id=80, **fields)
    await client.until("ai:sessions", 80)


async def test_a_run_is_seen_by_who_may_see_it_until_it_ends() -> None:
    async with (
        answered_ws(automations_at_once=0) as (owner, server, _),
        server.client(token("rev", "reviewer")) as reviewer,
        server.client(token("olga")) as other,
        server.client(token("ed", "admin", "elsewhere")) as stranger,
    ):
        workspace = await server.app.state.server.workspace("default")
        service = workspace.automations
        await subscribed(owner)
        await subscribed(reviewer, graphKey=GRAPH)
        await subscribed(other)
        await subscribed(stranger)
        view = await service.add(AutomationDraft.read(DRAFT), OWNER)
        run = await service.run(view.id, OWNER)
        for client in (owner, reviewer):
            state = await client.until("ai:session_state", 80)
            assert (state["sessionId"], state["phase"]) == (run.key, "idle")
            assert state["automationId"] == view.id
        await service.sessions.stop(run.key, OWNER)
        async with asyncio.timeout(60):
            state = await owner.until("ai:session_state", 80)
        assert (state["phase"], state["endReason"]) == ("completed", "CANCELLED")
        for client in (other, stranger):
            await client.send("__ping__", _id=81)
            assert (await client.read())["type"] == "__pong__", (
                "nothing of others' runs came before it"
            )


async def test_the_phases_of_a_conversation_are_seen_by_its_person_alone() -> None:
    held = asyncio.Event()
    asked = call("ask_person", {"type": "Validation", "data": {"message": "Both?"}})
    steps = [
        Says(text="Let me see.", held=held, calls=[call("propose_update_node", CHANGE)]),
        Says(calls=[asked]),
        "Then not.",
    ]
    async with (
        answered_ws(*steps) as (owner, server, _),
        server.client(token()) as watching,
        server.client(token("rev", "reviewer")) as reviewer,
    ):
        feed = (await server.app.state.server.workspace("default")).sessions
        feed.look_s = 0.02
        await subscribed(watching)
        await subscribed(reviewer)

        async def seen(phase: str, waits_for: str | None) -> str:
            """Reads up to a phase, past those of work under way; returns the conversation."""
            while True:
                state = await watching.until("ai:session_state", 80)
                assert (state["kind"], state["graphKey"]) == ("chat", GRAPH)
                if state["phase"] == phase:
                    assert state.get("waiting", {}).get("type") == waits_for
                    return state["sessionId"]
                assert state["phase"] in ("calling_ai", "executing_data_queries")

        await owner.send("ai:chat", _id=1, graphKey=GRAPH, message="go", features=["questions"])
        thread_id = await seen("calling_ai", None)
        held.set()
        assert (await owner.turn(1))[-1]["threadId"] == thread_id
        await seen("waiting_validation", "validation")
        again = {"threadId": thread_id, "features": ["questions"]}
        await owner.talk("ai:resume", _id=2, approved=False, **again)
        await seen("waiting_communication_response", "communication")
        await owner.talk("ai:answer", _id=3, threadId=thread_id, response=False)
        await seen("idle", None)
        await reviewer.send("__ping__", _id=81)
        assert (await reviewer.read())["type"] == "__pong__", "conversations of others are private"


async def test_a_look_reads_what_changed_and_not_what_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with night_of(ScriptedProvider()) as night:
        for number in range(30):
            made = await night.automation(name=str(number), cron=None)
            await night.automations.claim(await night.stored(made), MONDAY, trigger="manual")
        feed = SessionFeed(night.automations, Threads(night.automations.records))
        reads = list[int]()
        feed.look_s = 3_600.0  # only the first look is its own
        read = automation_store.read_thread

        def counted(record: Record) -> StoredThread:
            reads.append(1)
            return read(record)

        monkeypatch.setattr(automation_store, "read_thread", counted)
        async with aclosing(feed.changes()) as changes:
            first = await anext(changes)
            assert len(first) == len(reads) == 30
            night.clock.now += MINUTE
            assert not await feed.see()  # from here on it looks at what changed a minute later
            reads.clear()
            assert not await feed.see()
            assert not reads
            stored = await night.automations.session(first[0].document["sessionId"])
            ended = SessionEvent(name=EventName.SESSION_COMPLETED, reason=EndReason.CANCELLED)
            await night.worker.runner.events.apply(stored.thread.key, ended)
            reads.clear()
            assert await feed.see()
            assert len(reads) == 1
            (change,) = await anext(changes)
            assert change.document["phase"] == "completed"


async def test_a_run_is_followed_live_by_who_may_see_it_from_its_beginning() -> None:
    held = asyncio.Event()
    look = Says(text="Let me look. ", calls=[call("search_nodes", {"query": "fetch"})])
    async with (
        answered_ws(look, Says(text="Found", held=held), finish()) as (owner, server, _),
        server.client(token("rev", "reviewer")) as reviewer,
        server.client(token("olga")) as other,
        server.client(token("ed", "admin", "elsewhere")) as stranger,
    ):
        service = (await server.app.state.server.workspace("default")).automations
        view = await service.add(AutomationDraft.read(DRAFT), OWNER)
        run = await service.run(view.id, OWNER)
        await owner.send("ai:follow", _id=7, threadId=run.key)
        begun = await owner.until("ai:follow_turn", 7)
        assert begun == {"type": "ai:follow_turn", "_id": 7, "threadId": run.key, "here": True}
        result = await owner.until("ai:tool_result", 7)
        assert "fetch" in result["result"]
        while (await owner.until("ai:token", 7))["token"] != "Found":
            pass
        await reviewer.send("ai:follow", _id=8, threadId=run.key)  # late
        assert (await reviewer.until("ai:tool_start", 8))["toolName"] == "search_nodes"
        assert (await other.ask("ai:follow", _id=9, threadId=run.key))["code"] == "forbidden"
        assert (await stranger.ask("ai:follow", _id=9, threadId=run.key))["code"] == "not_found"
        refused = await owner.ask("ai:interrupt", _id=10, threadId=run.key)
        assert refused["code"] == "not_found", "a run is stopped as a run"
        held.set()
        for client, number in ((owner, 7), (reviewer, 8)):
            assert (await client.turn(number))[-1]["threadId"] == run.key


SECRET = "Where do the secret players go?"


def named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the one event of a name; its level and fields must be those of the table."""
    (entry,) = [entry for entry in entries if entry["event"] == name]
    check_entry(entry)
    return entry


async def test_a_conversation_with_interrupt_resume_and_a_client_that_leaves_is_logged(
    log_entries: list[dict[str, Any]],
) -> None:
    steps = [
        Says(calls=[call("propose_update_node", CHANGE)]),
        Says(text="half", held=asyncio.Event()),
    ]
    async with ScriptedProvider(*steps) as model, ws_server(model) as server:
        async with server.client(token()) as client:
            thread = (await client.talk("ai:chat", _id=1, graphKey=GRAPH, message=SECRET))[-1][
                "threadId"
            ]
            await client.send("ai:resume", _id=2, threadId=thread, approved=True)
            await client.until("ai:token", 2)
        await until(lambda: not len(server.app.state.server.activity.turns))
    began = named(log_entries, "ws_chat")  # of a new conversation, too
    session = began["sessionId"]
    assert session
    assert began["threadId"] == thread
    resumed = named(log_entries, "ws_resume")
    left = named(log_entries, "client_disconnect_abort")
    assert (resumed["sessionId"], resumed["threadId"]) == (session, thread)
    assert (left["sessionId"], left["threadId"], left["tokensStreamed"]) == (session, thread, 1)
    waits = named(log_entries, "hitl_interrupt")
    assert (waits["sessionId"], waits["threadId"], waits["tool"]) == (
        session,
        thread,
        "propose_update_node",
    )
    assert "secret players" not in str(log_entries)


async def test_a_usage_limit_that_refuses_a_message_is_logged_with_its_session_and_thread(
    log_entries: list[dict[str, Any]],
) -> None:
    async with answered_ws(max_total_tokens=100) as (client, _, _):
        refused = (await client.talk("ai:chat", _id=1, graphKey=GRAPH, message=SECRET))[-1]
    assert (refused["type"], refused["code"]) == ("ai:error", "rate_limit")
    limit = named(log_entries, "usage_limit")
    assert (limit["limit"], limit["allowed"]) == ("total_tokens", 100)
    assert limit["threadId"] == refused["details"]["threadId"]
    assert limit["sessionId"] == named(log_entries, "ws_chat")["sessionId"]


messages = st.lists(
    st.one_of(
        st.builds(
            lambda i, t: {"type": "ai:token", "_id": i, "token": t},
            st.integers(1, 2),
            st.text(max_size=20),
        ),
        st.builds(lambda n: {"type": "other", "n": n}, st.integers()),
    ),
    max_size=40,
)


def unmerged(read: list[dict[str, Any]]) -> list[Any]:
    """What was said, with neighbouring pieces of one answer as one."""
    found: list[Any] = []
    for message in read:
        if message["type"] != "ai:token":
            found.append(message)
        elif found and isinstance(found[-1], tuple) and found[-1][0] == message["_id"]:
            found[-1] = (message["_id"], found[-1][1] + message["token"])
        else:
            found.append((message["_id"], message["token"]))
    return found


@given(messages, st.integers(1, 5), st.integers(1, 300), st.integers(0, 3))
def test_everything_arrives_in_order_and_what_waits_is_bounded(
    sent: list[dict[str, Any]], count: int, chars: int, slow: int
) -> None:
    async def play() -> list[str]:
        taken: list[str] = []
        largest = max((len(encode(message)) for message in sent), default=0)

        async def send(text: str) -> None:
            for _ in range(slow):
                await asyncio.sleep(0)
            assert box.chars <= max(chars, largest) + largest
            taken.append(text)

        box = Outbox(send, OutboxLimits(messages=count, chars=chars))
        running = asyncio.create_task(box.run())
        for message in sent:
            await box.put(message)
        await box.close()
        await running
        return taken

    taken = [json.loads(text) for text in asyncio.run(play())]
    assert unmerged(taken) == unmerged([json.loads(encode(message)) for message in sent])


async def test_a_put_waits_for_room_and_fails_when_the_client_is_gone() -> None:
    stuck = asyncio.Event()

    async def send(text: str) -> None:
        await stuck.wait()

    box = Outbox(send, OutboxLimits(chars=40, patience_s=0.05))
    running = asyncio.create_task(box.run())
    await box.put({"type": "a", "text": "x" * 100})
    waiting = asyncio.create_task(box.put({"type": "b"}))
    with pytest.raises(ClientGone) as gone:
        await running
    assert gone.value.waited_s == 0.05
    with pytest.raises(ClientGone):
        await waiting
    with pytest.raises(ClientGone):
        await box.put({"type": "c"})


def test_what_json_does_not_know_is_sent_as_near_as_can_be() -> None:
    assert json.loads(encode({"a": "half \ud800 pair", "n": 2**80})) == {
        "a": "half ? pair",
        "n": 2**80,
    }
