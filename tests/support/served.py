"""The whole service on a loopback socket, for clients that need a real server."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from graphrag.llm.base import LLMProvider
from server.app import create_app, running
from server.run import config_of
from server.server_state import ServerState
from server.ws import WsOptions
from tests.support.service import settings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A service that answers at `address`."""

    port: int
    app: FastAPI
    state: ServerState

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def answering(app: FastAPI, listening: socket.socket) -> AsyncIterator[int]:
    """Answer on a socket until the block ends; yield its port.

    `Server.serve` looks ten times a second whether it is to end; a test need not wait for that.
    """
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as the server's own
    config = config_of(app)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup([listening])
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await server.shutdown([listening])


@asynccontextmanager
async def served(
    provider: LLMProvider | None = None, *, options: WsOptions | None = None, **settings: object
) -> AsyncIterator[Served]:
    """Serve until the block ends."""
    app = create_app(settings_of(**settings), provider=provider)
    if options is not None:
        app.state.ws_options = options
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with running(app) as state, answering(app, listening) as port:
            yield Served(port=port, app=app, state=state)
