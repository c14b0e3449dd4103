"""Another connection follows a turn: it receives the messages of that turn, and of no other."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from server.turns import TurnLog
from server.ws import WsOptions
from server.ws_ai import AiLimits
from tests.server.test_ws_ai import chat
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.ws_server import GRAPH, token, ws_server

LOOK = Says(text="Let me look. ", calls=[call("search_nodes", {"query": "fetch"})])


async def test_a_second_connection_receives_the_question_and_the_whole_turn() -> None:
    with ScriptedProvider("One.", LOOK, Says(pieces=["Two", "."])) as model:
        async with ws_server(model) as server, server.client(token()) as one, server.client(token()) as two:
            thread = (await chat(one, 1))[-1]["threadId"]
            await two.send("ai:follow", _id=7, threadId=thread)
            assert (await two.read())["type"] == "ai:following"
            await one.send("ai:chat", _id=2, graphKey=GRAPH, message="and now?", threadId=thread)
            received = await one.turn(2)
            begun = await two.read()
            seen = await two.turn(7)
    assert (begun["type"], begun["message"], begun["here"]) == ("ai:follow_turn", "and now?", True)
    kinds = ["ai:tool_start", "ai:tool_result", "ai:usage", "ai:complete"]
    for kind in kinds:
        mine = [{**m, "_id": 0} for m in received if m["type"] == kind]
        assert [{**m, "_id": 0} for m in seen if m["type"] == kind] == mine
    text = "".join(m["token"] for m in seen if m["type"] == "ai:token")
    assert text == "".join(m["token"] for m in received if m["type"] == "ai:token") == "Let me look. Two."


async def test_a_late_connection_receives_the_turn_from_its_beginning() -> None:
    held = asyncio.Event()
    with ScriptedProvider(Says(text="So far", held=held)) as model:
        async with ws_server(model) as server, server.client(token()) as one, server.client(token()) as two:
            await one.send("ai:chat", _id=1, graphKey=GRAPH, message="hello")
            await one.until("ai:token", 1)
            (turn,) = server.app.state.server.turns.all()
            await two.send("ai:follow", _id=3, threadId=turn.wire.thread_id)
            await two.until("ai:follow_turn", 3)
            assert (await two.read())["token"] == "So far"
            held.set()
            assert (await two.turn(3))[-1]["fullText"] == "So far"


async def test_a_turn_whose_client_goes_away_ends_for_who_looks_on() -> None:
    with ScriptedProvider(Says(text="So far", held=asyncio.Event())) as model:
        async with ws_server(model) as server, server.client(token()) as two:
            async with server.client(token()) as one:
                await one.send("ai:chat", _id=1, graphKey=GRAPH, message="hello")
                await one.until("ai:token", 1)
                (turn,) = server.app.state.server.turns.all()
                await two.send("ai:follow", _id=3, threadId=turn.wire.thread_id)
                await two.until("ai:token", 3)
            assert (await two.until("ai:follow_end", 3))["threadId"] == turn.wire.thread_id


async def test_nobody_follows_the_conversation_of_somebody_else() -> None:
    with ScriptedProvider("One.") as model:
        async with ws_server(model) as server, server.client(token()) as one:
            thread = (await chat(one, 1))[-1]["threadId"]
            for who in (token("b"), token("ed", "admin", "elsewhere")):
                async with server.client(who) as other:
                    refused = await other.ask("ai:follow", _id=1, threadId=thread)
                    assert refused["code"] == "not_found"


async def test_a_refused_question_is_not_shown_to_who_looks_on() -> None:
    held = asyncio.Event()
    with ScriptedProvider("One.", Says(text="Two.", held=held)) as model:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(ws_server(model))
            one, two, three = [await stack.enter_async_context(server.client(token())) for _ in range(3)]
            thread = (await chat(one, 1))[-1]["threadId"]
            await three.send("ai:follow", _id=9, threadId=thread)
            await three.read()
            await one.send("ai:chat", _id=2, graphKey=GRAPH, message="first", threadId=thread)
            await one.until("ai:token", 2)
            assert (await chat(two, 1, threadId=thread))[-1]["code"] == "busy"
            held.set()
            assert (await three.read())["message"] == "first"
            assert (await three.turn(9))[-1]["fullText"] == "Two."
            await three.send("ai:follow", _id=10, threadId="")
            await three.send("__ping__")
            assert (await three.read())["type"] == "__pong__"


async def test_a_turn_at_another_server_is_announced_once(file: Path) -> None:
    held = asyncio.Event()
    quick = WsOptions(ai=AiLimits(look_s=0.02))
    with ScriptedProvider("One.", Says(text="Two.", held=held)) as model:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(ws_server(model, db=f"sqlite:{file}"))
            b = await stack.enter_async_context(ws_server(db=f"sqlite:{file}", options=quick))
            at_a = await stack.enter_async_context(a.client(token()))
            at_b = await stack.enter_async_context(b.client(token()))
            thread = (await chat(at_a, 1))[-1]["threadId"]
            await at_b.send("ai:follow", _id=1, threadId=thread)
            await at_b.read()
            await at_a.send("ai:chat", _id=2, graphKey=GRAPH, message="more", threadId=thread)
            assert (await at_b.until("ai:follow_turn", 1))["here"] is False
            held.set()
            await at_a.turn(2)
            await at_b.send("__ping__")
            assert (await at_b.read())["type"] == "__pong__"


PARTS = st.lists(st.one_of(st.text(max_size=3), st.sampled_from(["ai:tool_start", "ai:usage"])), max_size=20)


@given(parts=PARTS, looks=st.lists(st.booleans(), min_size=20, max_size=20))
def test_a_log_is_read_whole_in_its_order_however_it_is_read(parts: list[str], looks: list[bool]) -> None:
    async def read() -> list[str]:
        log = TurnLog()
        seen: list[str] = []

        async def reading() -> None:
            async for message in log.read():
                seen.append(message.get("token", message["type"]))

        task = asyncio.create_task(reading())
        for part, waits in zip(parts, looks, strict=False):
            log.add({"type": part} if part.startswith("ai:") else {"type": "ai:token", "token": part})
            if waits:
                await asyncio.sleep(0)
        log.end()
        await task
        return seen

    assert "".join(asyncio.run(read())) == "".join(parts), json.dumps(parts)
