"""Decides by policy what no level demands a person for; the levels are looked at again when it is applied."""

from __future__ import annotations

from collections.abc import Sequence

from datasources.errors import GraphNotFound
from graphrag.approvals.approval import POLICY, SYSTEM, Approval, Decided
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.decisions import apply_as_shown, load_for, or_failed
from graphrag.approvals.errors import ProposalWaits
from graphrag.approvals.levels import demands_of, levels_of
from graphrag.approvals.store import Fence
from graphrag.approvals.validation import Levels
from tools.write_tools import Snapshot


async def decide_by_policy(
    context: ApprovalContext, approval_ids: Sequence[str], fence: Fence | None
) -> list[Approval]:
    """Apply the pending ones of these proposals, in their order; none of them if one needs a person.

    Raises: what `fence` raises, ApprovalBusy.
    """
    found = [await context.store.get(one) for one in dict.fromkeys(approval_ids)]
    approvals = [one for one in found if one is not None]
    for approval in approvals:
        if not approval.is_open:
            continue
        if approval.needs_person or approval.expires <= context.clock():
            return approvals
        if await _builds_on_others(context, approval, approval_ids):
            return approvals
        if (await _reviewed(context, approval)).needs_person:
            return [await context.store.get(one.id) or one for one in approvals]
    return [await _decided(context, one, fence) if one.is_open else one for one in approvals]


async def _builds_on_others(context: ApprovalContext, approval: Approval, ids: Sequence[str]) -> bool:
    others = [await context.store.get(one) for one in approval.depends_on if one not in ids]
    return any(other is not None and other.is_open for other in others)


async def _reviewed(context: ApprovalContext, approval: Approval) -> Approval:
    """Return a proposal with what is demanded now, stored if that is a person."""
    try:
        snapshot = await load_for(context, approval)
    except GraphNotFound:
        return approval  # carrying it out says so
    return (await _with_demands(context, approval, snapshot))[0]


async def _with_demands(
    context: ApprovalContext, approval: Approval, snapshot: Snapshot
) -> tuple[Approval, Levels]:
    levels = await levels_of(
        context, approval.action, snapshot, unattended=approval.automation_id is not None
    )
    demands = demands_of(approval.action, levels, snapshot)
    if not demands:
        return approval, levels
    return await context.store.put(approval.changed(reasons=demands, needs_person=True)), levels


async def _decided(context: ApprovalContext, approval: Approval, fence: Fence | None) -> Approval:
    async def carry_out() -> Approval:
        if fence is not None:
            await fence.read()
        current = await context.store.get(approval.id) or approval
        if not current.is_open or current.needs_person:
            return current
        taken = Decided(verdict="approve", by=POLICY, role=SYSTEM, at=context.clock())

        async def apply() -> Approval:
            snapshot = await load_for(context, current)
            looked_at, levels = await _with_demands(context, current, snapshot)
            if looked_at.needs_person:
                return looked_at
            seen = taken.model_copy(update={"levels": levels.to_document()})
            return await apply_as_shown(context, current, seen, snapshot=snapshot, fence=fence)

        return await or_failed(context, current, taken, apply)

    try:
        return await context.in_turn(approval.graph_key, approval.id, carry_out)
    except ProposalWaits:  # what it builds on was demanded a person for meanwhile
        return await context.store.get(approval.id) or approval
