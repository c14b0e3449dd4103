"""Stores the changes of an imported file: applied like an approved change, audited, undoable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import final

from datasources.base import RecordWrite
from datasources.errors import RecordConflict
from datasources.types import Mutation
from graphrag.approvals.action_review import review
from graphrag.approvals.applied_change import after, outcome_of
from graphrag.approvals.approval import Approval, Decided, Reason
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.errors import ProposalRefused
from graphrag.approvals.policies import keeping_demands
from graphrag.approvals.preview import preview_of
from graphrag.approvals.proposing import Asked, new_approval
from graphrag.roles import Person
from tools.proposal_parts import ImportFile
from tools.proposals import ImportFileAction
from tools.write_tools import Snapshot

_PREVIEW_PART = re.compile("(Added|Removed|Changed|Moved)$")
THREAD = "import"  # The thread of changes that were not requested in a conversation.


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """The changes of a file to a graph, and the part that people must decide (`proposed`).

    `before`: the whole graph. `records`: stored in the same transaction. `older`: pending proposals
    of earlier imports, which are replaced.
    """

    file: str
    before: Snapshot
    mutation: Mutation
    proposed: ImportFile
    records: Sequence[RecordWrite] = ()
    older: Sequence[Approval] = ()

    @property
    def is_change(self) -> bool:
        mutation = self.mutation
        return mutation.graph is not None or any(
            (
                mutation.put_nodes,
                mutation.put_edges,
                mutation.delete_nodes,
                mutation.delete_edges,
                mutation.put_configs,
            )
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The applied approval and the pending proposal; None if there is none."""

    applied: Approval | None
    waiting: Approval | None


async def store_file(context: ApprovalContext, change: FileChange, by: Person) -> Stored:
    """Applies the changes of a file, and proposes the part that people must decide, in one
    transaction.

    The requirements for decisions are not changed if the person is below reviewer. Vectors are not
    stored for an undo, since those of a whole file would need more space than the file; they are
    computed again. Raises: NotAllowed, RevisionConflict, RecordConflict (another write was first),
    InvalidMutation, BadDocument; then nothing has changed.
    """
    context.check(by, "editor", "proposing_needs_editor")
    if not by.at_least("reviewer"):
        change = replace(change, mutation=keeping_demands(change.before, change.mutation))
    stored = await asyncio.to_thread(_approvals, context, change, by)
    records = [*change.records, *([stored.waiting.write()] if stored.waiting else [])]
    if stored.applied is None:
        await context.records.write(records)
    else:
        revision = change.before.graph.revision
        await context.commit(
            stored.applied,
            "imported",
            change.mutation,
            revision=revision,
            records=records,
            file=change.file,
        )
    decided = Decided(verdict="expire", by=by.user_id, role=by.role, at=context.clock())
    for approval in change.older:
        with suppress(RecordConflict):  # it was decided concurrently
            await context.close(approval, "stale", decided, Reason(code="stale_superseded"))
    return stored


def open_conflicts(older: Iterable[Approval]) -> dict[tuple[str, str], frozenset[tuple[str, ...]]]:
    """Returns the fields that proposals would change, by kind of document (`nodes`, `edges`,
    `types`, `graph`) and key.

    The set of fields is empty for added and deleted documents.
    """
    fields: dict[tuple[str, str], frozenset[tuple[str, ...]]] = {}
    for approval in older:
        for part, items in approval.preview.items():
            kind = _PREVIEW_PART.sub("", part)
            for item in items if kind != part else ():
                name = (kind, str(item.get("key") or item["_key"]))
                paths = frozenset(tuple(field["path"]) for field in item.get("fields", ()))
                fields[name] = fields.get(name, frozenset()) | paths
    return fields


def _approvals(context: ApprovalContext, change: FileChange, by: Person) -> Stored:
    before = change.before
    mutation = change.mutation
    now = context.clock()
    asked = Asked(
        graph_key=mutation.graph_key,
        thread_id=THREAD,
        tool_call_id=THREAD,
        asker=by,
        reason=change.file,
    )
    applied, waiting = None, None
    if change.is_change:
        action = ImportFileAction(payload=ImportFile(file=change.file))
        applied = new_approval(
            context, asked, action, before, preview_of(before, mutation)
        ).changed(
            expires=now,
            status="applied",
            decision=Decided(verdict="approve", by=by.user_id, role=by.role, at=now),
            result=outcome_of(before, mutation, at=now),
        )
    if change.proposed.count:
        result = after(before, mutation)
        result = replace(
            result, graph=result.graph.replace(revision=before.graph.revision + change.is_change)
        )
        action = ImportFileAction(payload=change.proposed)
        with suppress(ProposalRefused):
            reviewed = review(action, result)
            waiting = new_approval(context, asked, action, result, reviewed.preview)
            waiting = waiting.changed(touched=dict(reviewed.touched))
    return Stored(applied=applied, waiting=waiting)
