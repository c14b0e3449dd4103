"""The hold of one process on a conversation: while it is renewed nobody else runs a turn of it.

A process that died on this machine is not waited for; one on another machine is, until its hold ends.
A person who stops the turn from elsewhere leaves the wish on the record, where its owner looks.

Decision: the stored thread's own version is the fencing token. Whoever takes over a turn that broke
off stores the thread once before anything else (`take_over`); from then on every write of the
owner before meets another version and is refused.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument, RecordConflict, SourceError
from graphrag.agent.thread_store import StoredThread, Thread, ThreadBusy, ThreadError, Threads, now_ms
from graphrag.process_identity import is_local_process_dead, new_owner
from graphrag.roles import Person

log = logging.getLogger(__name__)

KIND = "lease"
HELD_MS = 15_000
LOOK_S = 1.0
"""So often an owner looks whether the turn is still its own and still wanted."""
_TRIES = 5


class TurnUnwanted(ThreadError):
    """A person stopped the turn from elsewhere; its owner ends it."""

    def __init__(self, *, thread_id: str) -> None:
        self.thread_id = thread_id
        super().__init__(f"the turn of conversation {thread_id!r} was stopped")


class TurnLeases:
    """Holds conversations of one workspace for this process, one turn each."""

    def __init__(
        self,
        records: RecordStore,
        *,
        owner: str | None = None,
        clock: Callable[[], int] = now_ms,
        held_ms: int = HELD_MS,
        look_s: float = LOOK_S,
    ) -> None:
        self._records, self._clock = records, clock
        self._owner, self._held_ms, self._look_s = owner or new_owner(), held_ms, look_s
        self._here: set[str] = set()

    @asynccontextmanager
    async def held(self, thread_id: str) -> AsyncGenerator[TurnLease]:
        """Hold a thread, renewed until the end of the block. Raises: ThreadBusy, SourceError."""
        if thread_id in self._here:
            raise ThreadBusy(thread_id=thread_id)
        self._here.add(thread_id)
        try:
            hold = TurnLease(self._records, thread_id, self._owner, self._clock, self._held_ms)
            await hold.take()
            keeping = asyncio.create_task(hold.keep(self._look_s))
            try:
                yield hold
            finally:
                await asyncio.shield(hold.end(keeping))
        finally:
            self._here.discard(thread_id)

    async def runs(self, thread_id: str) -> bool:
        """Say whether somebody holds a thread now. Raises: SourceError."""
        found = await self._records.get(KIND, _key(thread_id))
        return found is not None and not _is_free(found.data, self._owner, self._clock())

    async def ask_to_stop(self, thread_id: str) -> bool:
        """Leave word that a turn is no longer wanted; say whether somebody runs one. Raises: SourceError."""
        for _ in range(_TRIES):
            found = await self._records.get(KIND, _key(thread_id))
            if found is None or _is_free(found.data, self._owner, self._clock()):
                return False
            unwanted = Record(kind=KIND, key=found.key, data={**found.data, "unwanted": True})
            try:
                await self._records.put(unwanted, expected_version=found.version)
            except RecordConflict:
                continue  # renewed or given back meanwhile
            return True
        return False


class TurnLease:
    """One hold. What runs within `step` ends when the hold is lost or the turn is no longer wanted."""

    def __init__(
        self, records: RecordStore, thread_id: str, owner: str, clock: Callable[[], int], held_ms: int
    ) -> None:
        self._records, self._thread_id, self._owner = records, thread_id, owner
        self._clock, self._held_ms = clock, held_ms
        self._mark = secrets.token_hex(6)
        self._version: str | None = None
        self._until = 0
        self._lost = self._unwanted = False
        self._ended = asyncio.Event()
        self._working: asyncio.Task[Any] | None = None

    def check(self) -> None:
        """Raises: ThreadBusy when the thread is another's, or may be."""
        if self._lost or self._clock() >= self._until:
            raise ThreadBusy(thread_id=self._thread_id)

    @contextmanager
    def step(self) -> Generator[None]:
        """Let what runs inside be ended from outside. Raises: ThreadBusy, TurnUnwanted."""
        self._raise_if_over()
        task = self._working = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            yield
        except asyncio.CancelledError:
            if self._working is None and task is not None and task.uncancel() <= before:
                self._raise_if_over()  # it was cancelled from here, and by nobody else
            raise
        finally:
            self._working = None

    def _raise_if_over(self) -> None:
        self.check()
        if self._unwanted:
            raise TurnUnwanted(thread_id=self._thread_id)

    async def take(self) -> None:
        """Hold the thread. Raises: ThreadBusy, SourceError."""
        found = await self._records.get(KIND, _key(self._thread_id))
        if found is not None and not self._may_take(found.data):
            raise ThreadBusy(thread_id=self._thread_id)
        self._version = found.version if found else None
        await self._renew()
        self.check()

    def _may_take(self, data: Mapping[str, Any]) -> bool:
        # One of this owner that is still there could not be given back: nobody holds it.
        return data.get("owner") == self._owner or _is_free(data, self._owner, self._clock())

    async def write(self, write: RecordWrite) -> None:
        """Carry out a write if the thread is still held, both in one transaction.

        Raises: ThreadBusy when it is another's, RecordConflict, SourceError.
        """
        for _ in range(_TRIES):
            found = await self._records.get(KIND, _key(self._thread_id))
            self._read(found)
            if found is None or self._lost:
                break
            held = RecordWrite(kind=KIND, key=found.key, data=found.data, expected_version=found.version)
            try:
                await self._records.write([held, write])
            except RecordConflict as exc:
                if exc.kind != KIND:
                    raise
                continue  # renewed, given back or taken over meanwhile
            self._read(await self._records.get(KIND, found.key))  # it has another version now
            return
        raise ThreadBusy(thread_id=self._thread_id)

    async def keep(self, look_s: float) -> None:
        """Renew and look until `end`, or until the hold is lost."""
        while not self._ended.is_set() and not self._lost:
            try:
                async with asyncio.timeout(look_s):
                    await self._ended.wait()
            except TimeoutError:
                await self._look()

    async def _look(self) -> None:
        try:
            if self._clock() >= self._until - self._held_ms * 2 // 3:
                await self._renew()
            else:
                self._read(await self._records.get(KIND, _key(self._thread_id)))
        except SourceError as exc:  # the store may be back before the hold ends
            log.warning("lease_unreadable", extra={"thread_id": self._thread_id, "error": type(exc).__name__})
        self._lost = self._lost or self._clock() >= self._until
        if self._lost or self._unwanted:
            task, self._working = self._working, None
            if task is not None:
                task.cancel()

    async def _renew(self) -> None:
        for _ in range(_TRIES):
            until = self._clock() + self._held_ms
            data = {"owner": self._owner, "hold": self._mark, "expiresTime": until}
            record = Record(kind=KIND, key=_key(self._thread_id), data={**data, "threadId": self._thread_id})
            try:
                stored = await self._records.put(record, expected_version=self._version)
            except RecordConflict:
                self._read(await self._records.get(KIND, record.key))
                if self._lost:
                    return
                continue
            self._version, self._until = stored.version, until
            return

    def _read(self, found: Record | None) -> None:
        """Take in what another process wrote: its own hold, or a wish to stop."""
        if found is None or found.data.get("hold") != self._mark:
            self._lost = True
            return
        self._version = found.version
        self._unwanted = self._unwanted or found.data.get("unwanted") is True

    async def end(self, keeping: asyncio.Task[None]) -> None:
        """Give the hold back, if it is still ours."""
        self._ended.set()
        await keeping
        for _ in range(_TRIES):
            if self._lost or self._version is None:
                return
            try:
                await self._records.delete(KIND, _key(self._thread_id), expected_version=self._version)
            except RecordConflict:
                self._read(await self._records.get(KIND, _key(self._thread_id)))
            except SourceError as exc:  # then it ends by itself
                log.warning("lease_kept", extra={"thread_id": self._thread_id, "error": type(exc).__name__})
                return
            else:
                return


async def take_over(threads: Threads, thread_id: str, person: Person) -> StoredThread:
    """Return a held thread as it is stored; one whose turn broke off is closed to its owner before.

    Raises: ThreadNotFound, ThreadVersion, ThreadBusy.
    """
    for _ in range(_TRIES):
        stored = await threads.get(thread_id, person)
        if stored.thread.turn.status != "running":
            return stored
        try:
            return await threads.save(stored, stored.thread.messages)
        except ThreadBusy:
            log.info("late_owner_met", extra={"thread_id": thread_id})
    raise ThreadBusy(thread_id=thread_id)


async def effective_status(threads: Threads, leases: TurnLeases, thread: Thread, person: Person) -> Thread:
    """Return a thread with the true status of its turn: one whose owner is gone failed. Nothing is stored.

    Raises: SourceError.
    """
    for _ in range(_TRIES):
        if thread.turn.status != "running" or await leases.runs(thread.key):
            return thread
        try:
            now = (await threads.get(thread.key, person)).thread
        except (ThreadError, BadDocument):  # deleted meanwhile, or unreadable: as it was read
            return thread
        if now.turn == thread.turn and now.last_updated_time == thread.last_updated_time:
            return now.model_copy(update={"turn": now.turn.model_copy(update={"status": "failed"})})
        thread = now  # it ended, or another began, between the two looks
    return thread


def _key(thread_id: str) -> str:
    return f"turn/{thread_id}"


def _is_free(data: Mapping[str, Any], mine: str, now: int) -> bool:
    until = data.get("expiresTime")
    return not isinstance(until, int) or until <= now or is_local_process_dead(str(data.get("owner")), mine)
