"""The WebSocket on a real server on loopback, and a client that speaks its protocol.

The server runs in the test's own event loop, so that a scripted model can be held by the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import jwt
from fastapi import FastAPI
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from graphrag.config import Settings
from graphrag.llm.base import LLMProvider
from server.server_state import ServerState
from server.startup import ServerSetup, open_server
from server.ws import WsOptions, router
from tests.support.chosen_database import sample_address
from tests.support.scripted_provider import ScriptedProvider, Step
from tests.support.served import answering
from tests.support.ws_contract import look_at_asked, look_at_sent

SECRET = "a secret of tests that is long enough"
GRAPH = "testgraph001"
PATIENCE_S = 20.0
"""A test that waits longer than this for a message has failed."""


def token(user: str = "ed", role: str = "editor", *workspaces: str, lasts_s: float = 600) -> str:
    """A token as the sign-in of tests makes it."""
    claims = {
        "sub": user,
        "role": role,
        "workspaces": list(workspaces or ("default",)),
        "exp": int(time.time() + lasts_s),
    }
    return jwt.encode(claims, SECRET, algorithm="HS256")


class Client:
    """One connection. Messages are sent and read as objects."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.seen: list[dict[str, Any]] = []

    async def send(self, type_: str, /, **fields: Any) -> None:
        await self.raw(json.dumps({"type": type_, **fields}))

    async def raw(self, frame: str | bytes) -> None:
        look_at_asked(frame)
        await self.connection.send(frame)

    async def read(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            text = await self.connection.recv()
        look_at_sent(str(text))  # of a server in another process too
        message = json.loads(text)
        self.seen.append(message)
        return message

    async def until(self, type_: str, id_: Any = None) -> dict[str, Any]:
        """Read up to the first message of a type, and of an `_id` where one is given."""
        while True:
            message = await self.read()
            if message["type"] == type_ and id_ in (None, message.get("_id")):
                return message

    async def turn(self, id_: int) -> list[dict[str, Any]]:
        """Read up to the end of a turn; return its messages."""
        found: list[dict[str, Any]] = []
        while not found or found[-1]["type"] not in ("ai:complete", "ai:error"):
            message = await self.read()
            if message.get("_id") == id_:
                found.append(message)
        return found

    async def talk(self, type_: str, /, **fields: Any) -> list[dict[str, Any]]:
        """Send a message to a model and return the messages of the turn."""
        await self.send(type_, **fields)
        return await self.turn(fields["_id"])

    async def ask(self, type_: str, /, **fields: Any) -> dict[str, Any]:
        """Send a message and return what answers its `_id`."""
        await self.send(type_, **fields)
        while True:
            message = await self.read()
            if message.get("_id") == fields.get("_id"):
                return message

    async def closed(self) -> int:
        """Wait until the server closes; return its code."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionClosed):
                while True:
                    self.seen.append(json.loads(await self.connection.recv()))
        return self.connection.close_code or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that runs. `state` is what it works with."""

    port: int
    state: ServerState
    app: FastAPI

    @asynccontextmanager
    async def client(
        self, by: str | None = None, *, path: str = "/ws", **options: Any
    ) -> AsyncIterator[Client]:
        """Connect; with a token also sign in."""
        address = f"ws://127.0.0.1:{self.port}{path}"
        async with connect(address, proxy=None, compression=None, **options) as connection:
            client = Client(connection)
            if by is not None:
                await client.send("authenticate", token=by)
                answer = await client.read()
                assert answer["success"], answer
            yield client


@asynccontextmanager
async def ws_server(
    provider: LLMProvider | None = None,
    *,
    options: WsOptions | None = None,
    send_buffer: int | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """Run the WebSocket over the sample graph until the block ends.

    Units: `send_buffer` in bytes that the system takes for a client that does not read.
    """
    given = {
        "db": settings.get("db") or sample_address(),
        "embeddings": "none",
        "provider": "offline",
        "auth_secret": SECRET,
        **settings,
    }
    listening = socket.create_server(("127.0.0.1", 0))
    if send_buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    setup = ServerSetup.of(Settings(**given), provider=provider)
    async with open_server(setup) as state:
        app = FastAPI()
        app.include_router(router)
        app.state.setup = setup
        app.state.server = state
        if options is not None:
            app.state.ws_options = options
        async with answering(app, listening) as port:
            yield Running(port=port, state=state, app=app)


@asynccontextmanager
async def answered_ws(
    *steps: Step, **given: Any
) -> AsyncIterator[tuple[Client, Running, ScriptedProvider]]:
    """Yield an editor's client, the server, and the model that plays these steps, all of them."""
    async with (
        ScriptedProvider(*steps) as model,
        ws_server(model, **given) as server,
        server.client(token()) as client,
    ):
        yield client, server, model
