"""A client that asks for it sees where runs of automations stand, and each change of them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from datasources.base import Record
from graphrag.agent.thread_store import StoredThread
from graphrag.automations import automation_store
from graphrag.automations.drafts import AutomationDraft
from graphrag.roles import Person
from graphrag.sessions.machine import EndReason, EventName, SessionEvent
from server.change_feed import RunFeed
from tests.support.automations import MINUTE, MONDAY, finish, night_of
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.ws_server import GRAPH, Client, token, ws_server

OWNER = Person("ed", "editor", "default")
DRAFT = {"graphKey": GRAPH, "name": "Nightly", "message": "Look.", "cron": "0 2 * * *"}


async def subscribed(client: Client, **fields: Any) -> None:
    await client.send("ai:sessions", _id=80, **fields)
    await client.until("ai:sessions", 80)


async def test_a_run_is_seen_by_who_may_see_it_until_it_ends() -> None:
    with ScriptedProvider() as model:
        async with (
            ws_server(model, automations_at_once=0) as server,
            server.client(token()) as owner,
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
            async with asyncio.timeout(4):
                state = await owner.until("ai:session_state", 80)
            assert (state["phase"], state["endReason"]) == ("completed", "CANCELLED")
            for client in (other, stranger):
                await client.send("__ping__", _id=81)
                assert (await client.read())["type"] == "__pong__", "nothing of others' runs came before it"


async def test_a_look_reads_what_changed_and_not_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with night_of(ScriptedProvider()) as night:
        for number in range(30):
            made = await night.automation(name=str(number), cron=None)
            await night.automations.claim(await night.stored(made), made, MONDAY, trigger="manual")
        feed, reads = RunFeed(night.automations), list[int]()
        feed.look_s = 0.01
        read = automation_store.read_thread

        def counted(record: Record) -> StoredThread:
            reads.append(1)
            return read(record)

        monkeypatch.setattr(automation_store, "read_thread", counted)
        async with aclosing(feed.changes()) as changes:
            first = await anext(changes)
            assert len(first) == len(reads) == 30
            night.clock.now += MINUTE
            await asyncio.sleep(0.05)
            reads.clear()
            await asyncio.sleep(0.05)
            assert not reads
            stored = await night.automations.session(first[0].document["sessionId"])
            ended = SessionEvent(name=EventName.SESSION_COMPLETED, reason=EndReason.CANCELLED)
            await night.worker.runner.events.apply(stored.thread.key, ended)
            (change,) = await anext(changes)
            assert change.document["phase"] == "completed"


async def test_a_run_is_followed_live_by_who_may_see_it_from_its_beginning() -> None:
    held = asyncio.Event()
    look = Says(text="Let me look. ", calls=[call("search_nodes", {"query": "fetch"})])
    with ScriptedProvider(look, Says(text="Found", held=held), finish()) as model:
        async with (
            ws_server(model) as server,
            server.client(token()) as owner,
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
