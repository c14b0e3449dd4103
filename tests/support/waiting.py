"""Waits for what has no event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from graphrag.embedding.queue import EmbeddingQueue
from graphrag.leases import now_ms


async def drained(queue: EmbeddingQueue) -> None:
    """Wait until nothing waits to be embedded, however often it must be tried."""
    while queue._waiting and queue._task is not None and not queue._task.done():
        await asyncio.wait([queue._task], timeout=0.02)


async def until(holds: Callable[[], object], within_s: float = 60.0) -> None:
    """Wait until something holds, at most a minute: a shared machine may be slow."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


async def another_moment() -> None:
    """Wait until what is stored next has another time than what was stored before."""
    before = now_ms()
    await until(lambda: now_ms() > before)


async def cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task, which must end as cancelled."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
