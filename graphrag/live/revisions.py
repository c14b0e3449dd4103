"""The history of a graph as one list, newest first: edits by hand, applied proposals, imports and
undos.

It is not stored but joined, by time, from the records of live edits and the audit log. The number
of a revision is its time; an earlier state of the graph is the result of all revisions up to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal

from datasources.base import RecordStore
from datasources.errors import BadDocument
from graphrag.approvals.approval import KIND as APPROVAL
from graphrag.approvals.approval import Approval, from_record
from graphrag.approvals.audit import Audit
from graphrag.approvals.audit import Entry as AuditEntry
from graphrag.approvals.stored_parts import with_undo
from graphrag.leases import now_ms
from graphrag.live.edit_history import PastEdit, edits_newest_first, keys_of
from graphrag.live.history_entries import Entry

RevisionKind = Literal["edit", "change", "import", "undo", "created", "renamed", "restored"]
# Number of audit entries read at a time, and of approvals.
PAGE, AT_ONCE = 200, 20
_KINDS: Mapping[str, RevisionKind] = {
    "applied": "change",
    "undone": "undo",
    "redone": "undo",
    "imported": "import",
    "graph_created": "created",
    "graph_copied": "created",
    "graph_renamed": "renamed",
    "graph_restored": "restored",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One change of a graph: a live `edit`, or an entry of the audit log (`facts`) with its
    `approval`.

    `undone_by` is the id of the change that undid it. Units: `at` in milliseconds since 1970.
    """

    id: str
    at: int
    kind: RevisionKind
    by: str
    edit: PastEdit | None = None
    facts: Mapping[str, Any]
    approval: Approval | None = None
    undone_by: str | None = None

    def touches(self, node: str) -> bool:
        """Returns whether it may have changed a node."""
        if self.edit is not None:
            return any(node in keys_of(entry) for entry in self.edit.entries)
        changes: Mapping[str, Sequence[str]] = self.facts.get("changes") or {}
        return self.kind == "created" or any(node in keys for keys in changes.values())


class Revisions:
    """Reads the history of one graph. `unsaved` are edits in the journal that are not saved;
    `with_undo` also reads the inverse changes of approvals.

    `cut_at` is the time of the oldest stored edit if older ones were deleted; known once the
    reading reaches it.
    """

    def __init__(
        self,
        records: RecordStore,
        graph_key: str,
        unsaved: Sequence[Entry],
        *,
        with_undo: bool = False,
    ) -> None:
        self._with_undo = with_undo
        self._records = records
        self._graph_key = graph_key
        self._unsaved = unsaved
        self.cut_at: int | None = None

    async def newest_first(
        self, *, before: int | None = None, node: str | None = None, past_cut: bool = False
    ) -> AsyncGenerator[Revision]:
        """Yields the revisions before a time that may concern a node. Reads as far as the iteration
        goes.

        With `past_cut` the list continues, with proposals only, where edits were deleted.
        Raises: SourceError.
        """

        def is_wanted(revision: Revision) -> bool:
            is_earlier = before is None or revision.at < before
            return is_earlier and (node is None or revision.touches(node))

        undone: dict[str, str] = {}
        edits = self._edits()
        changes = self._changes(is_wanted)
        async with aclosing(edits), aclosing(changes):
            async for revision in _merged(edits, changes):
                if self.cut_at is not None and revision.edit is None and not past_cut:
                    return
                if revision.edit is not None and revision.edit.undoes is not None:
                    undone.setdefault(revision.edit.undoes, revision.id)
                if is_wanted(revision):
                    yield (
                        revision
                        if revision.edit is None
                        else replace(revision, undone_by=undone.get(revision.id))
                    )
                if revision.kind == "created":
                    return

    async def _edits(self) -> AsyncGenerator[Revision]:
        oldest: int | None = None

        def ended(is_cut: bool) -> None:
            self.cut_at = oldest if is_cut else None

        edits = edits_newest_first(self._records, self._graph_key, self._unsaved, on_end=ended)
        async with aclosing(edits):
            async for edit in edits:
                oldest = edit.at
                kind: RevisionKind = "edit" if edit.undoes is None else "undo"
                yield Revision(
                    id=edit.id, at=edit.at, kind=kind, by=edit.user_id, edit=edit, facts={}
                )

    async def _changes(self, is_wanted: Callable[[Revision], bool]) -> AsyncGenerator[Revision]:
        audit = Audit(self._records, now_ms)
        last = None
        restored = False
        while page := await audit.entries(graph_key=self._graph_key, before=last, limit=PAGE):
            last = page[-1].sequence
            changes: list[Revision] = []
            for entry in page:
                restored = restored or entry.facts.get("event") == "graph_restored"
                if (change := _change(entry)) is not None and is_wanted(change):
                    # A restored graph counts revisions from one again; every one of them
                    # contains the earlier changes.
                    facts = {**change.facts, "revision": 0} if restored else change.facts
                    changes.append(replace(change, facts=facts))
            for i in range(0, len(changes), AT_ONCE):
                for change in await asyncio.gather(
                    *map(self._with_approval, changes[i : i + AT_ONCE])
                ):
                    yield change

    async def _with_approval(self, change: Revision) -> Revision:
        if change.kind in ("created", "renamed", "restored"):
            return change
        record = await self._records.get(APPROVAL, change.id)
        try:
            approval = None if record is None else await asyncio.to_thread(from_record, record)
            if approval is not None and self._with_undo:
                approval = await with_undo(self._records, approval)
        except BadDocument:
            return change
        return replace(
            change, approval=approval, undone_by=approval.undone_by if approval else None
        )


def _change(entry: AuditEntry) -> Revision | None:
    facts = entry.facts
    event = facts.get("event")
    approval_id = facts.get("approvalId")
    kind = _KINDS.get(str(event))
    if kind is None:
        return None
    if kind == "import" and approval_id is None:
        kind = "created"
    return Revision(
        id=str(approval_id or entry.at),
        at=entry.at,
        kind=kind,
        by=str(facts.get("userId")),
        facts=facts,
    )


async def _merged(*streams: AsyncIterator[Revision]) -> AsyncIterator[Revision]:
    """Merges streams that are each ordered from latest to oldest."""
    heads = [await anext(stream, None) for stream in streams]
    while present := [(head.at, -i, head) for i, head in enumerate(heads) if head is not None]:
        _, negative_index, head = max(present, key=lambda item: item[:2])
        yield head
        heads[-negative_index] = await anext(streams[-negative_index], None)
