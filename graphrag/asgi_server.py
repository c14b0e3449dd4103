"""Serves an ASGI application in this process, on a socket that is already listening."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from socket import socket

import uvicorn


@asynccontextmanager
async def served_on(config: uvicorn.Config, listening: socket) -> AsyncGenerator[None]:
    """Serves the application of `config` until the block ends."""
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup([listening])
    try:
        yield
    finally:
        server.should_exit = True
        await server.shutdown([listening])
