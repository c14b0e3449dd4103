"""Synchronisations that run in the background of this process, and how far they are."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import final

from graphrag.approvals import Person
from graphrag.connections.editor import ServerNotice
from graphrag.connections.errors import ConnectionBusy, WorkflowServerError
from graphrag.connections.push_watch import PushWatch
from graphrag.connections.pushes import Pushes
from graphrag.connections.server_connections import Connections, PullReport
from graphrag.connections.stored_connection import ServerConnection
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncProgress:
    """The workflows that are done and all that there are; `total` is 0 until the list was read."""

    done: int = 0
    total: int = 0


@final
class RunningSyncs:
    """Runs at most one synchronisation of each connection of a workspace at a time."""

    def __init__(self, connections: Connections, pushes: Pushes, watch: PushWatch) -> None:
        self._connections = connections
        self._pushes = pushes
        self._watch = watch
        self._progress: dict[str, SyncProgress] = {}
        self._last: dict[str, Counter[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def progress(self, name: str) -> SyncProgress | None:
        """Returns how far a connection's synchronisation is, None where none runs here."""
        return self._progress.get(name)

    def last_counts(self, name: str) -> Counter[str]:
        """Returns how many workflows had each outcome at the last synchronisation here."""
        return self._last.get(name, Counter())

    async def run(self, name: str, by: Person) -> PullReport:
        """Synchronises a connection, and finds out how its pushes ended and whether they lasted.

        Raises: what `Connections.sync` raises.
        """
        if name in self._progress:
            raise ConnectionBusy(name=name)
        self._progress[name] = SyncProgress()
        try:
            await self._pushes.settle(name, by)
            report = await self._connections.sync(name, by, partial(self._at, name))
            await self._watch.look(report, by)
        finally:
            del self._progress[name]
        self._last[name] = Counter(workflow.change for workflow in report.workflows)
        return report

    async def notice_failure(
        self, connection: ServerConnection, notice: ServerNotice, by: Person
    ) -> None:
        """Keeps a failure of a node with the push that was written shortly before."""
        await self._watch.notice_failure(connection, notice, by)

    async def start(self, name: str, by: Person) -> None:
        """Begins to synchronise a connection and returns at once.

        What the server answers is stored on the connection. Raises: ConnectionForbidden,
        ConnectionNotFound, ConnectionBusy; EditorFault where its key was refused before.
        """
        await self._connections.check_sync(name, by)
        if name in self._progress:
            raise ConnectionBusy(name=name)
        task = asyncio.create_task(self._run_quietly(name, by))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.sleep(0)  # from here on its progress is known

    async def idle(self) -> None:
        """Waits for the synchronisations that were started here."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Ends the synchronisations that run; the next ones go on where they ended."""
        await end_tasks(*self._tasks)

    async def _run_quietly(self, name: str, by: Person) -> None:
        try:
            await self.run(name, by)
        except WorkflowServerError as exc:
            log.info("sync_failed", extra={"connection": name, "error": exc.code})
        except Exception:
            log.exception("sync_failed", extra={"connection": name})

    def _at(self, name: str, done: int, total: int) -> None:
        self._progress[name] = SyncProgress(done=done, total=total)
