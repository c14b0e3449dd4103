"""The working copy of one graph beside its store: holds and saves what is unsaved, merges
what others stored.

Its methods are called one at a time: its owner holds a lock.

Decision: a revision counts stored changes, so an unsaved edit cannot have one. The live revision is
the stored one plus the number of unsaved changes times LIVE_STEP: no two contents of a graph share
one, and JavaScript can still count it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from datasources.base import MutableGraphDataSource, RecordStore
from datasources.errors import RecordConflict, RevisionConflict, SourceError
from datasources.types import Document, Mutation, parse_document
from graphrag.changes.draft import GraphDraft, LiveState
from graphrag.leases import KIND as LEASE
from graphrag.leases import Lease
from graphrag.live.broadcast import described
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
FOREIGN = 50


async def read_stored(
    source: MutableGraphDataSource, graph_key: str, *, only: str | None = None
) -> LiveState:
    """Read a graph whole, or `only` one node of it, at one revision.
    Raises: GraphNotFound, SourceError.
    """
    graph = await source.get_graph(graph_key)
    while True:
        if only is None:
            nodes = await source.get_nodes(graph_key)
            edges = await source.get_edges(graph_key)
        else:
            nodes = await source.get_nodes_by_key(graph_key, [only])
            edges = []
        again = await source.get_graph(graph_key)
        if again.revision == graph.revision and again.created_time == graph.created_time:
            # Of hundreds of thousands of edges this takes seconds: not in the event loop.
            return await asyncio.to_thread(LiveState, graph, nodes, edges)
        graph = again


class WorkingCopy:
    """A graph in memory with the edits that are journalled and not saved."""

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
        """Take in what an earlier owner journalled and did not save; return it.

        Raises: SourceError, LiveElsewhere.
        """
        kept = await self.journal.read()
        if not kept:
            await self.journal.discard()  # a mark alone
            return []
        then = LiveState(self.state.graph, self.state.nodes.values(), self.state.edges.values())
        base = PendingBase()
        for change in kept:
            base.add(change.base)
            base.note(change.changes, self.state)  # what a save under way would have noted
            then.commit(change.changes)
            self._note(change)
        self.base = rebased(then, base, self.state)
        return kept

    def _note(self, change: JournalEntry) -> None:
        self.history += change.history
        self._history_bytes += change.history_bytes
        self.unsaved_changes += 1
        self.unsaved_bytes += len(change.text)

    async def keep(self, kept: Sequence[JournalEntry]) -> None:
        """Journal changes and make them real, if the graph's lease is still held.

        Raises: SourceError, LiveElsewhere; then nothing of them is.
        """
        await self.journal.append(kept)
        for change in kept:
            self.base.add(change.base)
            self.state.commit(change.changes)
            self._note(change)

    async def save(self, latest: int, now: int) -> tuple[list[str], list[Edit]]:
        """Store what is unsaved, in one transaction with the fence of the graph's lease.

        Return the keys of the nodes stored, and what others had changed.
        Raises: SourceError; the edits stay journalled. LiveElsewhere when another took
        the graph over.
        """
        taken: list[Edit] = []
        for _ in range(SAVE_ATTEMPTS):
            try:
                saved = await self._save(latest, now)
                await self._prune_history()
            except RevisionConflict:
                taken.append(await self.merge_remote())
            except RecordConflict as exc:
                if exc.kind not in (JOURNAL, LEASE):
                    raise
                # Another's write, unless it is our own: a renewal, or a save whose answer was lost.
                await self._lease.hold()
                await self.journal.read()
            else:
                return saved, taken
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
        """Return the bytes that the graph's history has taken in so far. Raises: SourceError."""
        if self._history_total is None:
            found = await self._records.query(
                HISTORY,
                {"graphKey": self.graph_key},
                order_by="timestamp",
                descending=True,
                limit=1,
            )
            self._history_total = int(found[0].data.get(TOTAL, 0)) if found else 0
        return self._history_total

    async def _prune_history(self) -> None:
        """Delete the oldest records of history beyond its limit; what fails is tried after
        the next save.

        Records that another program wrote are left; behind more than FOREIGN of them
        nothing is deleted.
        """
        floor = await self._total() - self._history_limit
        limit = 1
        where = {"graphKey": self.graph_key}
        try:
            while self._oldest_total < floor:
                found = await self._records.query(HISTORY, where, order_by="timestamp", limit=limit)
                own = next((record for record in found if TOTAL in record.data), None)
                if own is None and len(found) == limit < FOREIGN:
                    limit = FOREIGN
                    continue
                self._oldest_total = floor if own is None else int(own.data[TOTAL])
                if own is not None and self._oldest_total < floor:
                    await self._records.delete(HISTORY, own.key, expected_version=str(own.version))
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
        """Whether somebody else has changed the stored graph. Raises: GraphNotFound,
        SourceError.
        """
        return (await self._source.get_graph(self.graph_key)).revision != self.base_revision

    async def merge_remote(self) -> Edit:
        """Take in what others stored, below what is unsaved; return what that changes here.

        Raises: GraphNotFound, SourceError.
        """
        stored = await read_stored(self._source, self.graph_key)
        revision = stored.graph.revision
        base = rebased(self.state, self.base, stored)
        edit = described(self.state, difference(self.state, stored))
        self.state = stored
        self.base = base
        self.base_revision = revision
        return edit

    async def merge_mutation(self, mutation: Mutation, revision: int) -> Edit:
        """Take in a mutation that was stored as a revision; return what it changes here.

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
        edit = described(self.state, changes)
        self.state.commit(changes)
        self.state.graph = self.state.graph.replace(revision=revision)
        self.base_revision = revision
        return edit


def _copied(document: D) -> D:
    """Return the document as a store gives it back, apart from the caller's objects."""
    return parse_document(type(document), document.to_json(), "elements")
