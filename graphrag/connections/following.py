"""Keeps connections in step in the background: by notices of their servers, else at intervals.

Each server of ours follows all connections; a lease lets one of them do it. What fails is tried
again later and later; a key that was refused is not tried again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, final

from graphrag.agent.thread_store import ThreadError
from graphrag.agent.turn_lease import TurnLeases
from graphrag.approvals import Person
from graphrag.connections.editor import ServerNotice
from graphrag.connections.errors import (
    ConnectionBusy,
    ConnectionNotFound,
    EditorFault,
    WorkflowServerError,
)
from graphrag.connections.running_syncs import RunningSyncs
from graphrag.connections.server_connections import Connections
from graphrag.connections.stored_connection import ServerConnection
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

LEASE_PREFIX: Final = "connection_follower"
FAILURE_S: Final = 1.0
"""Between two failures that are looked at: a flow may fail many times a second."""
_CHANCE: Final = random.Random()
"""Its own: whoever seeds the shared one of this process does not change the waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to wait before the next look at a server. Units: seconds.

    `least_s`: at least, also where notices come faster. `listening_s`: while the server's notices
    arrive. `retry_s`: after a failure, doubled after each further one up to `longest_s`. `spread`:
    the share by which each wait is shorter or longer, so that several connections drift apart.
    """

    least_s: float = 0.5
    listening_s: float = 600.0
    retry_s: float = 5.0
    longest_s: float = 900.0
    spread: float = 0.2

    def wait_s(self, interval_s: float, failures: int) -> float:
        """Returns the wait after so many failures in a row."""
        wait = interval_s
        if failures:
            wait = min(self.longest_s, self.retry_s * 2.0 ** min(failures - 1, 30))
        return wait * _CHANCE.uniform(1 - self.spread, 1 + self.spread)


@final
class Following:
    """Follows the connections of one workspace in this process."""

    def __init__(
        self,
        connections: Connections,
        syncs: RunningSyncs,
        leases: TurnLeases,
        pace: Pace = Pace(),
    ) -> None:
        self._connections = connections
        self._syncs = syncs
        self._leases = leases
        self._pace = pace
        self._tasks: dict[str, tuple[int, asyncio.Task[None]]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a connection is followed here."""
        return bool(self._tasks)

    async def tick(self) -> None:
        """Begins to follow new connections, and ends it for those that are removed or changed."""
        wanted = {
            connection.key: connection
            for connection in await self._connections.list()
            if connection.interval_s and not connection.is_key_refused
        }
        for name, (made, task) in list(self._tasks.items()):
            connection = wanted.get(name)
            if connection is None or connection.created_time != made:
                await end_tasks(task)
                self._tasks.pop(name, None)
        for name, connection in wanted.items():
            if name not in self._tasks:
                task = asyncio.create_task(self._follow(connection))
                self._tasks[name] = (connection.created_time, task)
                task.add_done_callback(lambda done, name=name: self._done(name, done))

    async def close(self) -> None:
        """Ends the following; another process takes it up."""
        await end_tasks(*(task for _, task in self._tasks.values()))

    def _done(self, name: str, task: asyncio.Task[None]) -> None:
        if name in self._tasks and self._tasks[name][1] is task:
            del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("follow_failed", extra={"connection": name}, exc_info=error)

    async def _follow(self, connection: ServerConnection) -> None:
        """Follows a connection while this process holds its lease; returns where another does."""
        follower = Follower(connection, self._connections, self._syncs, self._pace)
        with suppress(ThreadError):
            async with self._leases.held(connection.key) as lease:
                with lease.step():
                    await follower.run()


@final
class Follower:
    """Keeps one connection in step until it is cancelled, or until nothing can be done any more."""

    def __init__(
        self,
        connection: ServerConnection,
        connections: Connections,
        syncs: RunningSyncs,
        pace: Pace,
    ) -> None:
        self._connection = connection
        self._connections = connections
        self._syncs = syncs
        self._pace = pace
        self._by = Person(connection.user_id, connection.role, connection.workspace)
        self._news = asyncio.Event()
        self._is_in_step = asyncio.Event()
        """Whether the last synchronisation worked."""
        self._is_listening = False
        self._next_failure = 0.0

    async def run(self) -> None:
        """Synchronises now, at each notice and at each interval.

        Returns where the connection is removed, or its key was refused.
        """
        listening = asyncio.create_task(self._listen())
        failures = 0
        try:
            while True:
                self._news.clear()
                began = time.monotonic()
                outcome = await self._synchronised()
                if outcome is None:
                    return
                failures = 0 if outcome else failures + 1
                wait_s = self._pace.wait_s(self._connection.interval_s, failures)
                if self._is_listening and not failures:
                    wait_s = max(wait_s, self._pace.listening_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._news.wait()
                await asyncio.sleep(max(0.0, began + self._pace.least_s - time.monotonic()))
        finally:
            await end_tasks(listening)

    async def _synchronised(self) -> bool | None:
        """Returns whether a synchronisation worked, None where none can work any more."""
        name = self._connection.key
        try:
            await self._syncs.run(name, self._by)
        except ConnectionNotFound:
            return None
        except ConnectionBusy:  # somebody synchronises it at this moment
            return True
        except WorkflowServerError as exc:
            log.info("sync_failed", extra={"connection": name, "error": exc.code})
            if isinstance(exc, EditorFault) and exc.is_about_key:
                return None
        except Exception:  # the store may be back at the next try
            log.exception("sync_failed", extra={"connection": name})
        else:
            self._is_in_step.set()
            return True
        self._is_in_step.clear()
        return False

    async def _told_failure(self, notice: ServerNotice) -> None:
        """Keeps a failure with the push that may have caused it; of many at once only some."""
        now = asyncio.get_running_loop().time()
        if now >= self._next_failure:
            self._next_failure = now + FAILURE_S
            await self._syncs.notice_failure(self._connection, notice, self._by)

    async def _listen(self) -> None:
        """Wakes the follower at each notice of the server, and asks for notices again where they
        end.

        It signs in only while synchronisations work: a key is never tried twice at once.
        """
        failures = 0
        while True:
            await self._is_in_step.wait()
            try:
                async for notice in self._connections.notices(self._connection.key):
                    failures = 0
                    self._is_listening = True
                    if notice.node_id:
                        await self._told_failure(notice)
                    else:
                        self._news.set()
                else:
                    return  # the server gives no notices
            except WorkflowServerError as exc:
                failures += 1
                facts = {"connection": self._connection.key, "error": exc.code}
                log.info("notices_ended", extra=facts)
            except Exception:  # the store may be back at the next try
                failures += 1
                log.exception("notices_ended", extra={"connection": self._connection.key})
            finally:
                self._is_listening = False
            self._news.set()  # what changed meanwhile is read, or the server found to be away
            await asyncio.sleep(self._pace.wait_s(0, failures))
