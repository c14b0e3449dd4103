"""Runs work of many milliseconds outside the event loop: in few threads, for a bounded number of callers.

`without_looking_for_garbage` keeps Python from stopping all threads while a great deal is made.

Python computes in one thread at a time, and the event loop takes turns with these threads every few
milliseconds. One call into C that keeps the interpreter for longer (parsing many megabytes of JSON)
still stops the loop: cut such work into pieces, or give it a process.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
THREADS = 2
WAITING = 32
"""At most so many callers wait for a thread; the next one is refused."""
RETRY_AFTER_S = 2


class WorkersBusy(Exception):
    """`waiting` callers wait already. Units: `retry_after_s` in seconds."""

    def __init__(self, *, waiting: int, retry_after_s: int = RETRY_AFTER_S) -> None:
        self.waiting, self.retry_after_s = waiting, retry_after_s
        super().__init__(f"{waiting} requests wait already; try again in {retry_after_s} s")


class Workers:
    """A pool of `threads` for which at most `waiting` callers wait."""

    def __init__(self, *, threads: int = THREADS, waiting: int = WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="worker")
        self._places, self._waiting = threads + waiting, waiting
        self._taken = 0
        self._lock = threading.Lock()

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `fn` returns. Raises: WorkersBusy, and what `fn` raises.

        A caller that is cancelled while it waits leaves the queue. Work that has begun goes on to its
        end and holds its thread until then.
        """
        with self._lock:
            if self._taken >= self._places:
                raise WorkersBusy(waiting=self._waiting)
            self._taken += 1
        work = self._pool.submit(fn, *args, **kwargs)
        work.add_done_callback(self._free)
        return await asyncio.wrap_future(work)

    def _free(self, _: Future[Any]) -> None:
        with self._lock:
            self._taken -= 1


_shared = Workers()


async def run_limited(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `fn` in a thread of the process's one pool, as `Workers.run` does."""
    return await _shared.run(fn, *args, **kwargs)


_making = 0


@contextmanager
def without_looking_for_garbage() -> Generator[None]:
    """Leave out Python's search for cycles while many objects are made that stay and are in none.

    With a hundred thousand nodes being made, each search stops every thread for seconds.
    """
    global _making
    was_enabled = gc.isenabled() or _making > 0
    _making += 1
    gc.disable()
    try:
        yield
    finally:
        _making -= 1
        if _making == 0 and was_enabled:
            gc.enable()
