"""Takes a proposed action: reviews it on the graph as it will be, and stores it for a person to decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphrag.approvals.action_review import Reviewed, review
from graphrag.approvals.approval import Action, Approval, clean
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.errors import AlreadyProposed, ApprovalNotFound, NotAllowed, ProposalRefused
from graphrag.approvals.pending_changes import additions_of, own_names, renamed, used_by, with_additions
from graphrag.approvals.store import WriteGuard
from graphrag.approvals.titles import labels_of
from graphrag.roles import Person
from tools.proposals import canonical_hash, parse_action
from tools.write_tools import Snapshot, load_snapshot

MAX_WAITING = 100
"""Pending proposals of one thread that a new one may build on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where a proposal comes from. `model` is `person` for what somebody proposes by hand.

    `write_guard` stores it only as long as its turn is not another process's.
    """

    graph_key: str
    thread_id: str
    turn: int
    tool_call_id: str
    asker: Person
    model: str
    reason: str = ""
    write_guard: WriteGuard | None = None


async def propose(context: ApprovalContext, action: Action | Mapping[str, Any], asked: Asked) -> Approval:
    """Review an action and store it as pending.

    Raises: ProposalRefused, AlreadyProposed, NotAllowed, ApprovalNotFound (another workspace),
    MalformedProposal, GraphNotFound, and what `write_guard` raises.
    """
    asker = asked.asker
    if not context.is_home(asker):
        raise ApprovalNotFound(approval_id=asked.graph_key)
    if not asker.at_least("editor"):
        raise NotAllowed(code="proposing_needs_editor", user_id=asker.user_id, role=asker.role)
    proposed = parse_action(action)
    waiting = await _waiting(context, asked)
    names = {name: key for approval in reversed(waiting) for name, key in approval.names.items()}
    snapshot = await load_snapshot(context.source, asked.graph_key, proposed)
    meant = renamed(proposed, names, snapshot.nodes)
    if meant is not proposed:
        snapshot = await load_snapshot(context.source, asked.graph_key, meant)
    reviewed, depends_on = _reviewed(meant, snapshot, waiting)
    digest = canonical_hash(reviewed.action)
    same = next((approval for approval in waiting if approval.action_hash == digest), None)
    if same is not None:
        raise AlreadyProposed(approval_id=same.id)
    now = context.clock()
    approval = Approval(
        id=context.ids(),
        workspace=context.source.workspace,
        graph_key=asked.graph_key,
        thread_id=asked.thread_id,
        turn=asked.turn,
        tool_call_id=asked.tool_call_id,
        action=reviewed.action,
        action_hash=digest,
        base_revision=snapshot.graph.revision,
        touched=dict(reviewed.touched),
        preview=reviewed.preview.to_document(),
        reason=clean(asked.reason),
        asker=asker.user_id,
        model=asked.model,
        created=now,
        expires=now + context.ttl_ms,
        depends_on=depends_on,
        names=own_names(meant, reviewed.action),
        labels=labels_of(reviewed.action, snapshot, waiting),
    )
    return await context.store.put(approval, write_guard=asked.write_guard)


async def _waiting(context: ApprovalContext, asked: Asked) -> list[Approval]:
    """Return what this thread has proposed for the graph and nobody has decided, newest first."""
    found = await context.store.find(
        graph_key=asked.graph_key, thread_id=asked.thread_id, status="pending", limit=MAX_WAITING
    )
    now = context.clock()
    return [approval for approval in found if approval.expires > now]


def _reviewed(
    action: Action, snapshot: Snapshot, waiting: list[Approval]
) -> tuple[Reviewed, tuple[str, ...]]:
    """Review with what is waiting in place; then once more with just what the action needs of it.

    The first review keeps new nodes off places that are taken.
    """
    additions = [additions_of(approval) for approval in waiting]
    first = review(action, with_additions(snapshot, additions)).reviewed if additions else None
    if first is None:
        return _or_refused(action, snapshot), ()
    needed = _with_theirs(used_by(first.action, additions), additions, waiting)
    on = [added for added in additions if added.approval_id in needed]
    reviewed = _or_refused(first.action, with_additions(snapshot, on))
    return reviewed, tuple(sorted(needed))


def _with_theirs(used: list[Any], additions: list[Any], waiting: list[Approval]) -> set[str]:
    """Return the ids of what is used and of what that needs in its turn."""
    theirs = {approval.id: approval.depends_on for approval in waiting}
    known = {added.approval_id for added in additions}
    found: set[str] = set()
    rest = [added.approval_id for added in used]
    while rest:
        one = rest.pop()
        if one in known and one not in found:
            found.add(one)
            rest += theirs.get(one, ())
    return found


def _or_refused(action: Action, snapshot: Snapshot) -> Reviewed:
    result = review(action, snapshot)
    if result.reviewed is None:
        raise ProposalRefused(problems=result.problems)
    return result.reviewed
