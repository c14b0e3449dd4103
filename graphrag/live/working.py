"""The working copy of one graph beside its store: what is unsaved, saving it, taking in what others stored.

Its methods are called one at a time: whoever owns it holds a lock.

Decision: a revision counts stored changes, so an unsaved edit cannot have one. The live revision is the
stored one plus the number of unsaved changes times LIVE_STEP: no two contents of a graph share one, and
JavaScript can still count it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from datasources.base import MutableGraphDataSource
from datasources.errors import RecordConflict, RevisionConflict, SourceError
from datasources.types import Document, Graph, Mutation, parse_document
from graphrag.live.edits import Edit
from graphrag.live.errors import LiveElsewhere, LiveError
from graphrag.live.history import history_write
from graphrag.live.journal import KIND as JOURNAL
from graphrag.live.journal import Journal, Kept
from graphrag.live.lease import KIND as LEASE
from graphrag.live.lease import Lease
from graphrag.live.merge import Unsaved, difference, rebased
from graphrag.live.state import Draft, LiveState
from graphrag.live.telling import described

D = TypeVar("D", bound=Document)

LIVE_STEP = 2**32
SAVE_ATTEMPTS = 5


async def read_stored(source: MutableGraphDataSource, graph_key: str) -> LiveState:
    """Read a graph whole, at one revision. Raises: GraphNotFound, SourceError."""
    graph = await source.get_graph(graph_key)
    while True:
        nodes, edges = await source.get_nodes(graph_key), await source.get_edges(graph_key)
        again = await source.get_graph(graph_key)
        if again.revision == graph.revision and again.created_time == graph.created_time:
            return LiveState(graph, nodes, edges)
        graph = again


class WorkingCopy:
    """A graph in memory with the edits that are journalled and not saved."""

    def __init__(self, source: MutableGraphDataSource, journal: Journal, state: LiveState) -> None:
        self._source, self.journal = source, journal
        self.state = state
        self.unsaved = Unsaved()
        self.base_revision = state.graph.revision
        self.unsaved_changes = 0
        self.last_save_time = state.graph.last_updated_time
        self.history: list[Mapping[str, Any]] = []

    @property
    def graph_key(self) -> str:
        return self.state.graph.key

    @property
    def has_unsaved(self) -> bool:
        return bool(self.unsaved) or not self.journal.is_empty

    @property
    def revision(self) -> int:
        return self.base_revision + self.unsaved_changes * LIVE_STEP

    def live_graph(self, latest: int) -> Graph:
        """Return the graph document as it is now; `latest` is the time of the last change."""
        return self.state.graph.replace(revision=self.revision, last_updated_time=latest)

    async def recover(self) -> list[Kept]:
        """Take in what an earlier owner journalled and did not save; return it. Raises: SourceError."""
        kept = await self.journal.read()
        if not kept:
            return []
        then = LiveState(self.state.graph, self.state.nodes.values(), self.state.edges.values())
        was = Unsaved()
        for change in kept:
            was.add(change.was)
            was.note(change.changes, self.state)  # what a save under way would have noted
            then.commit(change.changes)
            self.history += change.history
        self.unsaved = rebased(then, was, self.state)
        self.unsaved_changes = len(kept)
        return kept

    async def keep(self, kept: Sequence[Kept], confirm: Callable[[], Awaitable[None]]) -> None:
        """Journal changes and make them real, unless `confirm` then raises.

        Raises: SourceError, and what `confirm` raises; then nothing of them is.
        """
        await self.journal.append(kept)
        try:
            await confirm()
        except (SourceError, LiveError):
            await self.journal.retract()
            raise
        for change in kept:
            self.unsaved.add(change.was)
            self.state.commit(change.changes)
            self.history += change.history
        self.unsaved_changes += len(kept)

    async def save(self, latest: int, now: int, lease: Lease) -> tuple[list[str], list[Edit]]:
        """Store what is unsaved, if the hold is ours in the same transaction.

        Return the keys of the nodes stored, and what others had changed.
        Raises: SourceError; the edits stay journalled. LiveElsewhere when another took the graph over.
        """
        taken: list[Edit] = []
        for _ in range(SAVE_ATTEMPTS):
            try:
                return await self._save(latest, now, lease), taken
            except RevisionConflict:
                taken.append(await self.catch_up())
            except RecordConflict as exc:
                if exc.kind not in (JOURNAL, LEASE):
                    raise
                # Another's write, unless it is our own: a renewal, or a save whose answer was lost.
                await lease.renew()
                await self.journal.read()
        raise LiveElsewhere(graph_key=self.graph_key, until=0)

    async def _save(self, latest: int, now: int, lease: Lease) -> list[str]:
        mutation = self.unsaved.mutation(self.state, latest)
        history = history_write(self.graph_key, self.history)
        revision = await self._source.apply(
            mutation,
            expected_revision=self.base_revision,
            records=[lease.fence(), *self.journal.clearing(), *history],
        )
        self._saved(revision, latest)
        self.last_save_time = now
        return [node.key for node in mutation.put_nodes]

    def _saved(self, revision: int, latest: int) -> None:
        self.journal.cleared()
        self.unsaved = Unsaved()
        self.unsaved_changes = 0
        self.history.clear()
        self.base_revision = revision
        self.state.graph = self.state.graph.replace(revision=revision, last_updated_time=latest)

    async def is_behind(self) -> bool:
        """Whether somebody else has changed the stored graph. Raises: GraphNotFound, SourceError."""
        return (await self._source.get_graph(self.graph_key)).revision != self.base_revision

    async def catch_up(self) -> Edit:
        """Take in what others stored, below what is unsaved; return what that changes here.

        Raises: GraphNotFound, SourceError.
        """
        stored = await read_stored(self._source, self.graph_key)
        revision = stored.graph.revision
        unsaved = rebased(self.state, self.unsaved, stored)
        edit = described(self.state, difference(self.state, stored))
        self.state, self.unsaved, self.base_revision = stored, unsaved, revision
        return edit

    async def absorb(self, mutation: Mutation, revision: int) -> Edit:
        """Take in a mutation that was stored as a revision; return what it changes here.

        Raises: GraphNotFound, SourceError.
        """
        if revision != self.base_revision + 1:
            return await self.catch_up()
        draft = Draft(self.state)
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
