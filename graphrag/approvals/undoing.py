"""Takes an applied change back: an audited change of its own, which can be taken back in its turn."""

from __future__ import annotations

import asyncio

from datasources.builtin_types import types_by_name
from datasources.errors import BadDocument, InvalidMutation, RecordConflict, RevisionConflict
from datasources.types import Mutation
from graphrag.actions.mutation import inverse_mutation
from graphrag.approvals.codec import mutation_from_document, mutation_to_document
from graphrag.approvals.deciding import ATTEMPTS, keys_of, pause, permit
from graphrag.approvals.desk import Desk, audit_facts, change_hash
from graphrag.approvals.errors import ApprovalBusy, ApprovalNotFound, NothingToUndo, UndoRefused
from graphrag.approvals.model import KIND, Approval, Decided, Outcome
from graphrag.approvals.restore import irregular_edges, restoration
from graphrag.people import Person
from graphrag.preview import preview_of
from tools.write_tools import Snapshot

SEARCHED = 1_000
"""So many of a graph's latest changes are looked through for the last one that stands."""


async def undo(desk: Desk, graph_key: str, approval_id: str | None, by: Person) -> Approval:
    """Take back an applied change, by default the graph's last one that stands; return the undo.

    To take an undo back, name it: that is redo.
    Raises: ApprovalNotFound, NotPermitted, NothingToUndo, UndoRefused, ApprovalBusy, GraphNotFound.
    """
    if not desk.is_home(by):
        raise ApprovalNotFound(approval_id=approval_id or graph_key)
    await desk.source.get_graph(graph_key)
    for attempt in range(ATTEMPTS):
        approval = await _to_undo(desk, graph_key, approval_id, by)
        permit(desk, approval.asker, by)
        try:
            return await asyncio.shield(_take_back(desk, approval, by))
        except (RevisionConflict, RecordConflict):
            await pause(attempt)
    raise ApprovalBusy(approval_id=approval_id or graph_key)


async def _to_undo(desk: Desk, graph_key: str, approval_id: str | None, by: Person) -> Approval:
    if approval_id is None:
        found = await desk.store.find(graph_key=graph_key, status="applied", limit=SEARCHED)
        standing = [a for a in found if a.undone_by is None and a.undoes is None]
        if not standing:
            raise NothingToUndo(graph_key=graph_key)
        return max(standing, key=_applied_at)
    approval = await desk.known(approval_id, by)
    if approval.graph_key != graph_key:
        raise ApprovalNotFound(approval_id=approval_id)
    if approval.status != "applied" or approval.undone_by is not None:
        raise NothingToUndo(graph_key=graph_key, approval_id=approval_id)
    return approval


def _applied_at(approval: Approval) -> int:
    return (approval.result.revision or 0) if approval.result else 0


async def _take_back(desk: Desk, approval: Approval, by: Person) -> Approval:
    result = approval.result
    if result is None or result.mutation is None or result.inverse is None:
        raise NothingToUndo(graph_key=approval.graph_key, approval_id=approval.id)
    applied, inverse = mutation_from_document(result.mutation), mutation_from_document(result.inverse)
    now = await _snapshot(desk, applied, inverse)
    plan = restoration(now, applied, inverse, set(result.irregular))
    if not await _is_as_audited(desk, approval):
        raise UndoRefused(approval_id=approval.id, changed=[f"approval/{approval.id}: was altered"])
    obstacles = [*plan.obstacles, *await _uses_elsewhere(desk, now, plan.mutation)]
    if obstacles:
        current = await desk.store.get(approval.id)
        if current is None or current.version != approval.version:  # another undo was faster
            raise RecordConflict(kind=KIND, key=approval.id, expected=approval.version)
        raise UndoRefused(approval_id=approval.id, changed=obstacles)
    taken_back = _record_of(desk, approval, plan.mutation, now, by)
    records = [taken_back.write(), approval.changed(undone_by=taken_back.id).write()]
    if approval.undoes is not None:
        original = await desk.store.get(approval.undoes)
        if original is not None:  # undoing an undo: the original stands again
            records.append(original.changed(undone_by=None).write())
    outcome = taken_back.result
    entry = await desk.audit.prepare(
        audit_facts(
            taken_back,
            "redone" if approval.undoes else "undone",
            revision=now.graph.revision + 1,
            keys=outcome.keys if outcome else None,
        )
    )
    try:
        await desk.source.apply(
            plan.mutation, expected_revision=now.graph.revision, records=[*records, *entry.writes]
        )
    except (InvalidMutation, BadDocument) as exc:
        raise UndoRefused(approval_id=approval.id, changed=[str(exc)]) from exc
    return await desk.store.get(taken_back.id) or taken_back


async def _is_as_audited(desk: Desk, approval: Approval) -> bool:
    """Say whether the stored change is the one that the audit log vouches for."""
    entries = await desk.audit.entries(approval_id=approval.id, limit=1)
    return bool(entries) and entries[0].facts.get("changeHash") == change_hash(approval)


def _record_of(desk: Desk, approval: Approval, mutation: Mutation, now: Snapshot, by: Person) -> Approval:
    """Return the approval that stands for the undo: applied, with what takes it back in its turn."""
    at, revision = desk.clock(), now.graph.revision + 1
    inverse = inverse_mutation(now, mutation)
    return approval.changed(
        id=desk.ids(),
        version=None,
        base_revision=now.graph.revision,
        touched={},
        names={},
        preview=preview_of(now, mutation).to_document(),
        created=at,
        expires=at,
        status="applied",
        depends_on=(),
        undoes=approval.id,
        undone_by=None,
        decision=Decided(verdict="approve", by=by.user_id, role=by.role, at=at),
        result=Outcome(
            at=at,
            revision=revision,
            keys=keys_of(mutation, inverse),
            mutation=mutation_to_document(mutation),
            inverse=mutation_to_document(inverse),
            irregular=irregular_edges(now, inverse),
        ),
    )


async def _snapshot(desk: Desk, applied: Mutation, inverse: Mutation) -> Snapshot:
    """Read what the two mutations name, as it is now."""
    source, key = desk.source, applied.graph_key
    graph = await source.get_graph(key)
    named = [node.key for m in (applied, inverse) for node in m.put_nodes]
    named += [node for m in (applied, inverse) for node in m.delete_nodes]
    named += [end for m in (applied, inverse) for e in m.put_edges for end in (e.source, e.target)]
    keys = sorted(set(named))
    return Snapshot(
        graph=graph,
        nodes={node.key: node for node in await source.get_nodes_by_key(key, keys)},
        edges={edge.key: edge for edge in await source.get_edges_of(key, keys)},
        types=types_by_name(await source.get_node_configs()),
        vectors=await source.get_vectors(key, keys),
    )


async def _uses_elsewhere(desk: Desk, now: Snapshot, mutation: Mutation) -> list[str]:
    """Name the graphs that use a type which would go; nodes that go with it do not count."""
    gone = {c.type for c in now.types.values() if c.key in set(mutation.delete_configs)}
    if not gone:
        return []
    found: list[str] = []
    for graph in await desk.source.list_graphs():
        types = (await desk.source.get_stats(graph.key)).types
        for name in gone:
            count = types.get(name, 0)
            if graph.key == now.graph.key:
                deleted = set(mutation.delete_nodes)
                count -= sum(1 for k, node in now.nodes.items() if k in deleted and node.type == name)
            if count > 0:
                found.append(f"type/{name}: {count} nodes of graph {graph.key}")
    return found
