"""Runs a server in a thread of its own, for tests that block theirs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

S = TypeVar("S")


@contextmanager
def in_thread(
    server: AbstractAsyncContextManager[S],
) -> Generator[tuple[S, asyncio.AbstractEventLoop]]:
    """Yields a server and the loop that it runs in, until the block ends."""
    ready = threading.Event()
    over = threading.Event()
    running: list[tuple[S, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with server as started:
            running.append((started, asyncio.get_running_loop()))
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(120)
        yield running[0]
    finally:
        over.set()
        thread.join()
