"""Stores what a file changes in a graph: a change like an approved one, audited, and undone like one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from datasources.base import RecordWrite
from datasources.errors import RecordConflict
from datasources.types import Mutation
from graphrag.approvals.action_review import review
from graphrag.approvals.actions.mutation import after, inverse_mutation
from graphrag.approvals.applied_change import outcome_of
from graphrag.approvals.approval import Approval, Decided, Reason, clean
from graphrag.approvals.approval_context import ApprovalContext, audit_facts
from graphrag.approvals.errors import NotAllowed
from graphrag.approvals.levels import keeping_demands
from graphrag.approvals.preview import Preview, preview_of
from graphrag.roles import Person
from tools.proposal_parts import ImportFile
from tools.proposals import ImportFileAction, canonical_hash
from tools.write_tools import Snapshot

_PREVIEW_PART = re.compile("(Added|Removed|Changed|Moved)$")
THREAD = "import"
"""Stands for the conversation of what nobody asked for in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What a file changes in a graph as it was `before`, and what of it is left to people: `proposed`.

    `before` holds the whole graph. `records` join the transaction. `older` are pending proposals of earlier
    imports, which this one replaces.
    """

    file: str
    before: Snapshot
    mutation: Mutation
    proposed: ImportFile
    records: Sequence[RecordWrite] = ()
    older: Sequence[Approval] = ()

    @property
    def is_change(self) -> bool:
        m = self.mutation
        lists = (m.put_nodes, m.put_edges, m.delete_nodes, m.delete_edges, m.put_configs)
        return m.graph is not None or any(lists)

    @property
    def is_proposal(self) -> bool:
        return self.proposed.count > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The change as an applied approval and what waits for a decision; None where there is nothing."""

    applied: Approval | None
    waiting: Approval | None


async def store(context: ApprovalContext, change: FileChange, by: Person) -> Stored:
    """Apply the change, note it and propose what is left, all in one transaction.

    What people must be asked for stays as it is where less than a reviewer imports.
    Raises: NotAllowed, RevisionConflict, RecordConflict (somebody was faster), InvalidMutation,
    BadDocument; then nothing has changed.
    """
    if not by.at_least("editor"):
        raise NotAllowed(code="proposing_needs_editor", user_id=by.user_id, role=by.role)
    if not by.at_least("reviewer"):
        change = replace(change, mutation=keeping_demands(change.before, change.mutation))
    m = change.mutation
    keys = [*(node.key for node in m.put_nodes), *m.delete_nodes]
    vectors = await context.source.get_vectors(m.graph_key, keys) if keys else {}
    change = replace(change, before=replace(change.before, vectors=vectors))
    stored = await asyncio.to_thread(_approvals, context, change, by)
    await _write(context, change, stored)
    decided = Decided(verdict="expire", by=by.user_id, role=by.role, at=context.clock())
    for approval in change.older:
        with suppress(RecordConflict):  # somebody decided it meanwhile
            await context.close(approval, "stale", decided, Reason(code="stale_superseded"))
    return stored


async def pending_imports(context: ApprovalContext, graph_key: str) -> list[Approval]:
    """Return what earlier imports proposed for a graph and nobody has decided."""
    found = await context.store.find(graph_key=graph_key, thread_id=THREAD, status="pending")
    return [approval for approval in found if approval.expires > context.clock()]


def open_conflicts(older: Iterable[Approval]) -> dict[tuple[str, str], frozenset[tuple[str, ...]]]:
    """Return the fields that proposals ask to change, by (`nodes`, `edges`, `types` or `graph`; key).

    Of a document that they add or delete there are none.
    """
    found: dict[tuple[str, str], frozenset[tuple[str, ...]]] = {}
    for approval in older:
        for part, items in approval.preview.items():
            kind = _PREVIEW_PART.sub("", part)
            for item in items if kind != part else ():
                name = (kind, str(item.get("key") or item["_key"]))
                paths = frozenset(tuple(field["path"]) for field in item.get("fields", ()))
                found[name] = found.get(name, frozenset()) | paths
    return found


async def _write(context: ApprovalContext, change: FileChange, stored: Stored) -> None:
    records = [*change.records]
    if stored.waiting is not None:
        records.append(stored.waiting.write())
    done = stored.applied
    if done is None or done.result is None:
        await context.store.records.write(records)
        return
    facts = await asyncio.to_thread(audit_facts, done, "imported")
    records.append(await asyncio.to_thread(done.write))
    mutation, revision = replace(change.mutation, changed_at=done.result.at), change.before.graph.revision

    await context.audit.record(
        {**facts, "file": change.file},
        lambda entry: context.source.apply(mutation, expected_revision=revision, records=[*records, *entry]),
    )


def _approvals(context: ApprovalContext, change: FileChange, by: Person) -> Stored:
    before, mutation, now = change.before, change.mutation, context.clock()
    applied, waiting = None, None
    if change.is_change:
        applied = _approval(context, change, ImportFile(file=change.file), by).changed(
            preview=preview_of(before, mutation).to_document(),
            status="applied",
            decision=Decided(verdict="approve", by=by.user_id, role=by.role, at=now),
            result=outcome_of(before, mutation, inverse_mutation(before, mutation), at=now),
        )
    if change.is_proposal:
        left = after(before, mutation)
        left = replace(left, graph=left.graph.replace(revision=before.graph.revision + change.is_change))
        reviewed = review(ImportFileAction(payload=change.proposed), left).reviewed
        if reviewed is not None:
            waiting = _approval(context, change, change.proposed, by).changed(
                base_revision=left.graph.revision,
                touched=dict(reviewed.touched),
                preview=reviewed.preview.to_document(),
                expires=now + context.ttl_ms,
            )
    return Stored(applied=applied, waiting=waiting)


def _approval(context: ApprovalContext, change: FileChange, payload: ImportFile, by: Person) -> Approval:
    action, now = ImportFileAction(payload=payload), context.clock()
    return Approval(
        id=context.ids(),
        workspace=context.source.workspace,
        graph_key=change.mutation.graph_key,
        thread_id=THREAD,
        turn=0,
        tool_call_id=THREAD,
        action=action,
        action_hash=canonical_hash(action),
        base_revision=change.before.graph.revision,
        touched={},
        preview=Preview().to_document(),
        reason=clean(change.file),
        asker=by.user_id,
        client=by.client.to_document() if by.client else None,
        model="person",
        created=now,
        expires=now,
    )
