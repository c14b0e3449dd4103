"""The events that operators build on, in the log of a real conversation over the WebSocket."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.log_entries import check_entry
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE
from tests.support.ws_server import GRAPH, token, ws_server

SECRET = "Where do the secret players go?"


def named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the one event of a name; its level and fields must be those of the table."""
    (entry,) = [entry for entry in entries if entry["event"] == name]
    check_entry(entry)
    return entry


async def test_a_conversation_with_interrupt_resume_and_a_client_that_leaves_is_logged(
    log_entries: list[dict[str, Any]],
) -> None:
    steps = [Says(calls=[call("propose_update_node", CHANGE)]), Says(text="half", held=asyncio.Event())]
    with ScriptedProvider(*steps) as model:
        async with ws_server(model) as server:
            async with server.client(token()) as client:
                await client.send("ai:chat", _id=1, graphKey=GRAPH, message=SECRET)
                thread = (await client.turn(1))[-1]["threadId"]
                await client.send("ai:resume", _id=2, threadId=thread, approved=True)
                await client.until("ai:token", 2)
            async with asyncio.timeout(10):
                while len(server.app.state.server.turns):  # noqa: ASYNC110 - the server tells nobody
                    await asyncio.sleep(0.005)
    session = named(log_entries, "ws_chat")["sessionId"]
    assert session
    resumed, left = named(log_entries, "ws_resume"), named(log_entries, "client_disconnect_abort")
    assert (resumed["sessionId"], resumed["threadId"]) == (session, thread)
    assert (left["sessionId"], left["threadId"], left["tokensStreamed"]) == (session, thread, 1)
    waits = named(log_entries, "hitl_interrupt")
    assert (waits["sessionId"], waits["threadId"], waits["tool"]) == (session, thread, "propose_update_node")
    assert "secret players" not in str(log_entries)


async def test_a_usage_limit_that_refuses_a_message_is_logged_with_its_session_and_thread(
    log_entries: list[dict[str, Any]],
) -> None:
    with ScriptedProvider() as model:
        async with ws_server(model, max_total_tokens=100) as server, server.client(token()) as client:
            await client.send("ai:chat", _id=1, graphKey=GRAPH, message=SECRET)
            refused = (await client.turn(1))[-1]
    assert (refused["type"], refused["code"]) == ("ai:error", "rate_limit")
    limit = named(log_entries, "usage_limit")
    assert (limit["limit"], limit["allowed"]) == ("total_tokens", 100)
    assert limit["threadId"] == refused["details"]["threadId"]
    assert limit["sessionId"] == named(log_entries, "ws_chat")["sessionId"]
