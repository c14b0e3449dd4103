"""Runs slow work in a few threads outside the event loop, for a bounded number of callers.

`collect_only_young` and `free` prevent long pauses of all threads: when many objects are created,
and when many are freed. `repeat` and `end_tasks` manage tasks of the event loop.

Python runs one thread at a time and switches between the event loop and these threads every few
milliseconds. A single call into C that holds the interpreter lock for longer (parsing many
megabytes of JSON) still blocks the event loop: divide such work, or run it in another process.
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
WAITING = 32  # Maximum number of callers that wait for a thread. Further ones are refused.
OF_ONE = 24  # Maximum number of running and waiting calls of one person.
# The person whose request is answered; empty for work of the program itself.
person_id: ContextVar[str] = ContextVar("person_id", default="")
RETRY_AFTER_S = 2


class WorkersBusy(Exception):
    """Raised when `waiting` callers already wait. Units: `retry_after_s` in seconds."""

    def __init__(self, *, waiting: int, retry_after_s: int = RETRY_AFTER_S) -> None:
        self.waiting = waiting
        self.retry_after_s = retry_after_s
        super().__init__(f"{waiting} requests wait already; try again in {retry_after_s} s")


class Workers:
    """A pool of `threads` threads, for which at most `waiting` callers wait.

    `of_one`: the maximum number of running and waiting calls of one person.
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
        """Returns the result of `fn`. Raises: WorkersBusy, and the errors of `fn`.

        A caller that is cancelled while it waits is removed from the queue. Work that has begun is
        completed and keeps its thread until then.
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
    """Runs `fn` in the shared pool of the process; see `Workers.run`."""
    return await _shared.run(fn, *args, **kwargs)


async def end_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancels tasks and waits until all have ended. Ignores their results and errors, and None."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


async def repeat(
    work: Callable[[], Awaitable[object]],
    every_s: float,
    log: logging.Logger,
    failed: str,
    *,
    waits_first: bool = False,
) -> None:
    """Calls `work` repeatedly until cancelled, with a pause of `every_s` after each call.

    Exceptions are logged as the event `failed`. With `waits_first`, begins with a pause.
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
    """Restricts automatic garbage collection to young objects, and excludes those that exist now.

    A collection of all objects stops every thread: for 100 ms in a small program, for seconds while
    a hundred thousand nodes are read. `gc.collect` still collects all generations.
    """
    gc.freeze()
    gc.set_threshold(10_000, 5, 1_000_000_000)


def resident() -> int:
    """Returns the memory of the process in bytes, without mapped files; 0 if /proc is missing."""
    try:
        pages = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class CollectionLimits:
    """Determines when a process collects the garbage of all generations.

    Units: `every_s`, `check_s` and `latest_s` in seconds; `growth` and `passing` in allocated
    blocks of memory, of about 100 bytes each.
    """

    every_s: float = 3600.0
    check_s: float = 5.0
    growth: int = 1_000_000
    """Growth after which a collection is due. Blocks are counted because the resident set does not
    shrink after a collection, so each collection would wait for more garbage than the last one."""
    passing: int = 100_000
    """If the number of blocks is this much above the minimum of the last checks, the process is
    considered to work on a whole graph, and the collection waits."""
    checks_compared: int = 60
    latest_s: float = 60.0
    """Maximum time that a due collection waits. Garbage counts as allocated blocks, too."""


async def collect_all_rarely(
    limits: CollectionLimits = CollectionLimits(),
    given_out: Callable[[], int] = sys.getallocatedblocks,
) -> None:
    """Collects the garbage of all generations every hour, and earlier if the process has grown.
    Runs until cancelled. `given_out` returns the number of allocated blocks.

    A collection stops every thread for about 0.4 s per million objects. So it waits while the
    process works on a whole graph, at most `latest_s`.
    """
    blocks_after_last = given_out()
    since = time.monotonic()
    due_since: float | None = None
    blocks = deque[int](maxlen=limits.checks_compared)
    while True:
        await asyncio.sleep(limits.check_s)
        now = time.monotonic()
        blocks.append(given_out())
        has_grown = blocks[-1] - blocks_after_last > limits.growth
        if due_since is None and (has_grown or now - since > limits.every_s):
            due_since = now
        is_at_rest = blocks[-1] - min(blocks) < limits.passing
        if due_since is not None and (is_at_rest or now - due_since > limits.latest_s):
            gc.collect()
            blocks_after_last = given_out()
            blocks.clear()
            since = now
            due_since = None


MANY = 1_000  # Minimum number of objects to free in a thread.
_unused: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
_is_freeing = False


def free(objects: list[Any]) -> None:
    """Frees the objects of a list, which must not be used elsewhere, one by one in a thread.

    Freeing a hundred thousand documents at once would block all threads for a second. Takes no
    lock, so it may be called anywhere, also in finalizers.
    """
    global _is_freeing
    if len(objects) < MANY:
        return
    _unused.put(objects)
    if not _is_freeing:
        _is_freeing = True
        with suppress(RuntimeError):  # the program is exiting, which frees the objects
            threading.Thread(target=_free_all, name="free", daemon=True).start()


def _free_all() -> None:
    while True:
        objects = _unused.get()
        while objects:
            objects.pop()
