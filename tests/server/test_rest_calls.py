"""The record of tool calls: what was called and what became of it, for admins of the workspace alone."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.commands import run_command
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import served
from tests.support.service import GRAPH, service


async def test_an_admin_sees_the_last_calls_of_their_workspaces_and_nobody_else_any() -> None:
    same = call("read_graph_overview")
    calls = [same, call("read_graph_overview"), call("made_up"), call("read_node_detail", {"key": "nowhere"})]
    with ScriptedProvider(Says(calls=calls, cut=[call("search_nodes", '{"que')]), "Done.") as model:
        async with (
            service(model) as running,
            running.as_() as ed,
            running.as_("ad", "admin") as admin,
            running.as_("other", "admin", "elsewhere") as stranger,
        ):
            asked = await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "look"})
            found = (await admin.get("/api/tool-calls")).json()["calls"]
            assert (await ed.get("/api/tool-calls")).status_code == 403
            assert (await stranger.get("/api/tool-calls")).json() == {"calls": []}
            narrowed = await admin.get("/api/tool-calls", params={"workspace": "elsewhere"})
            assert narrowed.json() == {"calls": []}
    outcomes = [(one["tool"], one["outcome"], one.get("error")) for one in reversed(found)]
    assert outcomes == [
        ("read_graph_overview", "ok", None),
        ("read_graph_overview", "duplicate", None),
        ("made_up", "error", "unknown_tool"),
        ("read_node_detail", "error", "not_found"),
        ("search_nodes", "cut", "malformed_arguments"),
    ]
    assert {(one["threadId"], one["turn"], one["round"]) for one in found} == {
        (asked.json()["threadId"], 1, 1)
    }
    assert found[-1]["ms"] > 0
    assert "nowhere" not in str(found), "arguments are not kept"


@pytest.mark.slow
async def test_the_record_keeps_two_hundred_calls_and_doctor_prints_it() -> None:
    reads = [Says(calls=[call("search_nodes", {"query": f"{r}.{i}"}) for i in range(10)]) for r in range(5)]
    script = [step for _ in range(5) for step in (*reads, "Done.")]
    with ScriptedProvider(*script) as model:
        async with service(model, rate_limit=0) as running, running.as_("ad", "admin") as admin:
            for _ in range(5):
                await admin.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "look"})
            assert len((await admin.get("/api/tool-calls")).json()["calls"]) == 200
    with ScriptedProvider(Says(calls=[call("read_graph_overview")]), "Done.") as model:
        async with served(model, auth_secret=None) as running:
            shown = await asyncio.to_thread(run_command, "doctor", "--calls", "--url", running.address)
            assert "No tool was called" in shown.output
            place = await running.state.workspace("default")
            events = place.agent.run(None, GRAPH, "look", place.services.local_person())
            assert [event async for event in events]
            shown = await asyncio.to_thread(run_command, "doctor", "--calls", "--url", running.address)
    assert shown.exit_code == 0
    assert "read_graph_overview" in shown.output
    assert "1.1" in shown.output
