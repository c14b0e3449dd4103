"""Undoes an applied change. An undo is itself an audited change, which can be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from datasources.base import RecordWrite
from datasources.builtin_types import types_by_name
from datasources.errors import BadDocument, InvalidMutation, RecordConflict
from datasources.hits import NodeVector
from datasources.types import Mutation
from graphrag.approvals.applied_change import (
    edges_without_handles,
    mutation_from_document,
    outcome_of,
)
from graphrag.approvals.approval import KIND, Approval, Decided
from graphrag.approvals.approval_context import ApprovalContext, change_hash
from graphrag.approvals.decisions import check_permission
from graphrag.approvals.errors import ApprovalNotFound, NothingToUndo, UndoGone, UndoRefused
from graphrag.approvals.policies import check_may_change
from graphrag.approvals.preview import preview_of
from graphrag.approvals.stored_parts import head_write, with_shown, with_undo
from graphrag.changes.change_set import edits_of, invert
from graphrag.changes.draft import GraphDraft, LiveState
from graphrag.roles import Person
from tools.proposals import MAX_BATCH, Batch, BatchAction, canonical_hash
from tools.write_tools import Snapshot

# Number of a graph's latest changes that are searched for changes that were not undone.
SEARCHED = 1_000


async def undo(
    context: ApprovalContext,
    graph_key: str,
    approval_id: str | None = None,
    *,
    by: Person,
    turn: bool = False,
) -> Approval:
    """Undoes an applied change, by default the latest one of the graph, and returns the undo.

    Undone changes are skipped. With `turn`, all such changes of the same turn are undone in one
    step. An undo is an applied approval (`undoes` names its change). To redo the change, undo the
    undo by its id. Raises: ApprovalNotFound, NotAllowed, NothingToUndo, UndoGone, UndoRefused,
    ApprovalBusy, GraphNotFound.
    """
    context.check(by, about=approval_id or graph_key)
    await context.source.get_graph(graph_key)

    async def work() -> Approval:
        changes = await _to_undo(context, graph_key, approval_id, by, turn=turn)
        for approval in changes:
            check_permission(context, approval, by)
        return await _undo(context, changes, by)

    return await context.in_turn(graph_key, approval_id or graph_key, work)


async def _to_undo(
    context: ApprovalContext, graph_key: str, approval_id: str | None, by: Person, *, turn: bool
) -> list[Approval]:
    """Returns the changes to undo, the latest first."""
    named = None if approval_id is None else await context.get_visible(approval_id, by)
    if named is not None and named.graph_key != graph_key:
        raise ApprovalNotFound(approval_id=named.id)
    turn = turn and (named is None or (named.undoes is None and named.turn > 0))
    if named is not None and not turn:
        undoable = [named] if named.status == "applied" and named.undone_by is None else []
    else:
        thread_id = named.thread_id if named else None
        applied = await context.find(
            graph_key=graph_key, thread_id=thread_id, status="applied", limit=SEARCHED
        )
        undoable = not_undone(applied)
    if named is not None:
        undoable = [a for a in undoable if a.turn == named.turn]
    if not undoable:
        raise NothingToUndo(graph_key=graph_key, approval_id=approval_id)
    if not turn or undoable[0].turn == 0:  # manual and imported changes have no turn
        return undoable[:1]
    asked_in = (undoable[0].thread_id, undoable[0].turn)
    return [approval for approval in undoable if (approval.thread_id, approval.turn) == asked_in]


def not_undone(applied: Iterable[Approval]) -> list[Approval]:
    """Returns the changes that were not undone, the latest first, without undos."""
    remaining = [one for one in applied if one.undone_by is None and one.undoes is None]
    return sorted(
        remaining, key=lambda one: (one.result.revision or 0) if one.result else 0, reverse=True
    )


def _plan(
    now: Snapshot, changes: Sequence[tuple[Mutation, Mutation]], irregular: Set[str]
) -> tuple[Mutation, list[str]]:
    """Returns the mutation that undoes changes in one step, the latest first, and the obstacles."""
    draft = GraphDraft(LiveState(now.graph, now.nodes.values(), now.edges.values()))
    own_types = {c.key: c for c in now.types.values() if c.workspace == now.graph.workspace}
    types = dict(own_types)
    vectors = dict[str, NodeVector]()
    conflicts: list[str] = []
    for applied, inverse in changes:
        conflicts = invert(edits_of(applied, inverse), draft, types, allow_moved=True)
        if conflicts:
            break
        restored = {node.key: node for node in inverse.put_nodes}
        # The old vector does not fit a node that keeps a later change.
        vectors |= {
            v.key: v for v in inverse.put_vectors if draft.node(v.key) == restored.get(v.key)
        }
    result = draft.changes()
    gone = {key for key, node in result.nodes.items() if node is None}
    result.edges = {
        key: edge
        for key, edge in result.edges.items()
        if edge is not None or not {now.edges[key].source, now.edges[key].target} & gone
    }
    mutation = replace(
        result.mutation(now.graph.key),
        put_configs=[config for key, config in types.items() if own_types.get(key) is not config],
        delete_configs=[key for key in own_types if key not in types],
        put_vectors=[vector for key, vector in vectors.items() if draft.node(key) is not None],
    )
    return mutation, conflicts or list(edges_without_handles(now, mutation, irregular))


async def _undo(context: ApprovalContext, changed: Sequence[Approval], by: Person) -> Approval:
    approvals = [
        await with_undo(context.records, await with_shown(context.records, one)) for one in changed
    ]
    approval = approvals[0]
    changes = list[tuple[Mutation, Mutation]]()
    for one in approvals:
        stored = (one.result.mutation, one.result.inverse) if one.result else (None, None)
        if stored[0] is None or stored[1] is None:
            raise UndoGone(approval_id=one.id)
        changes.append((mutation_from_document(stored[0]), mutation_from_document(stored[1])))
    now = await _snapshot(context, [mutation for change in changes for mutation in change])
    irregular = {key for one in approvals if one.result for key in one.result.irregular}
    mutation, conflicts = _plan(now, changes, irregular)
    for one in approvals:
        entries = await context.audit.entries(approval_id=one.id, limit=1)
        # The stored change must be the audited one.
        if not entries or entries[0].facts.get("changeHash") != change_hash(one):
            raise UndoRefused(approval_id=one.id, changed=[f"approval/{one.id}: was altered"])
    check_may_change(now, mutation, by)
    conflicts += await _uses_elsewhere(context, now, mutation)
    if conflicts:
        for one in approvals:
            current = await context.stored(one.id)
            if current is None or current.version != one.version:  # another undo was first
                raise RecordConflict(kind=KIND, key=one.id, expected=one.version)
        raise UndoRefused(approval_id=approval.id, changed=conflicts)
    record = _record_of(context, approvals, mutation, now, by)
    records = [head_write(one.changed(undone_by=record.id)) for one in approvals]
    records += await _restored_writes(context, approval)
    event = "redone" if approval.undoes else "undone"
    try:
        return await context.commit(
            record, event, mutation, revision=now.graph.revision, records=records
        )
    except (InvalidMutation, BadDocument) as exc:
        raise UndoRefused(approval_id=approval.id, changed=[str(exc)]) from exc


async def _restored_writes(context: ApprovalContext, undone: Approval) -> list[RecordWrite]:
    """Returns the writes that mark changes as applied again after their undo was undone.

    In a chain of undos, those between the last one and the original changes remain as they are.
    """
    writes: list[RecordWrite] = []
    undo = undone
    is_applied = True
    while undo.undoes is not None:
        undone_changes = [await context.stored(one) for one in (undo.undoes, *undo.undoes_also)]
        originals = [one for one in undone_changes if one is not None]
        if not originals:
            break
        if undo is undone or originals[0].undoes is None:
            writes += [
                head_write(one.changed(undone_by=None if is_applied else undo.id))
                for one in originals
            ]
        undo = originals[0]
        is_applied = not is_applied
    return writes


def _record_of(
    context: ApprovalContext,
    approvals: Sequence[Approval],
    mutation: Mutation,
    now: Snapshot,
    by: Person,
) -> Approval:
    """Returns the approval of the undo: applied, with its own undo data."""
    at = context.clock()
    approval = approvals[0]
    action = approvals[0].action
    if len(approvals) > 1:
        actions = [one.effective_action for one in reversed(approvals)][:MAX_BATCH]
        action = BatchAction(payload=Batch(actions=actions))
    return approval.changed(
        id=context.new_id(),
        version=None,
        apart=(),
        apart_bytes=0,
        action=action,
        action_hash=canonical_hash(action),
        base_revision=now.graph.revision,
        touched={},
        names={},
        labels={name: label for one in approvals for name, label in one.labels.items()},
        preview=preview_of(now, mutation),
        created=at,
        expires=at,
        status="applied",
        depends_on=(),
        undoes=approval.id,
        undoes_also=tuple(one.id for one in approvals[1:]),
        undone_by=None,
        reasons=(),
        warnings=(),
        proposal_hash=None,
        decision=Decided(verdict="approve", by=by.user_id, role=by.role, at=at),
        result=outcome_of(now, mutation, at=at),
    )


async def _snapshot(context: ApprovalContext, mutations: Sequence[Mutation]) -> Snapshot:
    """Reads the current state of the elements that mutations of a graph name."""
    source = context.source
    key = mutations[0].graph_key
    graph = await source.get_graph(key)
    named = [node.key for m in mutations for node in m.put_nodes]
    named += [node for m in mutations for node in m.delete_nodes]
    named += [end for m in mutations for e in m.put_edges for end in (e.source, e.target)]
    keys = sorted(set(named))
    return Snapshot(
        graph=graph,
        nodes={node.key: node for node in await source.get_nodes_by_key(key, keys)},
        edges={edge.key: edge for edge in await source.get_edges_of(key, keys)},
        types=types_by_name(await source.get_node_configs()),
        vectors=await source.get_vectors(key, keys),
    )


async def _uses_elsewhere(context: ApprovalContext, now: Snapshot, mutation: Mutation) -> list[str]:
    """Returns a message for each graph that still uses a type to delete, apart from the nodes that
    are deleted with it.
    """
    gone = {c.type for c in now.types.values() if c.key in set(mutation.delete_configs)}
    deleted = Counter(now.nodes[key].type for key in mutation.delete_nodes if key in now.nodes)
    uses: list[str] = []
    for graph in await context.source.list_graphs() if gone else ():
        types = Counter((await context.source.get_stats(graph.key)).types)
        remaining = types - deleted if graph.key == now.graph.key else types
        uses += [
            f"type/{name}: {remaining[name]} nodes of graph {graph.key}"
            for name in gone
            if remaining[name]
        ]
    return uses
