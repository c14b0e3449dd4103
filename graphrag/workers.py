"""Runs work of many milliseconds outside the event loop: in few threads, for a bounded
number of callers.

`collect_only_young` keeps Python from stopping all threads while a great deal is made, `free` while
a great deal is freed; `repeat` and `end_tasks` are for what runs in the event loop itself.

Python computes in one thread at a time, and the event loop takes turns with these threads every few
milliseconds. One call into C that keeps the interpreter for longer (parsing many megabytes of JSON)
still stops the loop: cut such work into pieces, or give it a process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import queue
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
THREADS = 2
WAITING = 32
"""At most so many callers wait for a thread; the next one is refused."""
OF_ONE = 24  # of the threads and places to wait, those that one person may have
person_id: ContextVar[str] = ContextVar("person_id", default="")
"""The person whose request is being answered; empty for work of the program itself."""
RETRY_AFTER_S = 2


class WorkersBusy(Exception):
    """`waiting` callers wait already. Units: `retry_after_s` in seconds."""

    def __init__(self, *, waiting: int, retry_after_s: int = RETRY_AFTER_S) -> None:
        self.waiting = waiting
        self.retry_after_s = retry_after_s
        super().__init__(f"{waiting} requests wait already; try again in {retry_after_s} s")


class Workers:
    """A pool of `threads` for which at most `waiting` callers wait, `of_one` of them
    of one person.
    """

    def __init__(
        self, *, threads: int = THREADS, waiting: int = WAITING, of_one: int = OF_ONE
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="worker")
        self._places = threads + waiting
        self._waiting = waiting
        self._of_one = of_one
        self._taken = Counter[str]()
        self._lock = threading.Lock()

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `fn` returns. Raises: WorkersBusy, and what `fn` raises.

        A caller that is cancelled while it waits leaves the queue. Work that has begun goes on to
        its end and holds its thread until then.
        """
        person = person_id.get()
        with self._lock:
            if self._taken.total() >= self._places:
                raise WorkersBusy(waiting=self._waiting)
            if person and self._taken[person] >= self._of_one:
                raise WorkersBusy(waiting=self._of_one)
            self._taken[person] += 1
        work = self._pool.submit(fn, *args, **kwargs)
        work.add_done_callback(partial(self._free, person))
        return await asyncio.wrap_future(work)

    def _free(self, person: str, _: Future[Any]) -> None:
        with self._lock:
            self._taken[person] -= 1
            if not self._taken[person]:
                del self._taken[person]


_shared = Workers()


async def run_limited(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `fn` in a thread of the process's one pool, as `Workers.run` does."""
    return await _shared.run(fn, *args, **kwargs)


async def end_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, where they were begun, and wait until each has ended in whatever way."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


async def repeat(
    work: Callable[[], Awaitable[object]],
    every_s: float,
    log: logging.Logger,
    failed: str,
    *,
    waits_first: bool = False,
) -> None:
    """Work again and again, `every_s` after the last time, until cancelled.

    An exception is logged as the event `failed`: the next time may succeed.
    """
    if waits_first:
        await asyncio.sleep(every_s)
    while True:
        try:
            await work()
        except Exception:
            log.exception(failed)
        await asyncio.sleep(every_s)


def collect_only_young() -> None:
    """Let Python look for cycles among the objects of the last moments alone; `gc.collect`
    looks at all.

    A look at all that lives stops every thread: for 100 ms in a small program, for seconds where a
    hundred thousand nodes are being read.
    """
    gc.freeze()
    gc.set_threshold(10_000, 5, 1_000_000_000)


def resident() -> int:
    """Returns the bytes of the process's memory, without files that are mapped; 0 where
    /proc is missing.
    """
    try:
        pages = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class CollectionLimits:
    """When a process looks for cycles among all its objects.

    Units: `every_s`, `check_s` and `latest_s` in seconds; the others in blocks of memory that
    Python has given out, of about 100 bytes each.
    """

    every_s: float = 3600.0
    check_s: float = 5.0
    growth: int = 1_000_000
    """By so many blocks a process may grow before it looks. The resident set would not do:
    garbage leaves holes that the system does not get back, so each collection would wait for
    more garbage than the last one."""
    passing: int = 100_000
    """A process with so many blocks more than at the least of its last checks works on a
    whole graph."""
    checks_compared: int = 60
    latest_s: float = 60.0
    """A process that has grown and never comes to rest looks after this time nevertheless:
    garbage, too, is blocks that are given out."""


async def collect_all_rarely(
    limits: CollectionLimits = CollectionLimits(),
    given_out: Callable[[], int] = sys.getallocatedblocks,
) -> None:
    """Collects garbage of all ages each hour, and sooner when the process has grown; until
    cancelled. `given_out` returns the blocks of memory in use.

    A collection stops every thread for about .4 s a million objects, so it waits while a whole
    graph is worked on, but never for longer than `latest_s`.
    """
    held = given_out()
    since = time.monotonic()
    due_since: float | None = None
    blocks = deque[int](maxlen=limits.checks_compared)
    while True:
        await asyncio.sleep(limits.check_s)
        now = time.monotonic()
        blocks.append(given_out())
        has_grown = blocks[-1] - held > limits.growth
        if due_since is None and (has_grown or now - since > limits.every_s):
            due_since = now
        is_at_rest = blocks[-1] - min(blocks) < limits.passing
        if due_since is not None and (is_at_rest or now - due_since > limits.latest_s):
            gc.collect()
            held = given_out()
            blocks.clear()
            since = now
            due_since = None


MANY = 1_000
_left: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
_is_freeing = False


def free(objects: list[Any]) -> None:
    """Free what is in a list that nobody else uses, one by one in a thread.

    A hundred thousand documents that go at once would keep the interpreter for a second. May be
    called anywhere, also while an object is finalized: no lock is taken.
    """
    global _is_freeing
    if len(objects) < MANY:
        return
    _left.put(objects)
    if not _is_freeing:
        _is_freeing = True
        with suppress(RuntimeError):  # the program ends: all is freed then
            threading.Thread(target=_free_all, name="free", daemon=True).start()


def _free_all() -> None:
    while True:
        objects = _left.get()
        while objects:
            objects.pop()
