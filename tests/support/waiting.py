"""Waits for what has no event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object], within_s: float = 60.0) -> None:
    """Wait until something holds, at most a minute: a shared machine may be slow."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)
