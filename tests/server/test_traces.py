"""How an answer came about is noted beside its conversation, for its owner and admins; and who used what."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from datasources.base import Record
from graphrag.agent import turn_trace
from graphrag.agent.turn_trace import KIND, TURNS, Traces, TurnTrace
from graphrag.app.databases import open_database
from tests.support.each_row import each_row
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, call
from tests.support.service import GRAPH, service

READS = Says(calls=[call("get_node_detail", {"node_key": "fetch-api"})])
CHANGES = Says(
    calls=[
        call(
            "propose_update_node",
            {"nodeKey": "fetch-api", "changes": {"data.name": "Players"}, "reason": "r"},
        )
    ]
)


async def test_a_turn_is_traced_over_its_wait_and_seen_by_owner_and_admins_alone() -> None:
    with ScriptedProvider(READS, CHANGES, "Done.") as model:
        async with service(model) as running, running.as_() as ed, running.as_("al", "admin") as admin:
            asked = {"graphKey": GRAPH, "message": "Rename the fetching, please"}
            waits = (await ed.post("/api/ai/chat", json=asked)).json()
            path = f"/api/ai/thread/{waits['threadId']}"
            await ed.post("/api/ai/resume", json={"threadId": waits["threadId"], "approved": True})
            traced = await ed.get(f"{path}/trace")
            [turn] = traced.json()["turns"]
            spans = turn["spans"]
            names = [span["operation"] for span in spans]
            assert names == [
                *("embeddings", "retrieval", "chat", "execute_tool", "chat", "execute_tool", "invoke_agent"),
                *("chat", "invoke_agent"),
            ]
            [found] = [span["attributes"] for span in spans if span["operation"] == "retrieval"]
            assert found["query"] == asked["message"]
            assert found["nodes"][0]["score"] > 0
            assert found["nodes"][0]["reasons"]
            assert spans[5]["attributes"]["approvalId"] == waits["approvals"][0]["id"]
            assert spans[2]["attributes"]["inputTokens"] > 0
            assert turn["context"][0]["role"] == "system"
            assert asked["message"] in turn["context"][-1]["text"]
            assert (await admin.get(f"{path}/trace")).json() == traced.json()
            for user, workspace in (("eve", "default"), ("eve", "other")):
                async with running.as_(user, "reviewer", workspace) as other:
                    assert (await other.get(f"{path}/trace")).status_code == 404
            async with running.as_("sam", "admin", "other") as stranger:
                assert (await stranger.get(f"{path}/trace")).status_code == 404
                assert (await stranger.get("/api/usage?by=person")).json()["groups"] == []
            for by, name in (
                ("person", "ed"),
                ("graph", GRAPH),
                ("day", time.strftime("%Y-%m-%d", time.gmtime())),
            ):
                [group] = (await admin.get("/api/usage", params={"by": by})).json()["groups"]
                assert (group["name"], group["calls"]) == (name, 3)
                assert group["totalTokens"] > 0
            assert (await ed.get("/api/usage?by=person")).status_code == 403
            await ed.delete(path)
            records = running.state.shared.database.records("default")
            assert await records.query(KIND) == []


@each_row("days", [0, 30])
async def test_nothing_is_noted_where_it_is_switched_off(days: int) -> None:
    with ScriptedProvider("Hello.") as model:
        async with service(model, trace_days=days) as running, running.as_() as ed:
            done = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "hi"})).json()
            path = f"/api/ai/thread/{done['threadId']}/trace"
            assert len((await ed.get(path)).json()["turns"]) == bool(days)


async def test_what_is_kept_is_bounded_by_count_age_and_size(db_url: str) -> None:
    async with open_database(db_url, "w") as database:
        await _bounded(database.records("w"))


async def _bounded(db_records: Any) -> None:
    traces, now = Traces(db_records, days=2), turn_trace.now_ms()
    facts = {"threadId": "t", "graphKey": "g", "userId": "u"}

    async def keep(turn: int, **more: Any) -> None:
        trace = TurnTrace(traces)
        for _ in range(1_000):
            trace.add("execute_tool", "x", 1.0)
        await traces.keep({**facts, "turn": turn, "time": now, **more}, trace)

    old = {**facts, "threadId": "old", "turn": 1, "time": now - 3 * turn_trace.DAY_MS, "spans": []}
    await db_records.put(Record(kind=KIND, key="old/000001", data=old), expected_version=None)
    for turn in range(1, TURNS + 4):
        await keep(turn)
    await keep(TURNS + 3)  # it waited, and went on
    turns = await traces.of_thread("t")
    assert [one["turn"] for one in turns] == list(range(4, TURNS + 4))
    assert {len(one["spans"]) for one in turns} == {turn_trace.MAX_SPANS}
    assert await traces.of_thread("old") == []
    assert len(await traces.chats(0, 10)) == 0
    chat = TurnTrace(traces)
    chat.add("chat", "chat m", 1.0, model="m")
    for number in range(21):
        more = {"threadId": f"c{number}", "turn": 2, "time": now + 1 + number // 3}
        await traces.keep({**facts, **more}, chat)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(turn_trace, "PAGE", 5)
        assert len(await traces.chats(now + 1, 10_000)) == 21
        assert len(await traces.chats(now + 1, 7)) == 7


async def test_of_a_conversation_that_is_deleted_while_it_is_answered_nothing_stays() -> None:
    held, is_asked = asyncio.Event(), asyncio.Event()

    def answer(_: Asked) -> Says:
        is_asked.set()
        return Says(text="Of numbats.", held=held)

    with ScriptedProvider(answer) as model:
        async with service(model) as running, running.as_() as ed:
            body = {"graphKey": GRAPH, "message": "What of the secret numbat?"}
            asking = asyncio.create_task(ed.post("/api/ai/chat", json=body))
            await asyncio.wait_for(is_asked.wait(), 5)
            [thread] = (await ed.post("/api/ai/threads", json={})).json()["threads"]
            assert (await ed.delete(f"/api/ai/thread/{thread['threadId']}")).status_code == 200
            held.set()
            await asking
            records = (await running.state.services("default")).approvals.records
            assert await records.query(KIND) == []


@pytest.fixture(params=["memory", "sqlite", "arango"])
def db_url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    urls = {"memory": "memory:", "sqlite": f"sqlite:{tmp_path / 'n.db'}"}
    return urls.get(request.param) or request.getfixturevalue("arango_address")
