"""A live graph, which several editors change at the same time and which is saved in the
background.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Concatenate, ParamSpec

from datasources.base import MutableGraphDataSource, RecordStore, RecordWrite
from datasources.errors import GraphNotFound, RevisionConflict, SourceError
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.changes.draft import GraphDraft
from graphrag.leases import Lease
from graphrag.live import edits
from graphrag.live.edit_history import REDO, UNDO, PastEdit, find_edit, next_to_undo, undo
from graphrag.live.edit_writer import AppliedEdit, Writer
from graphrag.live.errors import (
    EditNotFound,
    EditNotKept,
    LiveElsewhere,
    LiveError,
    LiveGraphClosed,
)
from graphrag.live.history_entries import Entry
from graphrag.live.members import Broadcast, Member, Message, Room
from graphrag.live.options import LiveOptions, LiveWatch, SaveStatus
from graphrag.live.working_copy import WorkingCopy, read_stored

log = logging.getLogger(__name__)
P = ParamSpec("P")

TAKEN_OVER = "another server took it over"
DELETED = "it was deleted"
# Edits are refused while the unsaved bytes exceed this multiple of the size at which a save is due,
# because saving fails then.
UNSAVED_FACTOR = 4

# The author of changes that no editor made.
SYSTEM = "system"


class LiveGraph:
    """A graph open for editing, created by `LiveGraphs.open`. Every method raises LiveGraphClosed
    once it is closed.
    """

    def __init__(
        self,
        source: MutableGraphDataSource,
        records: RecordStore,
        graph_key: str,
        *,
        lease: Lease,
        clock: Callable[[], int],
        options: LiveOptions,
        on_saved: Callable[[str, Sequence[str]], None],
        watch: LiveWatch,
    ) -> None:
        self.graph_key = graph_key
        self.workspace = source.workspace
        self._source = source
        self._records = records
        self._lease = lease
        self._clock = clock
        self._options = options
        self._on_saved = on_saved
        self._watch = watch
        self._lock = asyncio.Lock()
        self._writer: Writer
        self._closed: str | None = None
        self._copy: WorkingCopy
        self._room: Room
        self._auto_save = True
        self._unsaved_since: int | None = None
        self._retry_at, self._failures = 0, 0
        self._error: SourceError | None = None
        self._idle_since = clock()

    async def start(self) -> None:
        """Acquires the lease, reads the graph, and recovers the changes in its journal.

        Raises: GraphNotFound, LiveElsewhere, SourceError.
        """
        await self._lease.hold()
        try:
            state = await read_stored(self._source, self.graph_key)
            self._copy = WorkingCopy(
                self._source,
                self._records,
                state,
                self._lease,
                history_bytes=self._options.history_bytes,
            )
            self._room = Room(self.graph_key, self._clock, since=state.graph.last_updated_time)
            kept = await self._copy.recover()
        except BaseException:
            await self._lease.give_back()
            raise
        for change in kept:
            if not change.is_complete:
                self._room.skip(change.timestamp)
                continue
            for broadcast in change.broadcasts:
                self._room.remember(broadcast)
        if kept:
            self._unsaved_since = self._clock()
            log.info("journal_recovered", extra={"changes": len(kept)})
        self._writer = Writer(
            self._copy,
            self._room,
            self._lock,
            pending=self._options.pending,
            watch=self._watch,
            on_kept=self._kept,
            on_lost=lambda: self._end(TAKEN_OVER),
        )
        self._writer.start()

    # Reading

    @property
    def nodes(self) -> list[Node]:
        return list(self._copy.state.nodes.values())

    @property
    def edges(self) -> list[Edge]:
        return list(self._copy.state.edges.values())

    @property
    def has_unsaved(self) -> bool:
        return self._copy.has_unsaved

    @property
    def unsaved_history(self) -> Sequence[Entry]:
        """The history entries since the last save, oldest first."""
        return tuple(self._copy.history)

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def revision(self) -> int:
        """The stored revision or, while changes are unsaved, a larger number that grows with each
        of them.
        """
        return self._copy.revision

    @property
    def timestamp(self) -> int:
        """The time up to which the present graph contains every edit."""
        return self._room.seen

    def document(self) -> Graph:
        """Returns the graph document with the live revision."""
        return self._copy.state.graph.replace(
            revision=self.revision, last_updated_time=self._room.latest
        )

    def status(self) -> SaveStatus:
        return SaveStatus(
            revision=self._copy.base_revision,
            last_save_time=self._copy.last_save_time,
            has_unsaved_changes=self._copy.has_unsaved,
            auto_save_enabled=self._auto_save,
            error=None if self._error is None else type(self._error).__name__,
            next_attempt=self._retry_at if self._error else None,
        )

    # Members

    def join(self, user_id: str, sheet: str, from_timestamp: int | None = None) -> Member:
        """Adds an editor on a sheet, with the messages about it since a time in `missed`.

        Raises EditRefused if the sheet does not exist.
        """
        self._check_open()
        edits.check_sheet(GraphDraft(self._copy.state), sheet, "sheetId")
        return self._room.join(user_id, sheet, from_timestamp, queued=self._options.queued)

    def leave(self, member: Member) -> None:
        self._room.leave(member)
        self._idle_since = self._clock()

    def show(self, member: Member, facts: Message) -> None:
        """Sends a member's pointer and selection to the others on its sheet, except those with a
        backlog.

        Nothing of it is stored.
        """
        self._room.show(member, facts)

    @property
    def members(self) -> list[Member]:
        return list(self._room.members)

    # Editing

    async def edit(
        self,
        user_id: str,
        sender: Member | None,
        work: Callable[Concatenate[GraphDraft, P], edits.Edit],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> AppliedEdit:
        """Executes a function of `edits`, or `apply_instructions`, with the draft and these
        arguments.

        Raises: EditRefused, EditNotKept (try again); the edit then has no effect.
        """
        self._check_open()
        if self._copy.unsaved_bytes > UNSAVED_FACTOR * self._options.unsaved_bytes:
            raise EditNotKept(
                graph_key=self.graph_key, reason="too many changes could not be saved"
            )
        return await self._writer.ask(
            lambda draft: work(draft, *arguments, **named), user_id, sender
        )

    async def undo_edit(self, edit_id: str, user_id: str) -> AppliedEdit:
        """Undoes an edit by a new edit. Raises: EditNotFound, EditRefused, EditNotKept."""
        past = await find_edit(self._records, self.graph_key, self._copy.history, edit_id)
        if past is None:
            raise EditNotFound(graph_key=self.graph_key, edit_id=edit_id[:200])
        return await self.edit(user_id, None, undo, past)

    async def undo(
        self, user_id: str, *, redo: bool = False
    ) -> tuple[PastEdit, AppliedEdit] | None:
        """Undoes the person's latest edit or, with `redo`, their latest undo.

        Returns the undone edit and the new one, None if there is nothing to undo.
        """
        past = await next_to_undo(
            self._records, self.graph_key, self._copy.history, user_id, redo=redo
        )
        if past is None:
            return None
        by = REDO if redo else UNDO
        return past, await self.edit(user_id, None, undo, past, by=by)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise LiveGraphClosed(graph_key=self.graph_key, reason=self._closed)

    async def _kept(self) -> None:
        """Called after changes became unsaved; saves if their number is large. The writer holds the
        lock.
        """
        if self._unsaved_since is None:
            self._unsaved_since = self._clock()
            self._send_status()
        if self._is_save_due():
            with suppress(SourceError, LiveError):
                await self._save()

    # Saving

    async def save(self) -> SaveStatus:
        """Saves the unsaved changes now. Raises SourceError; the changes then stay in the journal
        and are saved later.
        """
        self._check_open()
        async with self._lock:
            await self._save()
        return self.status()

    def set_auto_save(self, enabled: bool) -> SaveStatus:
        """Turns periodic saving on or off. Without it, the graph is saved on request or when much
        is unsaved.
        """
        self._check_open()
        self._auto_save = enabled
        self._send_status()
        return self.status()

    async def _save(self) -> None:
        if self._closed is not None or not self._copy.has_unsaved:
            return
        began = time.perf_counter()
        is_saved = False
        try:
            keys, remote_edits = await self._copy.save(self._room.latest, self._clock())
            is_saved = True
        except (GraphNotFound, LiveElsewhere) as exc:
            self._end(DELETED if isinstance(exc, GraphNotFound) else TAKEN_OVER)
            raise
        except SourceError as exc:
            self._failures += 1
            wait = min(
                self._options.autosave_ms, self._options.retry_ms * 2 ** min(self._failures, 10)
            )
            self._error, self._retry_at = exc, self._clock() + wait
            log.warning(
                "save_failed", extra={"error": type(exc).__name__, "failures": self._failures}
            )
            self._send_status()
            raise
        finally:
            self._watch.saved(time.perf_counter() - began, ok=is_saved)
        self._error, self._failures, self._unsaved_since = None, 0, None
        for edit in remote_edits:
            self._announce(edit)
        self._on_saved(self.graph_key, keys)
        log.info("saved", extra={"nodes": len(keys)})
        self._send_status()

    def _announce(self, edit: edits.Edit) -> None:
        for message, sheets in edit.broadcasts:
            self._room.send(Broadcast.of(self._room.stamped(message, SYSTEM), sheets))

    def _send_status(self) -> None:
        self._room.notify(
            {"type": "saveStatus", **self.status().to_document(), "graphKey": self.graph_key}
        )

    # Changes stored by others

    async def refresh(self) -> None:
        """Merges changes that others stored. Raises: GraphNotFound, SourceError."""
        if self._closed is None and await self._copy.is_behind():
            async with self._lock:
                if self._closed is None and await self._copy.is_behind():
                    self._announce(await self._copy.merge_remote())

    async def apply_mutation(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        """Stores a change that no editor made, such as an approval, and shows it to the editors.

        Unsaved edits of the same elements are saved first, and count as a conflicting revision that
        the caller did not know. Other unsaved edits stay unsaved. Raises the errors of
        MutableGraphDataSource.apply; the change then has no effect.
        """
        async with self._lock:
            self._check_open()
            if expected_revision is not None and expected_revision == self._copy.revision:
                await self._save()
                expected_revision = self._copy.base_revision
            elif self._copy.base.meets(mutation, self._copy.state):
                await self._save()
            try:
                revision = await self._source.apply(
                    mutation, expected_revision=expected_revision, records=records
                )
            except RevisionConflict:
                if await self._copy.is_behind():
                    self._announce(await self._copy.merge_remote())
                raise
            try:
                self._announce(await self._copy.merge_mutation(mutation, revision))
            except GraphNotFound:
                self._end(DELETED)
            except SourceError as exc:
                # The change is stored; `tick` shows it once the store can be read.
                log.warning("not_absorbed", extra={"error": type(exc).__name__})
            return revision

    # Periodic work and closing

    async def tick(self) -> None:
        """Does the due work: renews the lease, saves, merges changes of others. Raises no error of
        the store.
        """
        with self._ending_if_lost():
            if self._lease.is_due:
                await self._lease.hold()
            if self._is_save_due():
                async with self._lock:
                    await self._save()
            await self.refresh()

    async def check_owner(self) -> None:
        """Closes the graph if another server took it over. Raises no error of the store."""
        with self._ending_if_lost():
            async with self._lock:
                await self._lease.read()

    async def show_stored(self) -> None:
        """Merges changes that others stored, as `refresh`. Raises no error of the store."""
        with self._ending_if_lost():
            await self.refresh()

    @contextmanager
    def _ending_if_lost(self) -> Generator[None]:
        try:
            yield
        except LiveElsewhere:
            self._end(TAKEN_OVER)
        except GraphNotFound:
            self._end(DELETED)
        except (SourceError, LiveError) as exc:
            log.warning("tick_failed", extra={"error": type(exc).__name__})

    def _is_save_due(self) -> bool:
        now = self._clock()
        if not self._copy.has_unsaved or now < self._retry_at:
            return False
        options = self._options
        copy = self._copy
        if copy.unsaved_changes >= options.unsaved or copy.unsaved_bytes >= options.unsaved_bytes:
            return True
        since = self._unsaved_since if self._unsaved_since is not None else now
        return self._auto_save and now - since >= self._options.autosave_ms

    @property
    def is_idle(self) -> bool:
        """Whether the graph has had no member for a while, and no request or change is pending."""
        quiet = self._clock() - self._idle_since >= self._options.idle_ms
        return (
            quiet and not self._room.members and self._writer.is_idle and not self._copy.has_unsaved
        )

    def _end(self, reason: str) -> None:
        self._closed = self._closed or reason
        self._writer.refuse(LiveGraphClosed(graph_key=self.graph_key, reason=self._closed))
        self._room.close(self._closed)

    async def abandon(self, reason: str) -> None:
        """Closes without saving, because the graph was deleted."""
        self._end(reason)
        await self.close(reason)

    async def close(self, reason: str = "it was closed") -> None:
        """Executes the waiting requests, saves, and releases the lease. Changes that cannot be
        saved stay in the journal.
        """
        try:
            async with self._lock:
                await self._writer.execute_all()
                if self._auto_save:
                    await self._save()
        except (SourceError, LiveError) as exc:
            log.warning("closed_unsaved", extra={"error": type(exc).__name__})
        finally:
            self._end(reason)
            await self._writer.stop()
            await self._lease.give_back()
