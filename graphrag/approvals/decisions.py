"""Decides proposals: applies each decision of a person or by policy once, on the current graph.

A proposal that can no longer be applied is closed with a reason.

Decision: each outcome of a decision is one transaction. An approval writes the mutation, the
approval over the version that was read, and the audit entry; other outcomes write the last two. So
a process may die at any moment, and only one of several concurrent decisions is applied, without a
lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, final

from datasources.errors import BadDocument, GraphNotFound, InvalidMutation
from graphrag.approvals import errors
from graphrag.approvals.action_review import Reviewed, changed_since, review, touched
from graphrag.approvals.applied_change import outcome_of
from graphrag.approvals.approval import (
    POLICY,
    SYSTEM,
    Action,
    Approval,
    ApproveEdited,
    Decided,
    Decision,
    Reason,
    Reject,
    Status,
    decided,
)
from graphrag.approvals.approval_context import ApprovalContext, Fence
from graphrag.approvals.policies import check_may_change, demands_of, levels_of
from graphrag.approvals.validation import Levels
from graphrag.roles import Person
from tools.proposals import canonical_hash, canonical_json, parse_action, single_actions
from tools.write_tools import Snapshot, load_snapshot
from tools.write_tools.graph_reads import load_near, with_vectors

MAX_SHOWN = 5


@final
class _NotApplicable(Exception):
    """The reason why an approval cannot be applied, and its resulting status."""

    def __init__(self, status: Status, code: str, /, **facts: str) -> None:
        self.status: Status = status
        self.reason = Reason(code=code, facts=facts)
        super().__init__(code)


async def decide(
    context: ApprovalContext,
    approval_id: str,
    decision: Decision,
    by: Person,
    *,
    thread_id: str | None = None,
) -> Approval:
    """Decides an approval and applies the decision once. The result may be stale or failed.

    Raises: ApprovalNotFound (with `thread_id` also for other threads), NotAllowed, AlreadyDecided,
    ProposalExpired, ProposalWaits, ProposalRefused (for an invalid edit), ApprovalBusy,
    MalformedProposal; then the approval is unchanged.
    """
    context.check(by, about=approval_id)
    stored = await context.stored(approval_id)
    if stored is None or thread_id not in (None, stored.thread_id):
        raise errors.ApprovalNotFound(approval_id=approval_id)
    approval = stored
    is_current = context.is_free(stored.graph_key)

    async def work() -> Approval:
        nonlocal approval, is_current
        if not is_current:  # after other work on the graph, and at each further attempt
            approval = await context.stored(approval_id) or approval
        is_current = False
        check_permission(context, approval, by)
        if approval.status != "pending":
            by_whom = approval.decision.by if approval.decision else "?"
            raise errors.AlreadyDecided(approval_id=approval.id, status=approval.status, by=by_whom)
        if approval.expires <= context.clock():
            await context.expire(approval)
            raise errors.ProposalExpired(approval_id=approval.id)
        stored_decision = decided(decision, by, context.clock())
        if isinstance(decision, Reject):
            return await context.close(approval, "rejected", stored_decision)
        edit = decision if isinstance(decision, ApproveEdited) else None
        return await _apply(context, approval, stored_decision, by=by, edit=edit)

    return await context.in_turn(approval.graph_key, approval_id, work)


def check_permission(context: ApprovalContext, approval: Approval, by: Person) -> None:
    """Raises: NotAllowed."""
    code = context.objection(approval.asker, by)
    if code is not None:
        raise errors.NotAllowed(code=code, user_id=by.user_id, role=by.role)


async def _apply(
    context: ApprovalContext,
    approval: Approval,
    decision: Decided,
    *,
    by: Person | None = None,
    edit: ApproveEdited | None = None,
    fence: Fence | None = None,
) -> Approval:
    """Reviews and applies a proposal, or a person's edit of it, or closes it as stale or failed.

    `by`: the person who decides, None for policy; then a proposal that now requires a person waits.
    Raises: NotAllowed, ProposalWaits, ProposalRefused and MalformedProposal (for an edit);
    RevisionConflict, RecordConflict if another write was first.
    """
    try:
        edited = await _reviewed_edit(context, approval, edit) if edit else None
        if edited:
            reviewed, snapshot = edited
            facts = {"action": reviewed.action, "action_hash": canonical_hash(reviewed.action)}
            facts |= {"verdict": "approve_edited", "preview": dict(reviewed.preview)}
            decision = decision.model_copy(update=facts)
        else:
            await _check_dependencies(context, approval)
            snapshot = await load_near(
                context.source, approval.graph_key, approval.action, _cut_ends(approval)
            )
            if by is None:
                approval, levels = await _with_demands(context, approval, snapshot)
                if approval.needs_person:
                    return approval
                decision = decision.model_copy(update={"levels": levels.to_document()})
            reviewed = await asyncio.to_thread(_reviewed_again, approval, snapshot)
        mutation = reviewed.mutation
        revision = snapshot.graph.revision
        if by is not None:
            check_may_change(snapshot, mutation, by)
        before = await with_vectors(context.source, snapshot, mutation)
        outcome = await asyncio.to_thread(
            outcome_of, before, mutation, at=context.clock(), conversion=reviewed.conversion
        )
        shown = approval.preview if edited else dict(reviewed.preview)
        result = approval.changed(
            status="applied", decision=decision, result=outcome, preview=shown
        )
        return await context.commit(result, "applied", mutation, revision=revision, fence=fence)
    except _NotApplicable as exc:
        failure = exc
    except GraphNotFound:
        failure = _NotApplicable("failed", "failed_graph_gone")
    except (InvalidMutation, BadDocument) as exc:
        failure = _NotApplicable("failed", "failed_refused", problem=str(exc))
    return await context.close(approval, failure.status, decision, failure.reason)


def _cut_ends(approval: Approval) -> list[str]:
    """Returns the nodes at the ends of deleted edges. The edges are read with these nodes."""
    edges: Sequence[Mapping[str, Any]] = approval.preview.get("edgesRemoved", ())
    return [str(edge[end]) for edge in edges for end in ("source", "target")]


async def _check_dependencies(context: ApprovalContext, approval: Approval) -> None:
    """Checks the proposals that this one builds on. Raises: ProposalWaits, _NotApplicable."""
    waits: list[str] = []
    for other_id in approval.depends_on:
        other = await context.stored(other_id)
        if other is not None and other.is_open:
            waits.append(other_id)
        elif other is None or other.status != "applied":
            raise _NotApplicable(
                "stale", "stale_other", other=other_id, status=other.status if other else "?"
            )
    if waits:
        raise errors.ProposalWaits(approval_id=approval.id, on=waits)


async def _reviewed_edit(
    context: ApprovalContext, approval: Approval, edit: ApproveEdited
) -> tuple[Reviewed, Snapshot] | None:
    """Reviews an edit of the proposal. Returns None if the edit changes nothing.

    Raises: ProposalRefused, MalformedProposal.
    """
    action = parse_action(edit.action)
    if canonical_hash(action) == approval.action_hash:
        return None
    snapshot = await load_snapshot(context.source, approval.graph_key, action)
    reviewed = await asyncio.to_thread(review, action, snapshot)
    return None if canonical_hash(reviewed.action) == approval.action_hash else (reviewed, snapshot)


def _reviewed_again(approval: Approval, snapshot: Snapshot) -> Reviewed:
    """Reviews a proposal on the current graph. Raises: _NotApplicable, also if its effect differs
    from its preview.
    """
    action = approval.action
    if canonical_hash(action) != approval.action_hash:
        raise _NotApplicable("failed", "failed_altered")
    if changed := changed_since(approval.touched, touched(action, snapshot)):
        more = f" (+{len(changed) - MAX_SHOWN})" if len(changed) > MAX_SHOWN else ""
        raise _NotApplicable(
            "stale", "stale_changed", changed=", ".join(changed[:MAX_SHOWN]) + more
        )
    try:
        reviewed = review(action, snapshot)
    except errors.ProposalRefused as exc:
        raise _NotApplicable(
            "stale", "stale_problems", problems=errors.problem_lines(exc.problems)
        ) from exc
    frames = _frames_of(action)
    if _essence(reviewed.preview, frames) != _essence(approval.preview, frames):
        raise _NotApplicable("stale", "stale_preview")
    return reviewed


def _frames_of(action: Action) -> set[str]:
    """Returns the notes and groups that grow to contain new nodes."""
    created = (single.effects().creates for _, single in single_actions(action))
    return {frame.node_key for new in created if new for frame in new.frames or ()}


def _essence(preview: Mapping[str, Any], frames: set[str]) -> str:
    """Returns the effects in a preview, for comparison. Ignores display names, positions of deleted
    nodes, and the growth of `frames`, which may have grown for other nodes meanwhile.
    """
    effects: dict[str, Any] = {}
    for part, items in preview.items():
        dropped = ("posX", "posY") if part == "nodesRemoved" else ("name",)
        if part.endswith("Added") or part.startswith("edgesRemoved"):
            dropped = ()
        essence = [{k: v for k, v in item.items() if k not in dropped} for item in items]
        if part == "nodesChanged":
            essence = [
                item for item in map(partial(_without_growth, frames), essence) if item["fields"]
            ]
        if essence:
            effects[part] = essence
    return canonical_json(effects)


def _without_growth(frames: set[str], change: dict[str, Any]) -> dict[str, Any]:
    if change["key"] not in frames:
        return change
    return {**change, "fields": [field for field in change["fields"] if field["path"][0] != "size"]}


async def decide_by_policy(
    context: ApprovalContext, approval_ids: Sequence[str], *, fence: Fence | None = None
) -> list[Approval]:
    """Applies the proposals of a step for which no level requires a person, and returns them.

    The step is decided as a whole, by the current levels: if one proposal requires a person or
    builds on a pending one, nothing is applied. `fence`: allows writing only while the caller may
    write. Raises: the errors of `fence`, ApprovalBusy.
    """
    stored = [await context.stored(one) for one in dict.fromkeys(approval_ids)]
    approvals = [one for one in stored if one is not None]
    if await _need_no_person(context, approvals):
        approvals = [await _decided_by_policy(context, one, fence) for one in approvals]
    return approvals


async def _need_no_person(context: ApprovalContext, approvals: list[Approval]) -> bool:
    """Returns whether no open approval requires a person. Updates approvals that now require one
    in the list.
    """
    step_ids = {one.id for one in approvals}
    for number, approval in enumerate(approvals):
        if not approval.is_open:
            continue
        if approval.needs_person or approval.expires <= context.clock():
            return False
        others = [await context.stored(one) for one in approval.depends_on if one not in step_ids]
        if any(other is not None and other.is_open for other in others):
            return False
        try:
            snapshot = await load_near(
                context.source, approval.graph_key, approval.action, _cut_ends(approval)
            )
        except GraphNotFound:
            continue  # applying it reports the error
        approvals[number], _ = await _with_demands(context, approval, snapshot)
        if approvals[number].needs_person:
            return False
    return True


async def _with_demands(
    context: ApprovalContext, approval: Approval, snapshot: Snapshot
) -> tuple[Approval, Levels]:
    """Returns a proposal with its current requirements, and the levels. Stores the proposal if it
    now requires a person.
    """
    levels = await levels_of(
        context, approval.action, snapshot, unattended=approval.automation_id is not None
    )
    demands = demands_of(approval.action, levels, snapshot)
    if not demands:
        return approval, levels
    return await context.put(approval.changed(reasons=demands, needs_person=True)), levels


async def _decided_by_policy(
    context: ApprovalContext, approval: Approval, fence: Fence | None
) -> Approval:
    async def work() -> Approval:
        if fence is not None:
            await fence.read()
        current = await context.stored(approval.id) or approval
        if not current.is_open or current.needs_person:
            return current
        decision = Decided(verdict="approve", by=POLICY, role=SYSTEM, at=context.clock())
        return await _apply(context, current, decision, fence=fence)

    if not approval.is_open:
        return approval
    try:
        return await context.in_turn(approval.graph_key, approval.id, work)
    except errors.ProposalWaits:  # a proposal that it builds on now requires a person
        return await context.stored(approval.id) or approval
