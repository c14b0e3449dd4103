"""Remembers results for a while: bounded, expiring, one computation for identical calls at once."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """Counts since the cache was made. `shared` calls waited for another's computation."""

    size: int
    hits: int
    misses: int
    shared: int


class ResultCache(Generic[T]):
    """Holds at most `max_entries` results for `ttl_s` seconds each; the least recently used goes first.

    A key is (group, rest); a group can be cleared at once. A failed computation is not kept.
    """

    def __init__(
        self, *, ttl_s: float, max_entries: int = 500, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ttl_s = ttl_s
        self._max_entries = max_entries
        self._clock = clock
        self._entries: OrderedDict[tuple[Hashable, Hashable], tuple[float, T]] = OrderedDict()
        self._running: dict[tuple[Hashable, Hashable], asyncio.Task[T]] = {}
        self._hits = self._misses = self._shared = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def stats(self) -> CacheStats:
        return CacheStats(size=len(self), hits=self._hits, misses=self._misses, shared=self._shared)

    async def get(
        self,
        group: Hashable,
        rest: Hashable,
        compute: Callable[[], Awaitable[T]],
        *,
        keep: Callable[[T], bool] = lambda _: True,
    ) -> tuple[T, bool]:
        """Return the value and whether it was there already (or being computed for someone else).

        A caller that is cancelled does not take the computation from the others. A value that
        `keep` refuses is given to all who wait for it and then forgotten.
        """
        key = (group, rest)
        entry = self._entries.get(key)
        if entry is not None:
            if entry[0] > self._clock():
                self._entries.move_to_end(key)
                self._hits += 1
                return entry[1], True
            del self._entries[key]
        task = self._running.get(key)
        if task is not None:
            self._shared += 1
            return await asyncio.shield(task), True
        self._misses += 1
        if self._ttl_s <= 0:
            return await compute(), False
        task = asyncio.ensure_future(self._run(key, compute, keep))
        self._running[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task), False

    async def _run(
        self, key: tuple[Hashable, Hashable], compute: Callable[[], Awaitable[T]], keep: Callable[[T], bool]
    ) -> T:
        value = await compute()
        if keep(value) and self._running.get(key) is asyncio.current_task():  # not cleared meanwhile
            self._entries[key] = (self._clock() + self._ttl_s, value)
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
        return value

    def _forget(self, key: tuple[Hashable, Hashable], task: asyncio.Task[T]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
        if not task.cancelled():
            task.exception()  # every waiter has it; an abandoned one is not worth a warning

    def clear(self, group: Hashable | None = None) -> int:
        """Forget everything, or one group; return how many entries went.

        A computation under way is still answered to those who wait for it, but not kept.
        """
        gone = [key for key in self._entries if group is None or key[0] == group]
        for key in gone:
            del self._entries[key]
        for key in [key for key in self._running if group is None or key[0] == group]:
            del self._running[key]
        return len(gone)
