"""Leases on conversations: while one is renewed nobody else runs a turn of that conversation.

The slot of a graph, which lets one automation work on it, is leased the same way. A person who
stops the turn from elsewhere leaves a note on the lease's record, where its owner looks.

Decision: the stored thread's own version is the fencing token. A process that takes over a turn
that broke off stores the thread once before anything else (`take_over`); from then on every write
of the owner before meets another version and is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from datasources.base import Record, RecordStore
from datasources.errors import BadDocument, SourceError
from graphrag.agent.thread_store import StoredThread, Thread, ThreadBusy, ThreadError, Threads
from graphrag.leases import HELD_MS, KIND, Lease, is_free, new_owner, now_ms
from graphrag.roles import Person
from graphrag.stored_records import put_over

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""So often an owner looks whether the turn is still its own and still wanted."""
CANCELLED, SUSPENDED = "CANCELLED", "SUSPENDED"
_TRIES = 5


class TurnUnwanted(ThreadError):
    """The turn was stopped from elsewhere; its owner ends it.

    `reason` is why a session ends or pauses: `CANCELLED` by a person, `SUSPENDED`
    for a conversation.
    """

    def __init__(self, *, thread_id: str, reason: str = CANCELLED) -> None:
        self.reason = reason
        super().__init__(thread_id=thread_id)


class TurnLeases:
    """Leases conversations of one workspace for this process, one turn each; by
    `prefix` other keys.
    """

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
        """Hold a thread, renewed until the end of the block; `facts` are stored on the lease.

        Raises: ThreadBusy, SourceError.
        """
        if thread_id in self._here:
            raise ThreadBusy(thread_id=thread_id)
        self._here.add(thread_id)
        try:
            lease = TurnLease(
                self._records,
                self._key(thread_id),
                self._owner,
                facts={"threadId": thread_id, **(facts or {})},
                refused=lambda: ThreadBusy(thread_id=thread_id),
                clock=self._clock,
                held_ms=HELD_MS,
            )
            await lease.hold()
            renewing = asyncio.create_task(lease.keep(self._look_s))
            try:
                yield lease
            finally:
                lease.ended.set()
                await asyncio.shield(renewing)
        finally:
            self._here.discard(thread_id)

    def _key(self, thread_id: str) -> str:
        return f"{self._prefix}/{thread_id}"

    async def holder(self, thread_id: str) -> Record | None:
        """Return the stored lease of a thread that somebody holds now. Raises: SourceError."""
        found = await self._records.get(KIND, self._key(thread_id))
        return None if found is None or is_free(found.data, self._owner, self._clock()) else found

    async def last_held(self, thread_id: str) -> int | None:
        """Returns when the lease of a thread was last renewed, held or not; None where no
        lease is stored.

        Units: milliseconds since 1970. Raises: SourceError.
        """
        found = await self._records.get(KIND, self._key(thread_id))
        expires = None if found is None else found.data.get("expiresTime")
        return expires - HELD_MS if isinstance(expires, int) else None

    async def runs(self, thread_id: str) -> bool:
        """Returns whether a turn of a thread runs, here or in another process.

        One that ends here runs until `held` would let another begin: its stored lease is given
        back a moment earlier. Raises: SourceError.
        """
        return thread_id in self._here or await self.holder(thread_id) is not None

    async def held_on(self, graph_key: str) -> list[Mapping[str, Any]]:
        """Return what is stored on the leases about a graph that are held
        now. Raises: SourceError.
        """
        found = await self._records.query(KIND, {"graphKey": graph_key})
        now = self._clock()
        own = [record.data for record in found if record.key.startswith(f"{self._prefix}/")]
        return [data for data in own if not is_free(data, self._owner, now)]

    async def ask_to_stop(self, thread_id: str, reason: str = CANCELLED) -> bool:
        """Note that a turn is no longer wanted; say whether somebody runs
        one. Raises: SourceError.
        """
        for _ in range(_TRIES):
            found = await self.holder(thread_id)
            if found is None:
                return False
            unwanted = Record(kind=KIND, key=found.key, data={**found.data, "unwanted": reason})
            if await put_over(self._records, unwanted, found.version):
                return True
        return False  # renewed or given back each time


class TurnLease(Lease):
    """What runs within `step` ends when the lease is lost or the turn is no longer wanted."""

    def __init__(self, *of_lease: Any, **more: Any) -> None:
        super().__init__(*of_lease, **more)
        self.ended = asyncio.Event()
        self._working: asyncio.Task[Any] | None = None

    @property
    def thread_id(self) -> str:
        return str(self.data["threadId"])

    def check(self) -> None:
        """Raises: ThreadBusy when the thread is another's, or may be."""
        if self.has_lapsed:
            raise ThreadBusy(thread_id=self.thread_id)

    @property
    def _unwanted(self) -> str | None:
        """Why the turn is to end."""
        return self.data.get("unwanted")

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
        if self._unwanted is not None:
            raise TurnUnwanted(thread_id=self.thread_id, reason=self._unwanted)

    async def keep(self, look_s: float) -> None:
        """Renew and look until `ended` is set or the lease is lost; then give back
        what is still ours.
        """
        while not self.ended.is_set() and not self.has_lapsed:
            try:
                async with asyncio.timeout(look_s):
                    await self.ended.wait()
            except TimeoutError:
                await self._look()
        await self.give_back()

    async def _look(self) -> None:
        try:
            await (self.hold() if self.is_due else self.read())
        except ThreadBusy:
            pass  # it has lapsed
        except SourceError as exc:  # the store may be back before the lease ends
            log.warning(
                "lease_unreadable", extra={"thread_id": self.thread_id, "error": type(exc).__name__}
            )
        if self.has_lapsed or self._unwanted is not None:
            task = self._working
            self._working = None
            if task is not None:
                task.cancel()


async def pause_run_of(slots: TurnLeases, sessions: TurnLeases, graph_key: str) -> None:
    """Ask whichever process runs an automation on a graph to pause it; it goes on by itself later.

    Raises nothing.
    """
    try:
        holder = await slots.holder(graph_key)
        if holder is not None:
            await sessions.ask_to_stop(str(holder.data.get("sessionId")), SUSPENDED)
    except SourceError as exc:
        log.warning("yield_failed", extra={"graphKey": graph_key, "error": type(exc).__name__})


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


async def effective_status(
    threads: Threads, leases: TurnLeases, thread: Thread, person: Person
) -> Thread:
    """Return a thread with the true status of its turn: one whose owner is gone failed.
    Nothing is stored.

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
