"""A token that expires on an open connection: its owner is sent nothing until signed in again."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.approvals import Approve, Person
from server.turns import TurnLog
from server.ws import WsOptions
from server.ws_ai import AiLimits
from tests.server.test_ws_ai import chat, propose
from tests.server.test_ws_sync import apply, move, register
from tests.support.chosen_database import address_in
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.ws_server import GRAPH, Client, Running, answered_ws, token, ws_server

SOON_S = 2.0
"""At least a second, for a token's time is in whole seconds."""


async def expired(client: Client) -> dict[str, Any]:
    result = await client.until("authResult")
    assert not result["success"]
    assert "expired" in result["error"]
    return result


def edits(client: Client) -> list[dict[str, Any]]:
    return [m for m in client.seen if m["type"] == "applyInstructionToGraph" and "_id" not in m]


async def sign_in(client: Client, by: str) -> dict[str, Any]:
    return await client.ask("authenticate", _id=99, token=by)


async def test_an_expired_token_ends_what_it_gave_access_to_until_its_owner_signs_in_again() -> (
    None
):
    async with (
        ws_server(auth_leeway_s=0) as server,
        server.client(token("a")) as a,
        server.client(token("b", lasts_s=SOON_S)) as b,
    ):
        await register(a)
        await register(b)
        await apply(a, move("root", 1))
        await b.until("applyInstructionToGraph")
        await expired(b)
        await apply(a, move("root", 2))
        refused = await apply(b, move("root", 3))
        assert (refused["type"], refused["success"]) == ("authResult", False)
        assert not (await sign_in(b, token("c")))["success"]
        assert len(edits(b)) == 1
        assert (await sign_in(b, token("b")))["success"]
        left = await apply(b, move("root", 3))
        assert "registerUserOnGraph" in left["_response"]["message"]
        await register(b)
        await apply(a, move("root", 4))
        assert (await b.until("applyInstructionToGraph"))["instructions"] == [move("root", 4)]
        assert not (await sign_in(b, token("b", lasts_s=-60)))["success"]
        assert await b.closed() == 4001


@pytest.mark.slow
async def test_who_does_not_sign_in_again_is_closed() -> None:
    quick = WsOptions(sign_in_s=0.05)
    async with (
        ws_server(auth_leeway_s=0, options=quick) as server,
        server.client(token(lasts_s=SOON_S)) as client,
    ):
        await expired(client)
        assert await client.closed() == 4002


@pytest.mark.slow
async def test_who_signs_in_before_their_token_expires_misses_nothing() -> None:
    async with (
        ws_server(auth_leeway_s=0) as server,
        server.client(token("a", lasts_s=SOON_S)) as a,
        server.client(token("b", lasts_s=SOON_S)) as b,
    ):
        await register(a)
        await register(b)
        assert (await sign_in(a, token("a")))["success"]
        await expired(b)
        assert (await apply(a, move("root", 5)))["_response"]["status"]
        assert "authResult" not in [m["type"] for m in a.seen[-1:]]


async def test_a_newer_token_without_the_workspace_leaves_the_graph() -> None:
    async with (
        ws_server() as server,
        server.client(token("a")) as a,
        server.client(token("b")) as b,
    ):
        await register(a)
        await register(b)
        assert (await sign_in(b, token("b", "editor", "elsewhere")))["success"]
        await apply(a, move("root", 5))
        assert "registerUserOnGraph" in (await apply(b, move("root", 6)))["_response"]["message"]
        assert not edits(b)


@pytest.mark.slow
async def test_an_answer_under_way_is_stopped_and_stored_when_the_token_expires() -> None:
    held = asyncio.Event()
    with ScriptedProvider(Says(text="One.", held=held), "Two.") as model:
        async with ws_server(model, auth_leeway_s=0) as server:
            async with server.client(token(lasts_s=SOON_S)) as client:
                await client.send("ai:chat", _id=1, graphKey=GRAPH, message="hello")
                await client.until("ai:token", 1)
                await expired(client)
                held.set()
                end = (await client.turn(1))[-1]
                assert (end["type"], end["code"]) == ("ai:error", "auth_error")
            async with server.client(token()) as client:
                [thread] = await threads(server)
                assert (await chat(client, 2, threadId=thread))[-1]["fullText"] == "Two."


async def threads(server: Running) -> list[str]:
    services = await server.state.services("default")
    return [thread.key for thread in await services.threads.list(Person("ed", "editor", "default"))]


@pytest.mark.slow
async def test_a_decision_after_the_token_expired_is_not_sent() -> None:
    quick = WsOptions(ai=AiLimits(poll_s=0.02))
    with ScriptedProvider(propose(), "Done.") as model:
        async with (
            ws_server(model, auth_leeway_s=0, options=quick) as server,
            server.client(token(lasts_s=SOON_S)) as client,
        ):
            pending = json.loads((await chat(client, 1))[-1]["fullText"])
            await expired(client)
            services = await server.state.services("default")
            person = Person("rev", "reviewer", "default")
            await services.approvals.decide(pending["approvals"][0]["id"], Approve(), person)
            assert (await client.until("ai:error", 1))["code"] == "auth_error"
            assert not [m for m in client.seen if m["type"] == "ai:apply_action"]
            model.play_instead()


LOOK = Says(text="Let me look. ", calls=[call("search_nodes", {"query": "fetch"})])


async def test_a_second_connection_receives_the_question_and_the_whole_turn() -> None:
    with ScriptedProvider("One.", LOOK, Says(pieces=["Two", "."])) as model:
        async with (
            ws_server(model) as server,
            server.client(token()) as one,
            server.client(token()) as two,
        ):
            thread = (await chat(one, 1))[-1]["threadId"]
            await two.send("ai:follow", _id=7, threadId=thread)
            assert (await two.read())["type"] == "ai:following"
            received = await one.talk(
                "ai:chat", _id=2, graphKey=GRAPH, message="and now?", threadId=thread
            )
            begun = await two.read()
            seen = await two.turn(7)
    assert (begun["type"], begun["message"], begun["here"]) == ("ai:follow_turn", "and now?", True)
    kinds = ["ai:tool_start", "ai:tool_result", "ai:usage", "ai:complete"]
    for kind in kinds:
        mine = [{**m, "_id": 0} for m in received if m["type"] == kind]
        assert [{**m, "_id": 0} for m in seen if m["type"] == kind] == mine
    text = "".join(m["token"] for m in seen if m["type"] == "ai:token")
    assert (
        text
        == "".join(m["token"] for m in received if m["type"] == "ai:token")
        == "Let me look. Two."
    )


async def test_a_late_connection_receives_the_turn_from_its_beginning() -> None:
    held = asyncio.Event()
    async with (
        answered_ws(Says(text="So far", held=held)) as (one, server, _),
        server.client(token()) as two,
    ):
        await one.send("ai:chat", _id=1, graphKey=GRAPH, message="hello")
        await one.until("ai:token", 1)
        (turn,) = server.app.state.server.activity.turns.all()
        await two.send("ai:follow", _id=3, threadId=turn.wire.thread_id)
        await two.until("ai:follow_turn", 3)
        assert (await two.read())["token"] == "So far"
        held.set()
        assert (await two.turn(3))[-1]["fullText"] == "So far"


async def test_a_turn_whose_client_goes_away_ends_for_who_looks_on() -> None:
    async with answered_ws(Says(text="So far", held=asyncio.Event())) as (two, server, _):
        async with server.client(token()) as one:
            await one.send("ai:chat", _id=1, graphKey=GRAPH, message="hello")
            await one.until("ai:token", 1)
            (turn,) = server.app.state.server.activity.turns.all()
            await two.send("ai:follow", _id=3, threadId=turn.wire.thread_id)
            await two.until("ai:token", 3)
        assert (await two.until("ai:follow_end", 3))["threadId"] == turn.wire.thread_id


async def test_nobody_follows_the_conversation_of_somebody_else() -> None:
    async with answered_ws("One.") as (one, server, _):
        thread = (await chat(one, 1))[-1]["threadId"]
        for who in (token("b"), token("ed", "admin", "elsewhere")):
            async with server.client(who) as other:
                refused = await other.ask("ai:follow", _id=1, threadId=thread)
                assert refused["code"] == "not_found"


async def test_a_refused_question_is_not_shown_to_who_looks_on() -> None:
    held = asyncio.Event()
    async with (
        ScriptedProvider("One.", Says(text="Two.", held=held)) as model,
        AsyncExitStack() as stack,
    ):
        server = await stack.enter_async_context(ws_server(model))
        one, two, three = [
            await stack.enter_async_context(server.client(token())) for _ in range(3)
        ]
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
    async with (
        ScriptedProvider("One.", Says(text="Two.", held=held)) as model,
        AsyncExitStack() as stack,
    ):
        a = await stack.enter_async_context(ws_server(model, db=address_in(file)))
        b = await stack.enter_async_context(ws_server(db=address_in(file), options=quick))
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


PARTS = st.lists(
    st.one_of(st.text(max_size=3), st.sampled_from(["ai:tool_start", "ai:usage"])), max_size=20
)


@given(parts=PARTS, looks=st.lists(st.booleans(), min_size=20, max_size=20))
def test_a_log_is_read_whole_in_its_order_however_it_is_read(
    parts: list[str], looks: list[bool]
) -> None:
    async def read() -> list[str]:
        log = TurnLog()
        seen: list[str] = []

        async def reading() -> None:
            async for message in log.read():
                seen.append(message.get("token", message["type"]))

        task = asyncio.create_task(reading())
        for part, waits in zip(parts, looks, strict=False):
            log.add(
                {"type": part} if part.startswith("ai:") else {"type": "ai:token", "token": part}
            )
            if waits:
                await asyncio.sleep(0)
        log.end()
        await task
        return seen

    assert "".join(asyncio.run(read())) == "".join(parts), json.dumps(parts)
