"""Caches results, bounded and expiring. Simultaneous identical calls share one computation."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class ResultCache(Generic[T]):
    """Holds at most `max_entries` results for `ttl_s` seconds each and evicts the least recently
    used. Failed computations are not cached.
    """

    def __init__(
        self, *, ttl_s: float, max_entries: int = 500, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ttl_s = ttl_s
        self._max_entries = max_entries
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._running: dict[Hashable, asyncio.Future[T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def drop(self, key: Hashable) -> None:
        """Removes an outdated value. One that is being computed is not cached."""
        self._entries.pop(key, None)
        self._running.pop(key, None)

    def clear(self) -> None:
        """Removes all values, as `drop` does."""
        self._entries.clear()
        self._running.clear()

    async def get(
        self,
        key: Hashable,
        compute: Callable[[], Awaitable[T]],
        *,
        keep: Callable[[T], bool] = lambda _: True,
    ) -> tuple[T, bool]:
        """Returns the value, and True if it was cached or being computed for another caller.

        Cancelling one caller does not cancel the computation for the others. A value that `keep`
        rejects is returned to all waiting callers but not cached.
        """
        entry = self._entries.get(key)
        if entry is not None:
            if entry[0] > self._clock():
                self._entries.move_to_end(key)
                return entry[1], True
            del self._entries[key]
        task = self._running.get(key)
        if task is not None:
            return await asyncio.shield(task), True
        if self._ttl_s <= 0:
            return await compute(), False
        task = asyncio.ensure_future(compute())
        self._running[key] = task
        task.add_done_callback(lambda done: self._computed(key, done, keep))
        return await asyncio.shield(task), False

    def _computed(self, key: Hashable, task: asyncio.Future[T], keep: Callable[[T], bool]) -> None:
        is_current = self._running.get(key) is task
        if is_current:
            del self._running[key]
        # Reading the exception, which every waiting caller gets, avoids a warning of asyncio.
        if task.cancelled() or task.exception() is not None:
            return
        if keep(value := task.result()) and is_current:
            self._entries[key] = (self._clock() + self._ttl_s, value)
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
