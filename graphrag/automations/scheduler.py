"""Starts due automations of each workspace at fixed intervals, and executes their runs.

Each server has one scheduler. A decision, an edit or the end of a run wakes it before its time.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain, zip_longest
from typing import Final, Self, final

from graphrag.automations.worker import Start, Worker
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

TICK_S: Final = 5.0
# Random share by which intervals differ, so that servers do not tick at the same time.
SPREAD: Final = 0.2
# A separate generator, so that the shared one of the process is not advanced.
_RANDOM: Final = random.Random()


@final
class Wakeups:
    """Lets a scheduler tick before its time, and passes on where proposals were decided."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._decided: set[str] = set()

    def wake(self, workspace: str | None = None) -> None:
        """Wakes the scheduler; with a workspace, because a proposal of it was decided here."""
        if workspace is not None:
            self._decided.add(workspace)
        self._event.set()

    async def wait(self, timeout_s: float) -> None:
        """Returns at the next wake-up, at the latest after `timeout_s` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        self._event.clear()

    def take_decided(self, workspace: str) -> bool:
        """Returns True if a proposal of the workspace was decided since the last call."""
        is_decided = workspace in self._decided
        self._decided.discard(workspace)
        return is_decided


@final
class Scheduler:
    """Executes the runs of all workspaces, `at_once` of them concurrently; 0: it starts none.

    `workspaces` returns the names of those with automations or runs; `worker` opens one of them.
    `wakeups` is shared with the code that wakes this scheduler.
    """

    def __init__(
        self,
        workspaces: Callable[[], Awaitable[Sequence[str]]],
        worker: Callable[[str], Awaitable[Worker]],
        *,
        at_once: int = 2,
        wakeups: Wakeups | None = None,
    ) -> None:
        self._workspaces = workspaces
        self._worker = worker
        self._at_once = at_once
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._wakeups = wakeups or Wakeups()
        # Number of automations that were due at the last tick but not begun.
        self.late = 0

    @property
    def is_idle(self) -> bool:
        """Whether this process executes no run."""
        return not self._running

    def wake(self, workspace: str | None = None) -> None:
        """Ticks soon. With a workspace: because one of its proposals was decided here."""
        self._wakeups.wake(workspace)

    @asynccontextmanager
    async def ticking(self) -> AsyncGenerator[Self]:
        """Ticks during the block. At its end the runs of this process are stopped; they remain as
        stored.
        """
        ticking = asyncio.create_task(self._serve())
        try:
            yield self
        finally:
            await end_tasks(ticking)
            await self.close()

    async def _serve(self) -> None:
        while True:
            try:
                await self.tick()
            except Exception:
                log.exception("tick_failed")
            await self._wakeups.wait(TICK_S * _RANDOM.uniform(1 - SPREAD, 1 + SPREAD))

    async def tick(self) -> int:
        """Checks each workspace once. Returns the number of runs started."""
        starts: list[list[tuple[Worker, Start]]] = []
        late = 0
        for name in await self._workspaces():
            try:
                worker = await self._worker(name)
                decided = self._wakeups.take_decided(name)
                running = frozenset(
                    graph for workspace, graph in self._running if workspace == name
                )
                runs = await worker.tick(
                    self._at_once - len(self._running), running, decided=decided
                )
                late += worker.late
                starts.append([(worker, start) for start in runs])
            except Exception:  # the other workspaces continue
                log.exception("tick_failed", extra={"workspace": name})
        self.late = late
        begun = 0
        # The first run of each workspace, then the second one.
        in_turns = chain.from_iterable(zip_longest(*starts))
        for worker, start in (start for start in in_turns if start is not None):
            if len(self._running) >= self._at_once:
                break  # it is stored as queued, and the next tick starts it
            key = (worker.automations.workspace, start.graph_key)
            if key not in self._running:
                task = asyncio.create_task(self._run(worker, start))
                self._running[key] = task
                task.add_done_callback(lambda _, key=key: self._left(key))
                begun += 1
        return begun

    async def _run(self, worker: Worker, start: Start) -> None:
        try:
            await worker.runner.run(start.session_id, start.event)
        except Exception:  # its stored state is unchanged, and another tick resumes it
            log.exception("run_failed", extra={"session_id": start.session_id})

    def _left(self, key: tuple[str, str]) -> None:
        self._running.pop(key, None)
        self._wakeups.wake()

    async def run_due(self) -> int:
        """Ticks and waits for the runs until nothing more can be started. Returns the number of
        runs started.
        """
        total = 0
        while True:
            begun = await self.tick()
            total += begun
            if self.is_idle:
                return total
            await asyncio.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Stops the runs of this process; other processes resume them."""
        await end_tasks(*self._running.values())
