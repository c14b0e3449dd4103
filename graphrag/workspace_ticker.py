"""Ticks for workspaces: lets each do what is due, at fixed intervals, beside the requests.

Workspaces do not wait for each other, and failed work is retried at the next tick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol, Self, final

from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

TICK_S: Final = 5.0


class WorkspaceWork(Protocol):
    """The background work of one workspace."""

    async def tick(self) -> None:
        """Starts the work that is due and not under way. Returns at once."""
        ...

    async def close(self) -> None:
        """Cancels the work under way."""
        ...


@final
class WorkspaceTicker:
    """Ticks for the workspaces that `workspaces` returns; `opened` opens the work of one of them.

    `noun` names the work in the log.
    """

    def __init__(
        self,
        workspaces: Callable[[], Awaitable[Sequence[str]]],
        opened: Callable[[str], Awaitable[WorkspaceWork]],
        *,
        noun: str,
    ) -> None:
        self._workspaces = workspaces
        self._opened = opened
        self._failed = f"{noun}_work_failed"
        self._seen: dict[str, WorkspaceWork] = {}

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[Self]:
        """Ticks during the block."""
        serving = asyncio.create_task(self._serve())
        try:
            yield self
        finally:
            await end_tasks(serving)
            for each in self._seen.values():
                await each.close()

    async def _serve(self) -> None:
        while True:
            await self.tick()
            await asyncio.sleep(TICK_S)

    async def tick(self) -> None:
        """Ticks once for every workspace."""
        try:
            names = await self._workspaces()
        except Exception:
            log.exception(self._failed, extra={"work": "workspaces"})
            return
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        for name in names:
            try:
                self._seen[name] = await self._opened(name)
                await self._seen[name].tick()
            except Exception:  # the other workspaces go on
                log.exception(self._failed, extra={"workspace": name})
