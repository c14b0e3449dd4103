"""Leases on conversations: one process at a time runs a turn of a conversation.

The slot of a graph, which lets one automation work on it, is leased the same way. To stop a turn
from another process, a flag is stored on the record of its lease. The owner reads it at each
notice of the database, and at intervals.

Decision: the stored thread's own version is the fencing token. A process that takes over a turn
that broke off stores the thread once before anything else (`take_over`); from then on every write
of the owner before meets another version and is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, final

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument, SourceError
from datasources.notices import NoticeInbox
from graphrag.agent.thread_store import StoredThread, Thread, ThreadBusy, ThreadError, Threads
from graphrag.leases import HELD_MS, KIND, Lease, is_free, new_owner, now_ms
from graphrag.roles import Person
from graphrag.stored_records import put_over

log = logging.getLogger(__name__)

LOOK_S = 1.0  # between two checks whether the lease is still held and the turn still wanted
CANCELLED, SUSPENDED = "CANCELLED", "SUSPENDED"
_TRIES = 5


@final
class TurnUnwanted(ThreadError):
    """The turn was stopped by another request or process.

    `reason`: `CANCELLED` by a person, or `SUSPENDED` in favour of a conversation.
    """

    def __init__(self, *, thread_id: str, reason: str = CANCELLED) -> None:
        self.reason = reason
        super().__init__(thread_id=thread_id)


@final
class TurnLeases:
    """Leases conversations of one workspace for this process; with another `prefix`, other keys."""

    def __init__(
        self,
        records: RecordStore,
        *,
        owner: str | None = None,
        clock: Callable[[], int] = now_ms,
        look_s: float = LOOK_S,
        prefix: str = "turn",
    ) -> None:
        self._records = records
        self._clock = clock
        self._prefix = prefix
        self._owner = owner or new_owner()
        self._look_s = look_s
        self._here: set[str] = set()

    @asynccontextmanager
    async def held(
        self, thread_id: str, *, facts: Mapping[str, str] | None = None
    ) -> AsyncGenerator[TurnLease]:
        """Holds the lease of a thread until the end of the block; `facts` are stored on it.

        Raises: ThreadBusy, SourceError.
        """
        if thread_id in self._here:
            raise ThreadBusy(thread_id=thread_id)
        self._here.add(thread_id)
        try:
            lease = Lease(
                self._records,
                self._key(thread_id),
                self._owner,
                facts={"threadId": thread_id, **(facts or {})},
                refused=lambda: ThreadBusy(thread_id=thread_id),
                clock=self._clock,
                held_ms=HELD_MS,
            )
            await lease.hold()
            with self.watched(thread_id) as inbox:
                turn = TurnLease(lease, thread_id, inbox)
                renewing = asyncio.create_task(turn.keep(self._look_s))
                try:
                    yield turn
                finally:
                    turn.end()
                    await asyncio.shield(renewing)
        finally:
            self._here.discard(thread_id)

    def _key(self, thread_id: str) -> str:
        return f"{self._prefix}/{thread_id}"

    def watched(self, thread_id: str) -> AbstractContextManager[NoticeInbox]:
        """Yields an inbox of the notices about the lease of a thread."""
        return self._records.notices.subscribed(KIND, key=self._key(thread_id))

    async def holder(self, thread_id: str) -> Record | None:
        """Returns the stored lease of a thread, None if it is not held now. Raises: SourceError."""
        record = await self._records.get(KIND, self._key(thread_id))
        if record is None or is_free(record.data, self._owner, self._clock()):
            return None
        return record

    async def last_held(self, thread_id: str) -> int | None:
        """Returns when the lease of a thread was last renewed, None if no lease is stored.

        Units: milliseconds since 1970. Raises: SourceError.
        """
        record = await self._records.get(KIND, self._key(thread_id))
        expires = None if record is None else record.data.get("expiresTime")
        return expires - HELD_MS if isinstance(expires, int) else None

    async def runs(self, thread_id: str) -> bool:
        """Returns whether a turn of a thread runs, here or in another process.

        One that ends here runs until `held` would let another begin: its stored lease is given
        back a moment earlier. Raises: SourceError.
        """
        return thread_id in self._here or await self.holder(thread_id) is not None

    async def held_on(self, graph_key: str) -> list[Mapping[str, Any]]:
        """Returns the data of the leases about a graph that are held now. Raises: SourceError."""
        records = await self._records.query(KIND, {"graphKey": graph_key})
        now = self._clock()
        own = [record.data for record in records if record.key.startswith(f"{self._prefix}/")]
        return [data for data in own if not is_free(data, self._owner, now)]

    async def ask_to_stop(self, thread_id: str, reason: str = CANCELLED) -> bool:
        """Asks the owner of a thread to stop its turn. Returns whether a turn is under way.

        Raises: SourceError.
        """
        for _ in range(_TRIES):
            held = await self.holder(thread_id)
            if held is None:
                return False
            unwanted = Record(kind=KIND, key=held.key, data={**held.data, "unwanted": reason})
            if await put_over(self._records, unwanted, held.version):
                return True
        return False  # renewed or given back each time


@final
class TurnLease:
    """A held lease on a thread. Cancels the work inside `step` when the lease is lost, or when the
    turn is to be stopped. A `Fence` for transactions.
    """

    def __init__(self, lease: Lease, thread_id: str, inbox: NoticeInbox) -> None:
        self._lease = lease
        self.thread_id = thread_id
        self._inbox = inbox
        self._has_ended = False
        self._working = set[asyncio.Task[Any]]()

    def check(self) -> None:
        """Raises: ThreadBusy if another process holds the thread, or may hold it."""
        if self._lease.has_lapsed:
            raise ThreadBusy(thread_id=self.thread_id)

    def fence(self) -> RecordWrite:
        """Returns the write that fails a transaction once the lease is lost; see `Lease.fence`."""
        return self._lease.fence()

    async def read(self) -> None:
        """Reads the record again, for the next `fence`. Raises: ThreadBusy, SourceError."""
        await self._lease.read()

    async def write(self, *writes: RecordWrite) -> Sequence[Record | None]:
        """Stores the writes, all or none, if the lease is still held.

        Raises: ThreadBusy, RecordConflict, SourceError.
        """
        return await self._lease.write(*writes)

    @property
    def _unwanted(self) -> str | None:
        """The reason why the turn is to stop."""
        return self._lease.data.get("unwanted")

    @contextmanager
    def step(self) -> Generator[None]:
        """Runs the block so that another process can cancel it. Several tasks may have one each.

        Raises: ThreadBusy, TurnUnwanted.
        """
        self._raise_if_over()
        task = asyncio.current_task()
        assert task is not None
        self._working.add(task)
        before = task.cancelling()
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._working and task.uncancel() <= before:
                self._raise_if_over()  # it was cancelled from here, and by nobody else
            raise
        finally:
            self._working.discard(task)

    def _raise_if_over(self) -> None:
        self.check()
        if self._unwanted is not None:
            raise TurnUnwanted(thread_id=self.thread_id, reason=self._unwanted)

    async def keep(self, look_s: float) -> None:
        """Renews the lease until `end` is called or the lease is lost, and then gives it back."""
        while not self._has_ended and not self._lease.has_lapsed:
            await self._inbox.wait(look_s)
            if not self._has_ended:
                await self._look()
        await self._lease.give_back()

    def end(self) -> None:
        """Ends `keep`."""
        self._has_ended = True
        self._inbox.wake()

    async def _look(self) -> None:
        try:
            await (self._lease.hold() if self._lease.is_due else self._lease.read())
        except ThreadBusy:
            pass  # it has lapsed
        except SourceError as exc:  # the store may be back before the lease ends
            log.warning(
                "lease_unreadable", extra={"thread_id": self.thread_id, "error": type(exc).__name__}
            )
        if self._lease.has_lapsed or self._unwanted is not None:
            tasks = list(self._working)
            self._working.clear()
            for task in tasks:
                task.cancel()


async def pause_run_of(slots: TurnLeases, sessions: TurnLeases, graph_key: str) -> None:
    """Asks the process that runs an automation on a graph to pause it. The run resumes later.

    Raises nothing.
    """
    try:
        slot = await slots.holder(graph_key)
        if slot is not None:
            await sessions.ask_to_stop(str(slot.data.get("sessionId")), SUSPENDED)
    except SourceError as exc:
        log.warning("yield_failed", extra={"graphKey": graph_key, "error": type(exc).__name__})


async def take_over(threads: Threads, thread_id: str, person: Person) -> StoredThread:
    """Returns a held thread. If its turn broke off, the thread is stored once before, which makes
    every later write of the previous owner fail.

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


async def effective_status(
    threads: Threads, leases: TurnLeases, thread: Thread, person: Person
) -> Thread:
    """Returns a thread with the true status of its turn: failed if its owner ended. Stores nothing.

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
