"""Carries a decision out: once, on the graph as it is now, or not at all with the reason."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasources.errors import (
    BadDocument,
    GraphNotFound,
    InvalidMutation,
    RecordConflict,
    RevisionConflict,
    SourceError,
)
from datasources.types import Mutation
from graphrag.actions.touched import changed_since
from graphrag.approvals.codec import mutation_to_document
from graphrag.approvals.desk import Desk, already_decided, audit_facts
from graphrag.approvals.errors import (
    ApprovalBusy,
    NotPermitted,
    ProposalExpired,
    ProposalRefused,
    ProposalWaits,
)
from graphrag.approvals.model import (
    KIND,
    Action,
    Approval,
    ApproveEdited,
    Decision,
    Outcome,
    Reason,
    Reject,
    Status,
    decided,
)
from graphrag.approvals.restore import irregular_edges
from graphrag.people import Person
from graphrag.review import Reviewed, review, touched
from tools.proposals import canonical_hash, canonical_json, parse_action
from tools.write_tools import Snapshot, load_snapshot

ATTEMPTS = 40
_PAUSE_S, _LONGEST_S = 0.01, 0.2
"""Others change the graph meanwhile: the longest wait grows with each try, up to a bound."""

MAX_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Why a claimed approval cannot be applied."""

    status: Status
    reason: Reason


async def decide(
    desk: Desk, approval_id: str, decision: Decision, by: Person, *, thread_id: str | None = None
) -> Approval:
    """Decide an approval and carry the decision out. What comes back may also be stale or failed.

    Raises: ApprovalNotFound, NotPermitted, AlreadyDecided, ProposalExpired, ProposalWaits,
    ProposalRefused (an edit that cannot be carried out; it is still to be decided), ApprovalBusy,
    MalformedProposal.
    """
    approval = await desk.known(approval_id, by, thread_id)
    permit(desk, approval.asker, by)
    if desk.is_abandoned(approval):
        approval = await desk.recover_one(approval)
    if approval.status != "pending":
        raise already_decided(approval)
    if approval.expires <= desk.clock():
        await desk.expire(approval)
        raise ProposalExpired(approval_id=approval.id, expires=approval.expires)
    if isinstance(decision, Reject):
        claimed = await desk.claim(approval, decided(decision, by, desk.clock()))
        return await asyncio.shield(desk.close(claimed, "rejected"))
    edited = await _edited(desk, approval, decision) if isinstance(decision, ApproveEdited) else None
    lost = await _look_at_others(desk, approval) if edited is None else None
    claimed = await desk.claim(approval, decided(decision, by, desk.clock(), edited=edited))
    if lost is not None:
        return await asyncio.shield(desk.close(claimed, "stale", lost))
    # Who asked may go away; what was claimed is carried out all the same.
    return await asyncio.shield(_carry_out(desk, claimed))


def permit(desk: Desk, asker: str, by: Person) -> None:
    """Raises: NotPermitted."""
    code = desk.policy.objection(by, asker)
    if code is not None:
        raise NotPermitted(code=code, user_id=by.user_id, role=by.role)


async def _look_at_others(desk: Desk, approval: Approval) -> Reason | None:
    """Return why what this one builds on will never be there. Raises: ProposalWaits."""
    waits: list[str] = []
    for other_id in approval.depends_on:
        other = await desk.store.get(other_id)
        if other is not None and other.is_open:
            waits.append(other_id)
        elif other is None or other.status != "applied":
            facts = {"other": other_id, "status": other.status if other else "?"}
            return Reason(code="stale_other", facts=facts)
    if waits:
        raise ProposalWaits(approval_id=approval.id, on=waits)
    return None


async def _edited(
    desk: Desk, approval: Approval, decision: ApproveEdited
) -> tuple[Action, str, dict[str, Any]] | None:
    """Review and settle an edit; None when it edits nothing. Raises: ProposalRefused, MalformedProposal."""
    action = parse_action(decision.action)
    if canonical_hash(action) == approval.action_hash:
        return None
    snapshot = await load_snapshot(desk.source, approval.graph_key, action)
    result = review(action, snapshot)
    if result.reviewed is None:
        raise ProposalRefused(problems=result.problems)
    settled = result.reviewed.action
    digest = canonical_hash(settled)
    return (
        None if digest == approval.action_hash else (settled, digest, result.reviewed.preview.to_document())
    )


async def _carry_out(desk: Desk, claimed: Approval) -> Approval:
    for attempt in range(ATTEMPTS):
        try:
            snapshot = await load_snapshot(desk.source, claimed.graph_key, claimed.effective_action)
            judged = judge(claimed, snapshot)
            if isinstance(judged, Ended):
                return await desk.close(claimed, judged.status, judged.reason)
            return await _apply(desk, claimed, judged, snapshot)
        except RevisionConflict:
            await pause(attempt)
        except RecordConflict as exc:
            if exc.kind == KIND:
                raise await desk.decided_by_another(claimed) from exc
            await pause(attempt)
        except GraphNotFound:
            return await desk.close(claimed, "failed", Reason(code="failed_graph_gone"))
        except (InvalidMutation, BadDocument) as exc:
            reason = Reason(code="failed_refused", facts={"problem": str(exc)})
            return await desk.close(claimed, "failed", reason)
        except SourceError:
            done = await after_doubt(desk, claimed)
            if done is None:
                raise
            return done
    await desk.release(claimed)
    raise ApprovalBusy(approval_id=claimed.id)


async def after_doubt(desk: Desk, claimed: Approval) -> Approval | None:
    """Look what became of an apply whose answer never came; give the approval back if nothing did."""
    now = await desk.store.get(claimed.id)
    if now is not None and now.status == "applied":
        return now
    await desk.release(claimed)
    return None


async def pause(attempt: int) -> None:
    await asyncio.sleep(random.uniform(0, min(_LONGEST_S, _PAUSE_S * (attempt + 1))))


def judge(claimed: Approval, snapshot: Snapshot) -> Reviewed | Ended:
    """Review a claimed action on the graph as it is; it must do what was shown, to what was shown."""
    action, decision = claimed.effective_action, claimed.decision
    edited_hash = decision.action_hash if decision else None
    if canonical_hash(action) != (edited_hash or claimed.action_hash):
        return Ended(status="failed", reason=Reason(code="failed_altered"))
    if edited_hash is None:
        changed = changed_since(claimed.touched, touched(action, snapshot))
        if changed:
            return Ended(status="stale", reason=_stale(changed))
    result = review(action, snapshot)
    if result.reviewed is None:
        shown = [f"{p.where}: {p.what}" if p.where else p.what for p in result.problems[:MAX_SHOWN]]
        return Ended(
            status="stale", reason=Reason(code="stale_problems", facts={"problems": "; ".join(shown)})
        )
    if _essence(result.reviewed.preview.to_document()) != _essence(claimed.effective_preview):
        return Ended(status="stale", reason=Reason(code="stale_preview"))
    return result.reviewed


def _stale(changed: list[str]) -> Reason:
    more = f" (+{len(changed) - MAX_SHOWN})" if len(changed) > MAX_SHOWN else ""
    return Reason(code="stale_changed", facts={"changed": ", ".join(changed[:MAX_SHOWN]) + more})


def _essence(preview: Mapping[str, Any]) -> str:
    """Return what a preview says will happen: not what things are called, nor where what goes stood."""
    found: dict[str, Any] = {}
    for part, items in preview.items():
        dropped = ("posX", "posY") if part == "nodesRemoved" else ("name",)
        if part.endswith("Added") or part.startswith("edgesRemoved"):
            dropped = ()
        found[part] = [{k: v for k, v in item.items() if k not in dropped} for item in items]
    return canonical_json(found)


async def _apply(desk: Desk, claimed: Approval, reviewed: Reviewed, snapshot: Snapshot) -> Approval:
    """Apply, record and audit in one transaction."""
    revision = snapshot.graph.revision
    mutation, inverse = reviewed.mutation, reviewed.inverse
    keys = keys_of(mutation, inverse)
    applied = claimed.changed(
        status="applied",
        result=Outcome(
            at=desk.clock(),
            revision=revision + 1,
            keys=keys,
            conversion=reviewed.conversion.to_document(),
            mutation=mutation_to_document(mutation),
            inverse=mutation_to_document(inverse),
            irregular=irregular_edges(snapshot, inverse),
        ),
    )
    entry = await desk.audit.prepare(audit_facts(applied, "applied", revision=revision + 1, keys=keys))
    await desk.source.apply(mutation, expected_revision=revision, records=[applied.write(), *entry.writes])
    stored = await desk.store.get(claimed.id)
    return stored or applied


def keys_of(mutation: Mutation, inverse: Mutation) -> dict[str, list[str]]:
    """Return the keys of what a mutation creates, changes and deletes; lists that are empty are left out."""
    new_nodes, new_edges = set(inverse.delete_nodes), set(inverse.delete_edges)
    new_types = set(inverse.delete_configs)
    put_again = {edge.key for edge in mutation.put_edges}
    found = {
        "nodesCreated": sorted(new_nodes),
        "nodesChanged": sorted(n.key for n in mutation.put_nodes if n.key not in new_nodes),
        "nodesDeleted": sorted(mutation.delete_nodes),
        "edgesCreated": sorted(new_edges),
        "edgesChanged": sorted(e.key for e in mutation.put_edges if e.key not in new_edges),
        "edgesDeleted": sorted(e.key for e in inverse.put_edges if e.key not in put_again),
        "typesCreated": sorted(new_types),
        "typesChanged": sorted(c.key for c in mutation.put_configs if c.key not in new_types),
        "typesDeleted": sorted(mutation.delete_configs),
    }
    return {name: keys for name, keys in found.items() if keys}
