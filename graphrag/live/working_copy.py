"""The working copy of one graph: holds unsaved edits, saves them, and merges changes that others
stored.

Its methods are called one at a time, under the lock of its owner.

Decision: a revision counts stored changes, so an unsaved edit cannot have one. The live revision is
the stored one plus the number of unsaved changes times LIVE_STEP: no two contents of a graph share
one, and JavaScript can still represent it exactly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from datasources.base import MutableGraphDataSource, RecordStore
from datasources.errors import RecordConflict, RevisionConflict, SourceError
from datasources.types import Document, Mutation, parse_document
from graphrag.changes.draft import GraphDraft, LiveState
from graphrag.leases import KIND as LEASE
from graphrag.leases import Lease
from graphrag.live.broadcast import edit_of_changes
from graphrag.live.edit_history import KIND as HISTORY
from graphrag.live.edit_history import TOTAL, history_write
from graphrag.live.edits import Edit
from graphrag.live.errors import LiveElsewhere
from graphrag.live.journal import KIND as JOURNAL
from graphrag.live.journal import Journal, JournalEntry
from graphrag.live.merge_remote import PendingBase, difference, rebased

D = TypeVar("D", bound=Document)
log = logging.getLogger(__name__)

LIVE_STEP = 2**32
SAVE_ATTEMPTS = 5
# Maximum number of records of other programs that the pruning of the history skips.
FOREIGN = 50


async def read_stored(
    source: MutableGraphDataSource, graph_key: str, *, only: Collection[str] | None = None
) -> LiveState:
    """Reads a graph, or `only` the nodes of some keys, at one revision. Raises: GraphNotFound,
    SourceError.
    """
    graph = await source.get_graph(graph_key)
    while True:
        if only is None:
            nodes = await source.get_nodes(graph_key)
            edges = await source.get_edges(graph_key)
        else:
            nodes = await source.get_nodes_by_key(graph_key, list(only))
            edges = []
        again = await source.get_graph(graph_key)
        if again.revision == graph.revision and again.created_time == graph.created_time:
            # In a thread: with hundreds of thousands of edges this takes seconds.
            return await asyncio.to_thread(LiveState, graph, nodes, edges)
        graph = again


class WorkingCopy:
    """A graph in memory, with the edits that are in the journal and not saved."""

    def __init__(
        self,
        source: MutableGraphDataSource,
        records: RecordStore,
        state: LiveState,
        lease: Lease,
        *,
        history_bytes: int,
    ) -> None:
        self._source = source
        self._records = records
        self._lease = lease
        self._history_limit = history_bytes
        self.journal = Journal(records, state.graph.key, lease)
        self.state = state
        self.base = PendingBase()
        self.base_revision = state.graph.revision
        self.unsaved_changes = self.unsaved_bytes = 0
        self.last_save_time = state.graph.last_updated_time
        self.history: list[Mapping[str, Any]] = []
        self._history_bytes = 0
        self._history_total: int | None = None
        self._oldest_total = 0

    @property
    def graph_key(self) -> str:
        return self.state.graph.key

    @property
    def has_unsaved(self) -> bool:
        return bool(self.base) or not self.journal.is_empty

    @property
    def revision(self) -> int:
        return self.base_revision + self.unsaved_changes * LIVE_STEP

    async def recover(self) -> list[JournalEntry]:
        """Applies the unsaved changes in the journal of an earlier owner; returns them.

        Raises: SourceError, LiveElsewhere.
        """
        kept = await self.journal.read()
        if not kept:
            await self.journal.discard()  # it has only its first record, without changes
            return []
        journalled = LiveState(
            self.state.graph, self.state.nodes.values(), self.state.edges.values()
        )
        base = PendingBase()
        for change in kept:
            base.add(change.base)
            # Documents whose base is not journalled, because a save was in progress.
            base.note(change.changes, self.state)
            journalled.commit(change.changes)
            self._note(change)
        self.base = rebased(journalled, base, self.state)
        return kept

    def _note(self, change: JournalEntry) -> None:
        self.history += change.history
        self._history_bytes += change.history_bytes
        self.unsaved_changes += 1
        self.unsaved_bytes += len(change.text)

    async def keep(self, kept: Sequence[JournalEntry]) -> None:
        """Writes changes to the journal and applies them, if the graph's lease is still held.

        Raises: SourceError, LiveElsewhere; the changes then have no effect.
        """
        await self.journal.append(kept)
        for change in kept:
            self.base.add(change.base)
            self.state.commit(change.changes)
            self._note(change)

    async def save(self, latest: int, now: int) -> tuple[list[str], list[Edit]]:
        """Stores the unsaved changes in one transaction with the fence of the graph's lease.

        Returns the keys of the stored nodes, and the edits of others that were merged.
        Raises: SourceError (the edits stay in the journal), LiveElsewhere if another server took
        the graph over.
        """
        remote_edits: list[Edit] = []
        for _ in range(SAVE_ATTEMPTS):
            try:
                saved = await self._save(latest, now)
                await self._prune_history()
            except RevisionConflict:
                remote_edits.append(await self.merge_remote())
            except RecordConflict as exc:
                if exc.kind not in (JOURNAL, LEASE):
                    raise
                # The cause is another server or our own write: a renewal of the lease, or a save
                # whose answer was lost.
                await self._lease.hold()
                await self.journal.read()
            else:
                return saved, remote_edits
        raise LiveElsewhere(graph_key=self.graph_key)

    async def _save(self, latest: int, now: int) -> list[str]:
        mutation = await asyncio.to_thread(self.base.mutation_to, self.state, latest)
        total = await self._total() + self._history_bytes
        clearing = await self.journal.clearing()
        await self._lease.read()
        history = history_write(self.graph_key, self.history, total_bytes=total)
        revision = await self._source.apply(
            mutation,
            expected_revision=self.base_revision,
            records=[self._lease.fence(), *clearing, *history],
        )
        self._saved(revision, latest)
        self._history_total = total
        self.last_save_time = now
        return [node.key for node in mutation.put_nodes]

    async def _total(self) -> int:
        """Returns the size in bytes of the graph's whole history. Raises: SourceError."""
        if self._history_total is None:
            latest = await self._records.query(
                HISTORY,
                {"graphKey": self.graph_key},
                order_by="timestamp",
                descending=True,
                limit=1,
            )
            self._history_total = int(latest[0].data.get(TOTAL, 0)) if latest else 0
        return self._history_total

    async def _prune_history(self) -> None:
        """Deletes the oldest history records beyond the limit. After an error the next save tries
        again.

        Records of other programs stay. If the oldest FOREIGN records are all theirs, nothing is
        deleted.
        """
        floor = await self._total() - self._history_limit
        limit = 1
        where = {"graphKey": self.graph_key}
        try:
            while self._oldest_total < floor:
                oldest = await self._records.query(
                    HISTORY, where, order_by="timestamp", limit=limit
                )
                prunable = next((record for record in oldest if TOTAL in record.data), None)
                if prunable is None and len(oldest) == limit < FOREIGN:
                    limit = FOREIGN
                    continue
                self._oldest_total = floor if prunable is None else int(prunable.data[TOTAL])
                if prunable is not None and self._oldest_total < floor:
                    await self._records.delete(
                        HISTORY, prunable.key, expected_version=str(prunable.version)
                    )
        except SourceError as exc:
            log.warning("history_not_pruned", extra={"error": type(exc).__name__})

    def _saved(self, revision: int, latest: int) -> None:
        self.journal.cleared()
        self.base = PendingBase()
        self.unsaved_changes = self.unsaved_bytes = self._history_bytes = 0
        self.history.clear()
        self.base_revision = revision
        self.state.graph = self.state.graph.replace(revision=revision, last_updated_time=latest)

    async def is_behind(self) -> bool:
        """Whether others have changed the stored graph. Raises: GraphNotFound, SourceError."""
        return (await self._source.get_graph(self.graph_key)).revision != self.base_revision

    async def merge_remote(self) -> Edit:
        """Merges changes that others stored with the unsaved edits; returns their effect on the
        live graph.

        Raises: GraphNotFound, SourceError.
        """
        stored = await read_stored(self._source, self.graph_key)
        revision = stored.graph.revision
        base = rebased(self.state, self.base, stored)
        edit = edit_of_changes(self.state, difference(self.state, stored))
        self.state = stored
        self.base = base
        self.base_revision = revision
        return edit

    async def merge_mutation(self, mutation: Mutation, revision: int) -> Edit:
        """Applies a mutation that was stored as `revision`; returns its effect on the live graph.

        Raises: GraphNotFound, SourceError.
        """
        if revision != self.base_revision + 1:
            return await self.merge_remote()
        draft = GraphDraft(self.state)
        if mutation.graph is not None:
            draft.set_graph(mutation.graph)
        for key in mutation.delete_edges:
            draft.delete_edge(key)
        for key in mutation.delete_nodes:
            draft.delete_node(key)
        for node in mutation.put_nodes:
            draft.put_node(_copied(node))
        for edge in mutation.put_edges:
            draft.put_edge(_copied(edge))
        changes = draft.changes()
        edit = edit_of_changes(self.state, changes)
        self.state.commit(changes)
        self.state.graph = self.state.graph.replace(revision=revision)
        self.base_revision = revision
        return edit


def _copied(document: D) -> D:
    """Returns a copy of the document as a store returns it, independent of the caller's objects."""
    return parse_document(type(document), document.to_json(), "elements")
