"""Executes the requests of editors in order: tries, journals, commits, answers and broadcasts them.

Requests wait in a queue. The writer takes all waiting requests, tries each on a draft of the graph
(in a thread; a refused request changes nothing), and writes the accepted ones to the journal in one
write. Then it commits, answers and broadcasts them. So an answered request survives a crash.
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
from graphrag.live.edits import EDIT_LIMITS, Edit
from graphrag.live.errors import EditNotKept, LiveElsewhere
from graphrag.live.journal import JournalEntry
from graphrag.live.members import Broadcast, Member, Room
from graphrag.live.merge_remote import PendingBase
from graphrag.live.options import LiveWatch
from graphrag.live.working_copy import WorkingCopy
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

_THREADS = ThreadPoolExecutor(2, thread_name_prefix="live-edit")

Work = Callable[[GraphDraft], Edit]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEdit:
    """An accepted request: its time, the live revision after it, and the messages sent to other
    editors.

    `message` describes all of it in one message, if an editor requested it. Units: `size` in bytes
    of the journal.
    """

    timestamp: int
    revision: int
    message: dict[str, Any]
    messages: tuple[dict[str, Any], ...]
    size: int


@dataclass(slots=True, eq=False)
class _Request:
    """A request with the outcome of trying it on the draft: the entry to store, or the reason of a
    refusal.
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
    """Changes a working copy for editors, as its only writer; holds `lock` meanwhile.

    Calls `on_kept` after changes, and `on_lost` if another server took the graph over.
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
        """Stops the writer and refuses the waiting requests."""
        await end_tasks(self._task)
        self._fail(self._queue, self._refusal or self._interrupted())

    def refuse(self, exc: Exception) -> None:
        """Refuses all further requests with this error."""
        self._refusal = self._refusal or exc
        self._wake.set()

    async def ask(self, work: Work, user_id: str, sender: Member | None) -> AppliedEdit:
        """Executes a request. Raises EditNotKept or the error that refuses the request; it then has
        no effect.
        """
        if len(self._queue) >= self._pending:
            raise EditNotKept(graph_key=self._copy.graph_key, reason="too many changes are waiting")
        request = _Request(work, user_id, sender)
        self._queue.append(request)
        self._wake.set()
        return await request.done

    async def execute_all(self) -> None:
        """Executes the waiting requests; the caller holds the lock. Saves that become due
        delay it.
        """
        while self._queue:
            batch = self._queue[: EDIT_LIMITS.batch]
            self._queue = self._queue[EDIT_LIMITS.batch :]
            try:
                await self._execute(batch)
            except Exception as exc:  # an unexpected error must not stop the writer
                log.exception("edits_failed")
                self._fail(batch, exc)
            finally:
                self._fail(batch, self._interrupted())

    async def _work_on(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            async with self._lock:
                await self.execute_all()

    async def _execute(self, batch: list[_Request]) -> None:
        """Executes requests; those beyond the size of one write are removed from `batch` and queued
        again.
        """
        if self._refusal is not None:
            self._fail(batch, self._refusal)
            return
        pending = [request for request in batch if not request.done.done()]
        tried = await asyncio.get_running_loop().run_in_executor(_THREADS, self._try_batch, pending)
        remaining = pending[len(tried) :]
        batch[:] = [request for request in batch if request not in remaining]
        self._queue[:0] = remaining
        for request in tried:
            if request.error is not None:
                request.fail(request.error)
        try:
            await self._store([request.entry for request in tried if request.entry is not None])
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
        for request in tried:
            self._publish(request)
        if any(request.entry for request in tried):
            await self._on_kept()

    def _publish(self, request: _Request) -> None:
        """Answers an executed request and broadcasts its messages."""
        for broadcast in request.entry.broadcasts if request.entry is not None else ():
            self._room.send(broadcast, request.sender)
        if not request.done.done():
            request.done.set_result(
                AppliedEdit(
                    timestamp=self._room.latest
                    if request.entry is None
                    else request.entry.timestamp,
                    revision=self._copy.revision,
                    message=request.message,
                    messages=request.messages,
                    size=0 if request.entry is None else len(request.entry.text),
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

    def _try_batch(self, batch: Sequence[_Request]) -> list[_Request]:
        """Tries each request on the result of those before it, up to the size of one write.

        Runs in a thread while the lock is held, so nothing changes the graph meanwhile.
        """
        draft = GraphDraft(self._copy.state)
        base = self._copy.base.copied()
        tried: list[_Request] = []
        size = 0
        for request in batch:
            tried.append(request)
            try:
                self._try(request, draft, base)
            except Exception as exc:  # noqa: BLE001 - the requester gets it; others continue
                request.error = exc
            size += len(request.entry.text) if request.entry is not None else 0
            if size >= EDIT_LIMITS.batch_bytes:
                break
        return tried

    def _try(self, request: _Request, draft: GraphDraft, base: PendingBase) -> None:
        """Executes a request on the draft. Raises the error that refuses it; the draft is then
        unchanged.
        """
        trial = GraphDraft(draft)
        user = request.user_id
        edit = request.work(trial)
        changes = trial.changes()
        request.messages = tuple(
            self._room.stamped(message, user) for message, _ in edit.broadcasts
        )
        request.message = {**(request.messages[-1] if request.messages else {}), **edit.message}
        if not changes:
            return
        at = request.message["timestamp"]
        broadcasts = tuple(
            map(Broadcast.of, request.messages, (sheets for _, sheets in edit.broadcasts))
        )
        request.entry = JournalEntry(
            user_id=user,
            timestamp=at,
            broadcasts=broadcasts,
            changes=changes,
            base=base.note(changes, draft),
            history=tuple({**entry, "userId": user, "timestamp": at} for entry in edit.history),
        ).encoded()
        draft.add(changes)

    def _interrupted(self) -> EditNotKept:
        return EditNotKept(graph_key=self._copy.graph_key, reason="it was interrupted")

    def _fail(self, batch: Sequence[_Request], exc: Exception) -> None:
        for request in batch:
            request.fail(exc)
