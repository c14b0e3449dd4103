"""Notices of a Node-RED server: what its WebSocket may send, and where it is reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from graphrag.connections.errors import EditorFault, EditorUnreachable
from graphrag.connections.node_red_notices import server_notices
from graphrag.connections.server_http import server_rules
from graphrag.connections.server_socket import MAX_MESSAGE_BYTES, server_socket

DEPLOYED = [{"topic": "notification/runtime-deploy", "data": {"revision": "abc"}}]


@asynccontextmanager
async def a_server(
    *messages: Any, answer: Callable[..., Response | None] | None = None
) -> AsyncGenerator[tuple[str, list[str]]]:
    """Yields the address of a server that sends messages, and what arrives there."""
    arrived: list[str] = []

    async def talk(socket: ServerConnection) -> None:
        for message in messages:
            await socket.send(message if isinstance(message, str) else json.dumps(message))
        async for text in socket:
            arrived.append(str(text))

    async with serve(talk, "127.0.0.1", 0, process_request=answer) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"http://127.0.0.1:{port}", arrived


async def first(address: str, count: int, *, token: str = "", is_private: bool = True) -> None:
    """Reads so many notices. Raises: EditorFault."""
    rules = server_rules(address, allow_private=is_private)
    async with (
        asyncio.timeout(30),
        server_socket(address, "/comms", rules, None) as socket,
        aclosing(server_notices(socket, token, address)) as notices,
    ):
        for _ in range(count):
            await anext(notices)


async def test_what_is_no_notice_is_passed_over() -> None:
    noise = ["not JSON", "[1, null, [", "3", {"topic": "hb", "data": 1}, [None, 4], {"topic": 5}]
    async with a_server(*noise, DEPLOYED) as (address, arrived):
        await first(address, 2)
    assert json.loads(arrived[0]) == {"subscribe": "notification/#"}


async def test_a_token_is_sent_once_and_its_refusal_told_without_it() -> None:
    async with a_server({"auth": "fail"}) as (address, arrived):
        with pytest.raises(EditorFault) as caught:
            await first(address, 1, token="a-token-0123456789")
        await asyncio.sleep(0)
    assert caught.value.is_about_key
    assert "a-token" not in str(caught.value)
    assert len(arrived) <= 1


async def test_a_message_that_is_too_large_ends_the_notices() -> None:
    async with a_server(DEPLOYED, "x" * (MAX_MESSAGE_BYTES + 1)) as (address, _):
        with pytest.raises(EditorUnreachable):
            await first(address, 3)


async def test_a_redirect_to_another_host_is_refused_and_nothing_arrives_there() -> None:
    async with a_server(DEPLOYED) as (elsewhere, arrived):

        def redirected(_: ServerConnection, request: Request) -> Response:
            headers = Headers({"Location": f"{elsewhere.replace('http', 'ws')}/comms"})
            return Response(HTTPStatus.FOUND, "Found", headers)

        async with a_server(answer=redirected) as (address, _):
            with pytest.raises(EditorUnreachable):
                await first(address, 1, token="a-token-0123456789")
    assert arrived == []


async def test_a_private_address_is_reached_by_an_administrators_word_alone() -> None:
    async with a_server(DEPLOYED) as (address, arrived):
        with pytest.raises(EditorFault) as caught:
            await first(address, 1, is_private=False)
    assert caught.value.code == "editor_private"
    assert arrived == []


async def test_a_server_that_is_gone_is_unreachable() -> None:
    async with a_server() as (address, _):
        pass
    with pytest.raises(EditorUnreachable):
        await first(address, 1)
