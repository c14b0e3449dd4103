"""Carries out editors' requests one after another: tried, journalled, made real, answered, told.

A request waits in a queue. The writer takes all that wait, tries each on a draft of the graph (one
that is refused changes nothing), writes the accepted ones to the journal at once, and only then
makes them real, answers who asked and tells the others. So an answer means: this survives a crash.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from datasources.errors import SourceError
from graphrag.live.edits import Edit
from graphrag.live.errors import EditNotKept, LiveElsewhere
from graphrag.live.journal import Kept
from graphrag.live.lease import Lease
from graphrag.live.members import Member, Room
from graphrag.live.options import LiveWatch
from graphrag.live.state import Draft
from graphrag.live.working import WorkingCopy

log = logging.getLogger(__name__)

BATCH = 200
"""Requests that one write to the journal takes in at most."""

Work = Callable[[Draft], Edit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """An accepted request: its time, the live revision after it, and the messages as others get them."""

    timestamp: int
    revision: int
    messages: tuple[dict[str, Any], ...]

    @property
    def message(self) -> dict[str, Any]:
        return self.messages[0] if self.messages else {}


@dataclass(slots=True, eq=False)
class _Request:
    work: Work
    user_id: str
    sender: Member | None
    done: asyncio.Future[Applied] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Writer:
    """The one who changes a working copy on behalf of editors; holds `lock` while it does.

    `on_kept` is told that changes were made, `on_lost` that another server took the graph over.
    """

    def __init__(
        self,
        copy: WorkingCopy,
        room: Room,
        lock: asyncio.Lock,
        lease: Lease,
        *,
        pending: int,
        watch: LiveWatch,
        on_kept: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._copy, self._room, self._lock, self._lease = copy, room, lock, lease
        self._pending, self._on_kept, self._on_lost = pending, on_kept, on_lost
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
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._fail(self._queue, self._refusal or self._interrupted())

    def refuse(self, exc: Exception) -> None:
        """Refuse from now on whatever is asked."""
        self._refusal = self._refusal or exc
        self._wake.set()

    async def ask(self, work: Work, user_id: str, sender: Member | None) -> Applied:
        """Have a request carried out. Raises: what refuses it, EditNotKept; then nothing of it was done."""
        if len(self._queue) >= self._pending:
            raise EditNotKept(graph_key=self._copy.graph_key, reason="too many changes wait")
        request = _Request(work, user_id, sender)
        self._queue.append(request)
        self._wake.set()
        return await request.done

    async def carry_out_all(self) -> None:
        """Carry out what waits; the caller holds the lock."""
        while self._queue:
            batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
            try:
                await self._carry_out([request for request in batch if not request.done.done()])
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

    async def _carry_out(self, batch: Sequence[_Request]) -> None:
        if self._refusal is not None:
            self._fail(batch, self._refusal)
            return
        accepted = self._tried(batch)
        kept = [change for _, change in accepted if change.changes]
        try:
            if kept:
                await self._keep(kept)
        except LiveElsewhere as exc:
            self._fail(batch, exc)
            self._on_lost()
            return
        except SourceError as exc:
            log.warning("journal_failed", extra={"error": type(exc).__name__})
            self._fail(batch, EditNotKept(graph_key=self._copy.graph_key, reason=type(exc).__name__))
            return
        for request, change in accepted:
            for told in change.told if change.changes else ():
                self._room.tell(told, request.sender)
            if not request.done.done():
                request.done.set_result(self._applied(change))
        if kept:
            self._on_kept()

    async def _keep(self, kept: Sequence[Kept]) -> None:
        began, is_kept = time.perf_counter(), False
        try:
            await self._copy.keep(kept, self._confirm)
            is_kept = True
        finally:
            self._watch.journalled(len(kept), time.perf_counter() - began, ok=is_kept)

    async def _confirm(self) -> None:
        """A hold that may have lapsed while the journal was written must be ours still.

        Raises: LiveElsewhere, SourceError.
        """
        if self._lease.has_lapsed:
            await self._lease.renew()

    def _tried(self, batch: Sequence[_Request]) -> list[tuple[_Request, Kept]]:
        """Try each request on what the ones before it leave."""
        draft = Draft(self._copy.state)
        accepted: list[tuple[_Request, Kept]] = []
        known = self._copy.unsaved.copied()
        for request in batch:
            trial = Draft(draft)
            try:
                edit = request.work(trial)
                changes = trial.changes()
            except Exception as exc:  # noqa: BLE001 - whatever it is goes to who asked; the others go on
                request.done.set_exception(exc)
                continue
            user = request.user_id
            told = tuple(self._room.stamped(message, sheets, user) for message, sheets in edit.told)
            at = self._room.latest
            history = tuple({**entry, "userId": user, "timestamp": at} for entry in edit.history)
            was = known.note(changes, draft)
            draft.add(changes)
            kept = Kept(user_id=user, told=told, changes=changes, was=was, history=history)
            accepted.append((request, kept))
        return accepted

    def _applied(self, change: Kept) -> Applied:
        return Applied(
            timestamp=change.told[-1].timestamp if change.told else self._room.latest,
            revision=self._copy.revision,
            messages=tuple(told.message for told in change.told),
        )

    def _interrupted(self) -> EditNotKept:
        return EditNotKept(graph_key=self._copy.graph_key, reason="it was interrupted")

    def _fail(self, batch: Sequence[_Request], exc: Exception) -> None:
        for request in batch:
            if not request.done.done():
                request.done.set_exception(exc)
