"""What callers hold before and after they have signed in is bounded for each, and
others are served.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from server import limits
from server.http_connections import ConnectionLimits
from server.limits import BODY_S, OF_ONE
from tests.support.scripted_provider import Asked, Says, ScriptedProvider
from tests.support.served import Served, served
from tests.support.service import GRAPH, token

IMPORT = "/api/graphs/import"
FEW = ConnectionLimits(of_address=8, header_s=60)


class Raw:
    """One connection on which a test writes bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, sent: bytes) -> None:
        self.writer.write(sent)
        await self.writer.drain()

    async def post(
        self, path: str, *, length: int, bearer: str | None = None, body: bytes = b""
    ) -> None:
        signed = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{signed}Content-Length: {length}\r\n\r\n"
        )
        await self.send(head.encode() + body)

    async def answered(self) -> bytes:
        """Return the head of the answer; empty where the connection was closed instead."""
        async with asyncio.timeout(30):
            try:
                return await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionResetError):
                return b""


@asynccontextmanager
async def raw(running: Served) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def client(running: Served, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(
        base_url=running.address, headers=headers, trust_env=False, timeout=30
    ) as made:
        yield made


async def test_a_body_is_not_read_before_its_sender_has_signed_in() -> None:
    async with served() as running, raw(running) as one:
        await one.post(IMPORT, length=10 << 20)
        assert b" 401 " in await one.answered()


async def test_a_refusal_reaches_a_sender_who_goes_on_sending() -> None:
    async with served() as running, client(running, Authorization="Bearer no") as stranger:
        answer = await stranger.post(IMPORT, content=b"x" * (5 << 20))
    assert answer.status_code == 401


async def test_half_a_header_is_closed_after_its_seconds_also_that_of_a_later_request() -> None:
    async with served() as running:
        running.state.activity.connections.limits = ConnectionLimits(header_s=0.2)
        async with raw(running) as first, raw(running) as later:
            await first.send(b"GET /healthz HTTP/1.1\r\nX-")
            await later.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b" 200 " in await later.answered()
            await later.send(b"GET /healthz HTTP/1.1\r\nX-")
            assert await first.answered() == b""
            assert await later.answered() == b""
        assert running.state.activity.connections.unsigned == 0


async def test_a_new_caller_is_answered_however_many_wait_with_half_a_header() -> None:
    async with served() as running, AsyncExitStack() as held:
        running.state.activity.connections.limits = FEW
        async with client(running) as early:
            assert (await early.get("/healthz")).status_code == 200
            waiting = [await held.enter_async_context(raw(running)) for _ in range(40)]
            for one in waiting:
                await one.send(b"GET /healthz HTTP/1.1\r\nX-")
            async with client(running) as new:
                assert (await new.get("/healthz")).status_code == 200
            assert (await early.get("/healthz")).status_code == 200
        assert await waiting[0].answered() == b""
        assert running.state.activity.connections.unsigned <= FEW.of_address


async def test_connections_of_all_addresses_are_bounded_and_those_of_a_proxy_are_not_one_address() -> (
    None
):
    async with served(forwarded_allow_ips="127.0.0.1") as running, AsyncExitStack() as held:
        running.state.activity.connections.limits = ConnectionLimits(of_address=2, in_all=6)
        for _ in range(20):
            await (await held.enter_async_context(raw(running))).send(
                b"GET /healthz HTTP/1.1\r\nX-"
            )
        async with client(running) as new:
            assert (await new.get("/healthz")).status_code == 200
        assert 2 < running.state.activity.connections.unsigned <= 6


async def test_a_stalled_body_is_refused_after_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BODY_S <= 30
    monkeypatch.setattr(limits, "BODY_S", 0.2)
    async with served() as running, raw(running) as one:
        await one.post(IMPORT, length=1000, bearer=token(), body=b"{")
        answer = await one.answered()
        assert b" 408 " in answer
        assert b"connection: close" in answer.lower()


async def test_bodies_that_one_person_holds_are_bounded_and_another_is_served() -> None:
    largest = 1024 * limits.IMPORT_FACTOR
    async with served(max_body_bytes=1024) as running, AsyncExitStack() as held:
        for _ in range(OF_ONE):
            one = await held.enter_async_context(raw(running))
            await one.post(IMPORT, length=largest, bearer=token("ed"), body=b" " * (largest - 1))
        last = await held.enter_async_context(raw(running))
        await last.post(IMPORT, length=largest, bearer=token("ed"), body=b" " * (largest - 1))
        answer = await last.answered()
        assert b" 503 " in answer
        assert b"retry-after" in answer.lower()
        async with client(running, Authorization=f"Bearer {token('ann')}") as ann:
            refused = await ann.post(IMPORT, content=b" " * (largest - 1))
        assert refused.json()["error"]["code"] == "unreadable"


async def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as running:
        async with raw(running) as one:
            await one.post(IMPORT, length=1000, bearer=token(), body=b"{")
        async with client(running) as other:  # by then the server knows that the first has left
            assert (await other.get("/healthz")).status_code == 200
    assert not [entry for entry in caplog.records if entry.levelname == "ERROR"]


async def test_sockets_without_sign_in_are_few_for_one_address_and_others_are_not_counted() -> None:
    async with served() as running, AsyncExitStack() as held:
        running.state.activity.connections.limits = FEW
        address = running.address.replace("http", "ws") + "/ws"
        signed = await held.enter_async_context(connect(address))
        await signed.send(json.dumps({"type": "authenticate", "token": token(), "_id": 1}))
        assert '"success":true' in str(await signed.recv()).replace(" ", "")
        sockets = [
            await held.enter_async_context(connect(address)) for _ in range(FEW.of_address + 3)
        ]
        with pytest.raises(ConnectionClosed):
            await sockets[0].recv()
        await signed.send('{"type": "__ping__"}')
        assert "__pong__" in str(await signed.recv())
        assert running.state.activity.connections.unsigned <= FEW.of_address
    assert running.state.activity.connections.unsigned == 0


async def test_a_large_message_is_taken_only_after_sign_in() -> None:
    async with served() as running:
        address = running.address.replace("http", "ws") + "/ws"
        large = json.dumps({"type": "__ping__", "pad": "x" * FEW.unsigned_frame})
        async with connect(address) as stranger:
            await stranger.send(large)
            with pytest.raises(ConnectionClosed) as closed:
                await stranger.recv()
            assert closed.value.rcvd.code == 1009
        async with connect(address) as ed:
            await ed.send(json.dumps({"type": "authenticate", "token": token(), "_id": 1}))
            await ed.recv()
            await ed.send(large)
            assert "1009" not in str(await ed.recv())


@pytest.mark.parametrize(("proxies", "status"), [("", 200), ("127.0.0.1", 403)])
async def test_a_forwarded_address_is_believed_of_named_proxies_alone(
    proxies: str, status: int
) -> None:
    settings: dict[str, Any] = {"auth_secret": None, "forwarded_allow_ips": proxies}
    async with served(**settings) as running, client(running) as behind:
        answer = await behind.get("/api/me", headers={"X-Forwarded-For": "203.0.113.9"})
    assert answer.status_code == status


@asynccontextmanager
async def socket_of(
    running: Served, user: str
) -> AsyncIterator[tuple[ClientConnection, dict[str, Any]]]:
    """Yields a WebSocket that a person signs in on, and the answer to the sign-in."""
    async with connect(running.address.replace("http", "ws") + "/ws", proxy=None) as socket:
        await socket.send(json.dumps({"type": "authenticate", "token": token(user, "viewer")}))
        yield socket, json.loads(await socket.recv())


async def ponged(socket: ClientConnection) -> bool:
    try:
        await socket.send(json.dumps({"type": "__ping__"}))
        return json.loads(await socket.recv()) == {"type": "__pong__"}
    except ConnectionClosed:
        return False


async def test_the_quietest_connections_of_a_person_make_room_and_others_keep_theirs() -> None:
    async with served() as running, AsyncExitStack() as held:
        running.state.activity.connections.limits = ConnectionLimits(of_person=4)
        kept, _ = await held.enter_async_context(socket_of(running, "bob"))
        own = [(await held.enter_async_context(socket_of(running, "vera")))[0] for _ in range(4)]
        assert await ponged(own[0])  # now the second is the quietest
        for _ in range(2):
            _, answer = await held.enter_async_context(socket_of(running, "vera"))
            assert answer["success"]
        assert [await ponged(each) for each in own] == [True, False, False, True]
        assert await ponged(kept)


async def test_who_has_all_connections_answering_is_refused_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("server.run.CONNECTIONS", 12)
    async with served() as running, AsyncExitStack() as held:
        running.state.activity.connections.limits = ConnectionLimits(of_person=4, of_address=4)
        heads = list[bytes]()
        for number in range(16):
            each = await held.enter_async_context(raw(running))
            # The body does not come: the answer is under way until it does.
            await each.post(IMPORT, length=1000, bearer=token("vera", "editor"), body=b"{")
            if number >= 4:
                heads.append(await each.answered())
        assert all(b" 429 " in head and b"retry-after: 5" in head.lower() for head in heads)
        socket, answer = await held.enter_async_context(socket_of(running, "vera"))
        assert not answer["success"]
        await socket.wait_closed()
        assert socket.close_code == 1013
        async with client(running, Authorization=f"Bearer {token('bob', 'viewer')}") as other:
            assert (await other.get("/api/graphs")).status_code == 200
        _, answer = await held.enter_async_context(socket_of(running, "bob"))
        assert answer["success"]


async def test_a_connection_whose_turn_runs_without_a_word_is_kept_and_makes_room_after_it() -> (
    None
):
    held = asyncio.Event()
    asked = asyncio.Event()

    def thinking(_: Asked) -> Says:
        asked.set()
        return Says(text="Yes", held=held)

    async with served(ScriptedProvider(thinking)) as running, AsyncExitStack() as stack:
        running.state.activity.connections.limits = ConnectionLimits(of_person=3)
        own = [(await stack.enter_async_context(socket_of(running, "vera")))[0] for _ in range(3)]
        await own[0].send(
            json.dumps({"type": "ai:chat", "_id": 1, "graphKey": GRAPH, "message": "Why?"})
        )
        await asked.wait()
        for _ in range(4):  # each is newer than the turn, and none closes its connection
            _, answer = await stack.enter_async_context(socket_of(running, "vera"))
            assert answer["success"]
        held.set()
        while (message := json.loads(await own[0].recv()))["type"] != "ai:complete":
            pass
        assert message["fullText"] == "Yes"
        assert [await ponged(each) for each in own[1:]] == [False, False]
        for _ in range(3):
            await stack.enter_async_context(socket_of(running, "vera"))
        assert not await ponged(own[0])


async def test_turns_on_all_connections_of_a_person_end_none_of_them_and_keep_nobody_else_out() -> (
    None
):
    held = asyncio.Event()
    model = ScriptedProvider(Says(text="Yes", held=held), Says(text="Yes", held=held))
    async with served(model) as running, AsyncExitStack() as stack:
        running.state.activity.connections.limits = ConnectionLimits(of_person=2)
        own = [(await stack.enter_async_context(socket_of(running, "vera")))[0] for _ in range(2)]
        for each in own:
            await each.send(
                json.dumps({"type": "ai:chat", "_id": 1, "graphKey": GRAPH, "message": "Why?"})
            )
            await each.recv()  # the turn has begun
        _, answer = await stack.enter_async_context(socket_of(running, "vera"))
        assert not answer["success"]
        _, answer = await stack.enter_async_context(socket_of(running, "bob"))
        assert answer["success"]
        held.set()
        for each in own:
            while json.loads(await each.recv())["type"] != "ai:complete":
                pass
