"""Ticks for workspaces: lets each do what is due, at fixed intervals, beside the requests.

A notice of the database makes the tick of its workspace earlier.

Workspaces do not wait for each other, and failed work is retried at the next tick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol, Self, final

from datasources.notices import SILENT, NoticeRouter
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

TICK_S: Final = 5.0
LEAST_S: Final = 0.1  # between two ticks for notices


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

    `noun` names the work in the log. It also ticks at `notices` about records of these `kinds`.
    """

    def __init__(
        self,
        workspaces: Callable[[], Awaitable[Sequence[str]]],
        opened: Callable[[str], Awaitable[WorkspaceWork]],
        *,
        noun: str,
        notices: NoticeRouter = SILENT,
        kinds: Sequence[str] = (),
    ) -> None:
        self._workspaces = workspaces
        self._opened = opened
        self._failed = f"{noun}_work_failed"
        self._notices = notices
        self._kinds = kinds
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
        with self._notices.subscribed(*self._kinds, least_s=LEAST_S) as inbox:
            await self.tick()
            while True:
                told = await inbox.wait(TICK_S)
                await self.tick(None if told is None else {notice.workspace for notice in told})

    async def tick(self, only: Collection[str] | None = None) -> None:
        """Ticks once for every workspace, or for these."""
        try:
            names = await self._workspaces()
        except Exception:
            log.exception(self._failed, extra={"work": "workspaces"})
            return
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        for name in names if only is None else set(names).intersection(only):
            try:
                self._seen[name] = await self._opened(name)
                await self._seen[name].tick()
            except Exception:  # the other workspaces go on
                log.exception(self._failed, extra={"workspace": name})
