"""Carries a decision out: once, on the graph as it is now, or not at all with the reason.

Decision: whatever a decision comes to is one transaction. An approval writes the mutation, the approval
over the version that was read, and the audit entry; anything else the last two. So a process may die at
any moment, of several decisions one wins, and nothing has to be claimed beforehand or given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datasources.errors import BadDocument, GraphNotFound, InvalidMutation
from graphrag.approvals.action_review import Reviewed, review
from graphrag.approvals.actions.touched import changed_since, touched
from graphrag.approvals.applied_change import outcome_of
from graphrag.approvals.approval import (
    Approval,
    ApproveEdited,
    Decided,
    Decision,
    Reason,
    Reject,
    Status,
    decided,
)
from graphrag.approvals.approval_context import ApprovalContext, already_decided
from graphrag.approvals.errors import NotAllowed, ProposalExpired, ProposalRefused, ProposalWaits
from graphrag.approvals.levels import check_may_change
from graphrag.approvals.store import Fence
from graphrag.roles import Person
from tools.proposals import canonical_hash, canonical_json, parse_action
from tools.write_tools import Snapshot, load_snapshot
from tools.write_tools.graph_reads import load_near

MAX_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Why an approval cannot be applied."""

    status: Status
    reason: Reason


async def decide(
    context: ApprovalContext,
    approval_id: str,
    decision: Decision,
    by: Person,
    *,
    thread_id: str | None = None,
) -> Approval:
    """Decide an approval and carry the decision out. What comes back may also be stale or failed.

    Raises: ApprovalNotFound, NotAllowed, AlreadyDecided, ProposalExpired, ProposalWaits,
    ProposalRefused (an edit that cannot be carried out; it is still to be decided), ApprovalBusy,
    MalformedProposal.
    """

    async def carry_out() -> Approval:
        approval = await _to_decide(context, approval_id, by, thread_id)
        return await _carry_out(context, approval, decision, by)

    approval = await _to_decide(context, approval_id, by, thread_id)
    return await context.in_turn(approval.graph_key, approval_id, carry_out)


async def _to_decide(
    context: ApprovalContext, approval_id: str, by: Person, thread_id: str | None
) -> Approval:
    """Return an approval that this person may decide now."""
    approval = await context.known(approval_id, by, thread_id)
    check_permission(context, approval, by)
    if approval.status != "pending":
        raise already_decided(approval)
    if approval.expires <= context.clock():
        await context.expire(approval)
        raise ProposalExpired(approval_id=approval.id)
    return approval


def check_permission(context: ApprovalContext, approval: Approval, by: Person) -> None:
    """Raises: NotAllowed."""
    code = context.objection(approval, by)
    if code is not None:
        raise NotAllowed(code=code, user_id=by.user_id, role=by.role)


async def _carry_out(
    context: ApprovalContext, approval: Approval, decision: Decision, by: Person
) -> Approval:
    """Review and commit a decision. Raises: RevisionConflict, RecordConflict when others were faster."""
    taken = decided(decision, by, context.clock())
    if isinstance(decision, Reject):
        return await context.close(approval, "rejected", taken)
    edit = decision if isinstance(decision, ApproveEdited) else None

    async def apply() -> Approval:
        done = await _apply_edited(context, approval, edit, by) if edit else None
        return done or await apply_as_shown(context, approval, taken, by=by)

    return await or_failed(context, approval, taken, apply)


async def or_failed(
    context: ApprovalContext, approval: Approval, taken: Decided, work: Callable[[], Awaitable[Approval]]
) -> Approval:
    """Do `work`; close the approval as failed when its graph is gone or refuses the change."""
    try:
        return await work()
    except GraphNotFound:
        reason = Reason(code="failed_graph_gone")
    except (InvalidMutation, BadDocument) as exc:
        reason = Reason(code="failed_refused", facts={"problem": str(exc)})
    return await context.close(approval, "failed", taken, reason)


async def apply_as_shown(
    context: ApprovalContext,
    approval: Approval,
    taken: Decided,
    *,
    by: Person | None = None,
    snapshot: Snapshot | None = None,
    fence: Fence | None = None,
) -> Approval:
    """Apply what was proposed, or close the approval as stale or failed. `by` decides it; None: nobody.

    Raises: NotAllowed, ProposalWaits, RecordConflict, RevisionConflict (also when the graph is not as in
    `snapshot`).
    """
    lost = await _look_at_others(context, approval)
    if lost is not None:
        return await context.close(approval, "stale", taken, lost)
    snapshot = snapshot or await load_for(context, approval)
    current = await asyncio.to_thread(validate, approval, snapshot)
    if isinstance(current, Ended):
        return await context.close(approval, current.status, taken, current.reason)
    if by is not None:
        check_may_change(snapshot, current.mutation, by)
    return await _apply(context, approval, taken, current, snapshot, fence)


async def load_for(context: ApprovalContext, approval: Approval) -> Snapshot:
    """Read what carrying out a proposal needs. Raises: GraphNotFound."""
    return await load_near(context.source, approval.graph_key, approval.action, _cut(approval))


def _cut(approval: Approval) -> list[str]:
    """Return the ends of the edges that the proposal was to delete: where to look for these."""
    edges: Sequence[Mapping[str, Any]] = approval.preview.get("edgesRemoved", ())
    return [str(edge[end]) for edge in edges for end in ("source", "target")]


async def _look_at_others(context: ApprovalContext, approval: Approval) -> Reason | None:
    """Return why what this one builds on will never be there. Raises: ProposalWaits."""
    waits: list[str] = []
    for other_id in approval.depends_on:
        other = await context.store.get(other_id)
        if other is not None and other.is_open:
            waits.append(other_id)
        elif other is None or other.status != "applied":
            facts = {"other": other_id, "status": other.status if other else "?"}
            return Reason(code="stale_other", facts=facts)
    if waits:
        raise ProposalWaits(approval_id=approval.id, on=waits)
    return None


async def _apply_edited(
    context: ApprovalContext, approval: Approval, edit: ApproveEdited, by: Person
) -> Approval | None:
    """Review and apply what a person made of the proposal; None when that is the proposal itself.

    Raises: ProposalRefused, MalformedProposal.
    """
    action = parse_action(edit.action)
    if canonical_hash(action) == approval.action_hash:
        return None
    snapshot = await load_snapshot(context.source, approval.graph_key, action)
    result = await asyncio.to_thread(review, action, snapshot)
    if result.reviewed is None:
        raise ProposalRefused(problems=result.problems)
    final = result.reviewed.action
    digest = canonical_hash(final)
    if digest == approval.action_hash:
        return None
    edited = (final, digest, result.reviewed.preview.to_document())
    check_may_change(snapshot, result.reviewed.mutation, by)
    taken = decided(edit, by, context.clock(), edited=edited)
    return await _apply(context, approval, taken, result.reviewed, snapshot)


def validate(approval: Approval, snapshot: Snapshot) -> Reviewed | Ended:
    """Review a proposal on the graph as it is; it must do what was shown, to what was shown."""
    action = approval.action
    if canonical_hash(action) != approval.action_hash:
        return Ended(status="failed", reason=Reason(code="failed_altered"))
    changed = changed_since(approval.touched, touched(action, snapshot))
    if changed:
        return Ended(status="stale", reason=_stale(changed))
    result = review(action, snapshot)
    if result.reviewed is None:
        shown = [f"{p.where}: {p.what}" if p.where else p.what for p in result.problems[:MAX_SHOWN]]
        return Ended(
            status="stale", reason=Reason(code="stale_problems", facts={"problems": "; ".join(shown)})
        )
    if _essence(result.reviewed.preview.to_document()) != _essence(approval.preview):
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


async def _apply(
    context: ApprovalContext,
    approval: Approval,
    taken: Decided,
    reviewed: Reviewed,
    snapshot: Snapshot,
    fence: Fence | None = None,
) -> Approval:
    """Apply, record and audit in one transaction."""
    mutation, at = reviewed.mutation, context.clock()

    def done() -> Approval:
        conversion = reviewed.conversion.to_document()
        outcome = outcome_of(snapshot, mutation, reviewed.inverse, at=at)
        outcome = outcome.model_copy(update={"conversion": conversion})
        return approval.changed(status="applied", decision=taken, result=outcome)

    applied = await asyncio.to_thread(done)
    revision = snapshot.graph.revision
    return await context.apply(applied, "applied", mutation, revision=revision, fence=fence)
