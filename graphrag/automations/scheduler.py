"""Starts due automations of each workspace at fixed intervals, and executes their runs.

Each server has one scheduler. A decision, an edit or the end of a run wakes it before its time,
also one at another server if the database tells changes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain, zip_longest
from typing import Final, Self, final

from datasources.notices import NoticeRouter
from graphrag.agent.thread_store import SESSION_KIND
from graphrag.approvals.approval import KIND as APPROVAL
from graphrag.automations.automation import KIND as AUTOMATION
from graphrag.automations.open_runs import Start
from graphrag.automations.worker import Worker
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

TICK_S: Final = 5.0
HOUR_S: Final = 3_600.0
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


async def wake_at_notices(notices: NoticeRouter, wakeups: Wakeups) -> None:
    """Wakes a scheduler when automations, runs or proposals change, here or at another server."""
    with notices.subscribed(APPROVAL, AUTOMATION, SESSION_KIND) as inbox:
        while True:
            told = await inbox.wait(HOUR_S)
            for workspace in {one.workspace for one in told or () if one.kind == APPROVAL}:
                wakeups.wake(workspace)
            wakeups.wake()


@final
class Scheduler:
    """Executes the runs of all workspaces, `at_once` of them concurrently; 0: it starts none.

    A run whose end is announced keeps its graph, but takes no place of another.
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
        # By workspace and graph.
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._ending: set[tuple[str, str]] = set()
        self._wakeups = wakeups or Wakeups()
        self._ticks = asyncio.Lock()  # one at a time
        # Number of automations that were due at the last tick but not begun.
        self.late = 0

    @property
    def is_idle(self) -> bool:
        """Whether this process executes no run."""
        return not self._running

    @property
    def free_places(self) -> int:
        """Number of runs that may be started now."""
        return self._at_once - len(self._running) + len(self._ending)

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
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            runs = 0
            try:
                runs = await self.tick()
            except Exception:
                log.exception("tick_failed")
            if not runs:
                # However often it is woken, it reads in vain at most half of the time.
                await asyncio.sleep(loop.time() - began)
            await self._wakeups.wait(TICK_S * _RANDOM.uniform(1 - SPREAD, 1 + SPREAD))

    async def tick(self) -> int:
        """Checks each workspace once, after the tick under way. Returns the number of runs
        started.
        """
        async with self._ticks:
            return await self._tick()

    async def _tick(self) -> int:
        starts: list[list[tuple[Worker, Start]]] = []
        late = 0
        for name in await self._workspaces():
            try:
                worker = await self._worker(name)
                decided = self._wakeups.take_decided(name)
                running = frozenset(
                    graph for workspace, graph in self._running if workspace == name
                )
                runs = await worker.tick(self.free_places, running, decided=decided)
                late += worker.late
                starts.append([(worker, start) for start in runs])
            except Exception:  # the other workspaces continue
                log.exception("tick_failed", extra={"workspace": name})
        self.late = late
        begun = 0
        # The first run of each workspace, then the second one.
        in_turns = chain.from_iterable(zip_longest(*starts))
        for worker, start in (start for start in in_turns if start is not None):
            if self.free_places <= 0:
                break  # it is stored as queued, and the next tick starts it
            key = (worker.automations.workspace, start.graph_key)
            if key not in self._running:
                task = asyncio.create_task(self._run(worker, start, key))
                self._running[key] = task
                task.add_done_callback(lambda _, key=key: self._left(key))
                begun += 1
        return begun

    async def _run(self, worker: Worker, start: Start, key: tuple[str, str]) -> None:
        def on_working(is_working: bool) -> None:
            if is_working:
                self._ending.discard(key)
            else:
                self._ending.add(key)
                self._wakeups.wake()

        try:
            await worker.runner.run(start.session_id, start.event, on_working)
        except Exception:  # its stored state is unchanged, and another tick resumes it
            log.exception("run_failed", extra={"session_id": start.session_id})

    def _left(self, key: tuple[str, str]) -> None:
        self._running.pop(key, None)
        self._ending.discard(key)
        self._wakeups.wake()

    async def run_due(self) -> int:
        """Ticks and waits for the runs until nothing more can be started. Returns the number of
        runs started.
        """
        total = 0
        while True:
            was_idle = self.is_idle
            begun = await self.tick()
            total += begun
            # No run was started, here or by a tick that was waited for, and none ended meanwhile.
            if was_idle and self.is_idle and not begun:
                return total
            if not self.is_idle:
                woken = asyncio.create_task(self._wakeups.wait(HOUR_S))
                events = {woken, *self._running.values()}
                await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
                await end_tasks(woken)

    async def close(self) -> None:
        """Stops the runs of this process; other processes resume them."""
        await end_tasks(*self._running.values())
