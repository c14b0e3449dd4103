"""A token that expires on an open connection: its owner is sent nothing until signed in again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from graphrag.approvals import Approve, Person
from server.ws import WsOptions
from server.ws_ai import AiLimits
from tests.server.test_ws_ai import chat, propose
from tests.server.test_ws_sync import apply, move, register
from tests.support.scripted_provider import Says, ScriptedProvider
from tests.support.ws_server import GRAPH, Client, Running, token, ws_server

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


async def test_an_expired_token_ends_what_it_gave_access_to_until_its_owner_signs_in_again() -> None:
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
    async with ws_server() as server, server.client(token("a")) as a, server.client(token("b")) as b:
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
