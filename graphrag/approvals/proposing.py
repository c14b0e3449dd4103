"""Takes a proposed action: reviews it on the graph as it will be, and stores it for a person to decide."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graphrag.approvals import programs
from graphrag.approvals.action_review import Reviewed, review
from graphrag.approvals.approval import Action, Approval, clean
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.asked_before import proposal_hash, refuse_repeated
from graphrag.approvals.errors import ApprovalNotFound, NotAllowed, ProposalRefused
from graphrag.approvals.levels import demands_of, levels_of, protected_fields
from graphrag.approvals.pending_changes import additions_of, own_names, renamed, used_by, with_additions
from graphrag.approvals.preview import Preview
from graphrag.approvals.review_words import warnings_of
from graphrag.approvals.store import WriteGuard
from graphrag.approvals.titles import labels_of
from graphrag.approvals.validation import Demand
from graphrag.roles import Person
from tools.base import Problem
from tools.proposals import canonical_hash, parse_action
from tools.write_tools import Snapshot, load_snapshot, resolve_action

MAX_WAITING = 100
"""Pending proposals of one thread that a new one may build on."""
_PROTECTED = "only people say what they must be asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposingSession:
    """The session that proposes. `require_validation`: a person decides all that it proposes.

    An automation's names its run. `codemod_id`: of a replacement over many graphs. `voice_code`: what a
    caller names its proposal by.
    Units: `ttl_ms`, how long its proposals wait, in milliseconds (None: as long as others); `scheduled_time`
    in milliseconds since 1970.
    """

    kind: Literal["chat", "automation"] = "chat"
    automation_id: str | None = None
    codemod_id: str | None = None
    scheduled_time: int | None = None
    seed_version: int | None = None
    require_validation: bool = False
    ttl_ms: int | None = None
    voice_code: str | None = None


CHAT_SESSION = ProposingSession()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where a proposal comes from. `model` is `person` for what somebody proposes by hand.

    `ask_first`: the model itself wants a person to decide. `write_guard` stores it only as long as its turn
    is not another process's.
    """

    graph_key: str
    thread_id: str
    turn: int
    tool_call_id: str
    asker: Person
    model: str
    reason: str = ""
    write_guard: WriteGuard | None = None
    session: ProposingSession = CHAT_SESSION
    ask_first: bool = False


async def propose(context: ApprovalContext, action: Action | Mapping[str, Any], asked: Asked) -> Approval:
    """Review an action and store it as pending.

    Raises: ProposalRefused, AlreadyProposed, RejectedBefore, NotAllowed, ApprovalNotFound (another
    workspace), MalformedProposal, GraphNotFound, and what `write_guard` raises.
    """
    admitted = await _admitted(context, asked)
    proposed = parse_action(action)
    waiting = await context.waiting(graph_key=asked.graph_key, thread_id=asked.thread_id, limit=MAX_WAITING)
    names = {name: key for approval in reversed(waiting) for name, key in approval.names.items()}
    snapshot = await load_snapshot(context.source, asked.graph_key, proposed)
    meant = await asyncio.to_thread(renamed, proposed, names, snapshot.nodes)
    if meant is not proposed:
        snapshot = await load_snapshot(context.source, asked.graph_key, meant)
    whole = with_additions(snapshot, [additions_of(approval) for approval in waiting])
    digest = await asyncio.to_thread(lambda: proposal_hash(resolve_action(meant, whole)[0]))
    await refuse_repeated(context, digest, whole, asked)
    reviewed, depends_on = await asyncio.to_thread(_reviewed, meant, snapshot, waiting)
    if protected := await asyncio.to_thread(protected_fields, snapshot, reviewed.mutation):
        raise ProposalRefused(problems=[Problem(where=name, what=_PROTECTED) for name in protected])
    if admitted is not None:
        programs.check_classes(admitted, reviewed.action)
        await programs.count(context, admitted)
    reasons = await _reasons(context, asked, reviewed.action, whole, admitted)

    def made() -> Approval:
        proposal = new_approval(context, asked, reviewed.action, snapshot, reviewed.preview, reviewed.touched)
        return proposal.changed(
            reasons=reasons,
            needs_person=bool(reasons),
            proposal_hash=digest,
            program=admitted.id if admitted else None,
            deciders=admitted.deciders if admitted else None,
            depends_on=depends_on,
            names=own_names(meant, reviewed.action),
            labels=labels_of(reviewed.action, snapshot, waiting),
        )

    approval = await asyncio.to_thread(made)
    warnings = await warnings_of(context, approval, snapshot)
    return await context.store.put(approval.changed(warnings=warnings), write_guard=asked.write_guard)


async def _admitted(context: ApprovalContext, asked: Asked) -> programs.Admitted | None:
    """Return the program that proposes, if one does. Raises: what forbids that somebody proposes here."""
    asker = asked.asker
    if not context.is_home(asker):
        raise ApprovalNotFound(approval_id=asked.graph_key)
    if not asker.at_least("editor"):
        raise NotAllowed(code="proposing_needs_editor", user_id=asker.user_id, role=asker.role)
    return await programs.admit(context, asker.client)


async def _reasons(
    context: ApprovalContext,
    asked: Asked,
    action: Action,
    snapshot: Snapshot,
    admitted: programs.Admitted | None,
) -> tuple[Demand, ...]:
    levels = await levels_of(
        context,
        action,
        snapshot,
        session=asked.session.require_validation or (admitted is not None and admitted.is_watched),
        request=asked.ask_first,
        unattended=asked.session.kind == "automation",
    )
    return demands_of(action, levels, snapshot)


def new_approval(
    context: ApprovalContext,
    asked: Asked,
    action: Action,
    snapshot: Snapshot,
    preview: Preview,
    touched: Mapping[str, str],
) -> Approval:
    """Return a proposal of an action on a graph as it is; nothing is stored."""
    now, session = context.clock(), asked.session
    return Approval(
        id=context.ids(),
        workspace=context.source.workspace,
        graph_key=asked.graph_key,
        thread_id=asked.thread_id,
        turn=asked.turn,
        tool_call_id=asked.tool_call_id,
        action=action,
        action_hash=canonical_hash(action),
        base_revision=snapshot.graph.revision,
        touched=dict(touched),
        preview=preview.to_document(),
        reason=clean(asked.reason),
        asker=asked.asker.user_id,
        client=client.to_document() if (client := asked.asker.client) else None,
        model=asked.model,
        created=now,
        expires=now + (context.ttl_ms if session.ttl_ms is None else session.ttl_ms),
        automation_id=session.automation_id,
        codemod_id=session.codemod_id,
        scheduled_time=session.scheduled_time,
        seed_version=session.seed_version,
        voice_code=session.voice_code,
    )


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
