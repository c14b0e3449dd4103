"""Carries out editors' requests one after another: tried, journalled,
committed, answered, broadcast.

A request waits in a queue. The writer takes all that wait, tries each on a draft of the graph (in a
thread; one that is refused changes nothing), writes the accepted ones to the journal at once, and
only then commits, answers and broadcasts them. So an answer means: this survives a crash.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from datasources.errors import SourceError
from graphrag.changes.draft import GraphDraft
from graphrag.live.edits import Edit
from graphrag.live.errors import EditNotKept, LiveElsewhere
from graphrag.live.journal import JournalEntry
from graphrag.live.members import Broadcast, Member, Room
from graphrag.live.merge_remote import PendingBase
from graphrag.live.options import LiveWatch
from graphrag.live.working_copy import WorkingCopy
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

BATCH = 200
BATCH_BYTES = 8_000_000
"""Requests that one write to the journal takes in, and after how many bytes it takes no more."""

_THREADS = ThreadPoolExecutor(2, thread_name_prefix="live-edit")

Work = Callable[[GraphDraft], Edit]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEdit:
    """An accepted request: its time, the live revision after it, and the messages as
    others get them.

    `message` is all of it in one, where an editor asked for it. Units: `size` in
    bytes of the journal.
    """

    timestamp: int
    revision: int
    message: dict[str, Any]
    messages: tuple[dict[str, Any], ...]
    size: int


@dataclass(slots=True, eq=False)
class _Request:
    """What somebody asked for, and how it went on the draft: the entry to store, or
    why it is refused.
    """

    work: Work
    user_id: str
    sender: Member | None
    done: asyncio.Future[AppliedEdit] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    entry: JournalEntry | None = None
    message: dict[str, Any] = field(default_factory=dict[str, Any])
    messages: tuple[dict[str, Any], ...] = ()
    error: Exception | None = None

    def fail(self, exc: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(exc)


class Writer:
    """Changes a working copy on behalf of editors, alone; holds `lock` while it does.

    `on_kept` is called after changes were made, `on_lost` when another server took the graph over.
    """

    def __init__(
        self,
        copy: WorkingCopy,
        room: Room,
        lock: asyncio.Lock,
        *,
        pending: int,
        watch: LiveWatch,
        on_kept: Callable[[], Awaitable[None]],
        on_lost: Callable[[], None],
    ) -> None:
        self._copy = copy
        self._room = room
        self._lock = lock
        self._pending = pending
        self._on_kept = on_kept
        self._on_lost = on_lost
        self._watch = watch
        self._queue: list[_Request] = []
        self._wake = asyncio.Event()
        self._refusal: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def start(self) -> None:
        self._task = asyncio.create_task(self._work_on())

    async def stop(self) -> None:
        """Stop for good; what still waits is refused."""
        await end_tasks(self._task)
        self._fail(self._queue, self._refusal or self._interrupted())

    def refuse(self, exc: Exception) -> None:
        """Refuse from now on whatever is asked."""
        self._refusal = self._refusal or exc
        self._wake.set()

    async def ask(self, work: Work, user_id: str, sender: Member | None) -> AppliedEdit:
        """Have a request carried out. Raises: what refuses it, EditNotKept; then nothing of
        it was done.
        """
        if len(self._queue) >= self._pending:
            raise EditNotKept(graph_key=self._copy.graph_key, reason="too many changes wait")
        request = _Request(work, user_id, sender)
        self._queue.append(request)
        self._wake.set()
        return await request.done

    async def carry_out_all(self) -> None:
        """Carry out what waits; the caller holds the lock. Saves that fall due on the way
        hold it up.
        """
        while self._queue:
            batch = self._queue[:BATCH]
            self._queue = self._queue[BATCH:]
            try:
                await self._carry_out(batch)
            except Exception as exc:  # what nobody foresaw must not stop the editing
                log.exception("edits_failed")
                self._fail(batch, exc)
            finally:
                self._fail(batch, self._interrupted())

    async def _work_on(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            async with self._lock:
                await self.carry_out_all()

    async def _carry_out(self, batch: list[_Request]) -> None:
        """Carry out requests; what is too much for one write is taken from `batch` and waits on."""
        if self._refusal is not None:
            self._fail(batch, self._refusal)
            return
        asked = [request for request in batch if not request.done.done()]
        tried = await asyncio.get_running_loop().run_in_executor(_THREADS, self._tried, asked)
        left = asked[len(tried) :]
        batch[:] = [request for request in batch if request not in left]
        self._queue[:0] = left
        for one in tried:
            if one.error is not None:
                one.fail(one.error)
        try:
            await self._store([one.entry for one in tried if one.entry is not None])
        except LiveElsewhere as exc:
            self._fail(batch, exc)
            self._on_lost()
            return
        except SourceError as exc:
            log.warning("journal_failed", extra={"error": type(exc).__name__})
            self._fail(
                batch, EditNotKept(graph_key=self._copy.graph_key, reason=type(exc).__name__)
            )
            return
        for one in tried:
            self._publish(one)
        if any(one.entry for one in tried):
            await self._on_kept()

    def _publish(self, one: _Request) -> None:
        """Answer a request that was carried out, and broadcast what it did."""
        for broadcast in one.entry.broadcasts if one.entry is not None else ():
            self._room.send(broadcast, one.sender)
        if not one.done.done():
            one.done.set_result(
                AppliedEdit(
                    timestamp=self._room.latest if one.entry is None else one.entry.timestamp,
                    revision=self._copy.revision,
                    message=one.message,
                    messages=one.messages,
                    size=0 if one.entry is None else len(one.entry.text),
                )
            )

    async def _store(self, entries: Sequence[JournalEntry]) -> None:
        if not entries:
            return
        began = time.perf_counter()
        is_stored = False
        try:
            await self._copy.keep(entries)
            is_stored = True
        finally:
            self._watch.journalled(len(entries), time.perf_counter() - began, ok=is_stored)

    def _tried(self, batch: Sequence[_Request]) -> list[_Request]:
        """Try each request on what the ones before it leave, until they are enough for one write.

        Runs in a thread, while the lock is held: nothing changes the graph meanwhile.
        """
        draft = GraphDraft(self._copy.state)
        known = self._copy.base.copied()
        tried: list[_Request] = []
        size = 0
        for one in batch:
            tried.append(one)
            try:
                self._try(one, draft, known)
            except Exception as exc:  # noqa: BLE001 - whatever it is goes to who asked; the others go on
                one.error = exc
            size += len(one.entry.text) if one.entry is not None else 0
            if size >= BATCH_BYTES:
                break
        return tried

    def _try(self, one: _Request, draft: GraphDraft, known: PendingBase) -> None:
        """Carry a request out on the draft. Raises: what refuses it; then the
        draft is as before.
        """
        trial = GraphDraft(draft)
        user = one.user_id
        edit = one.work(trial)
        changes = trial.changes()
        one.messages = tuple(self._room.stamped(message, user) for message, _ in edit.broadcasts)
        one.message = {**(one.messages[-1] if one.messages else {}), **edit.message}
        if not changes:
            return
        at = one.message["timestamp"]
        broadcasts = tuple(
            map(Broadcast.of, one.messages, (sheets for _, sheets in edit.broadcasts))
        )
        one.entry = JournalEntry(
            user_id=user,
            timestamp=at,
            broadcasts=broadcasts,
            changes=changes,
            base=known.note(changes, draft),
            history=tuple({**entry, "userId": user, "timestamp": at} for entry in edit.history),
        ).encoded()
        draft.add(changes)

    def _interrupted(self) -> EditNotKept:
        return EditNotKept(graph_key=self._copy.graph_key, reason="it was interrupted")

    def _fail(self, batch: Sequence[_Request], exc: Exception) -> None:
        for request in batch:
            request.fail(exc)
