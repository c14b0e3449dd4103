"""News of a workspace's approvals, from one look at the store a second, however many read them.

The store is looked at, and not this process alone: a decision may be made by another server or a command.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace

from datasources.errors import SourceError
from graphrag.approvals import Approvals
from graphrag.approvals.audit import Entry

log = logging.getLogger(__name__)

LOOK_S = 1.0
KEPT = 64
"""News kept for readers that are slow; who falls further behind misses the oldest."""
DECIDED = 100
"""Decisions that one look may find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """`waiting` counts what waits for a decision, by graph; `decided` are decisions since the last news."""

    number: int
    waiting: Mapping[str, int]
    decided: tuple[Entry, ...] = ()


class ReviewFeed:
    """Looks at the approvals of one workspace while somebody reads. Units: seconds."""

    def __init__(self, approvals: Approvals, *, look_s: float = LOOK_S) -> None:
        self._approvals, self._look_s = approvals, look_s
        self._log: deque[News] = deque(maxlen=KEPT)
        self._changed = asyncio.Event()
        self._stamp: tuple[int, str] | None = None
        self._is_unsettled = False
        self.readers = 0
        self._task: asyncio.Task[None] | None = None

    async def read(self) -> AsyncGenerator[News]:
        """Yield how it stands now, and then every change of it, until the reader leaves."""
        self.readers += 1
        if self._task is None:
            self._log.clear()
            self._stamp = None
            self._task = asyncio.create_task(self._look_on())
        try:
            seen = -1
            while True:
                changed = self._changed
                new = [news for news in self._log if news.number > seen]
                if seen < 0:
                    new = [replace(news, decided=()) for news in new[-1:]]
                for news in new:
                    seen = news.number
                    yield news
                await changed.wait()
        finally:
            self.readers -= 1
            if not self.readers:
                self._task = _cancelled(self._task)

    async def _look_on(self) -> None:
        while True:
            try:
                await self._look()
            except SourceError as exc:  # the store may be back at the next look
                log.warning("review_unreadable", extra={"error": type(exc).__name__})
            await asyncio.sleep(self._look_s)

    async def _look(self) -> None:
        earlier, stamp = self._stamp, await self._approvals.stamp()
        # Two proposals of one millisecond have one stamp: after a change it is counted once more.
        if stamp == earlier and not self._is_unsettled:
            return
        self._is_unsettled = stamp != earlier
        decided: list[Entry] = []
        if earlier is not None and stamp[0] > earlier[0]:
            entries = await self._approvals.audit.entries(limit=min(DECIDED, stamp[0] - earlier[0]))
            decided = [entry for entry in entries if earlier[0] < entry.sequence <= stamp[0]]
        waiting = await self._approvals.waiting()
        self._stamp = stamp
        last = self._log[-1] if self._log else None
        if last is None or decided or last.waiting != waiting:
            number = last.number + 1 if last else 0
            self._log.append(News(number=number, waiting=waiting, decided=tuple(reversed(decided))))
            self._changed.set()
            self._changed = asyncio.Event()


def _cancelled(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
