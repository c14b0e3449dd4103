"""Accepts a proposed action: reviews it on the graph with pending changes, and stores it for a
decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from graphrag.approvals.action_review import Reviewed, changed_since, review, touched
from graphrag.approvals.approval import Action, Approval, clean
from graphrag.approvals.approval_context import ApprovalContext, WriteGuard
from graphrag.approvals.errors import AlreadyProposed, ProposalRefused, RejectedBefore
from graphrag.approvals.pending_changes import (
    Additions,
    additions_of,
    own_names,
    renamed,
    used_by,
    with_additions,
)
from graphrag.approvals.policies import demands_of, levels_of, protected_fields
from graphrag.approvals.programs import is_always_reviewed, program_of
from graphrag.approvals.stored_parts import with_shown
from graphrag.approvals.wording import labels_of, warnings_of
from graphrag.roles import Person
from tools.action_keys import with_node_keys
from tools.base import Problem
from tools.proposals import (
    SingleAction,
    canonical_hash,
    canonical_json,
    hash_of,
    parse_action,
    single_actions,
    to_document,
)
from tools.write_tools import Snapshot, load_snapshot, resolve_action

MAX_WAITING = 100  # Maximum number of pending proposals of a thread that a new one may build on.
MAX_COMPARED = 20  # Number of the latest proposals of the same change that are checked.
_PROTECTED = "only people say what they must be asked for"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProposingSession:
    """The session that proposes. `require_validation`: a person must decide all its proposals.

    `automation_id`, `scheduled_time` and `seed_version` name the run of an automation.
    `codemod_id`: the id of a replacement over many graphs. `voice_code`: the code by which a caller
    names its proposal. Units: `ttl_ms`, the lifetime of its proposals, in milliseconds (None: the
    default); `scheduled_time` in milliseconds since 1970.
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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The origin of a proposal. With the defaults of `turn` and `model`, a person made it by hand.

    `ask_first`: the model itself asks for a person's decision. `write_guard`: stores it only while
    this process may write for the turn.
    """

    graph_key: str
    thread_id: str
    turn: int = 0
    tool_call_id: str
    asker: Person
    model: str = "person"
    reason: str = ""
    write_guard: WriteGuard | None = None
    session: ProposingSession = CHAT_SESSION
    ask_first: bool = False


async def propose(
    context: ApprovalContext, action: Action | Mapping[str, Any], asked: Asked
) -> Approval:
    """Reviews an action and stores it for a decision. The graph is not changed.

    `needs_person` of the result tells whether a person must decide. Raises: ProposalRefused with
    the problems, AlreadyProposed, RejectedBefore, NotAllowed, ApprovalNotFound (the asker belongs
    to another workspace), MalformedProposal, GraphNotFound, and the errors of `write_guard`.
    """
    context.check(asked.asker, "editor", "proposing_needs_editor", about=asked.graph_key)
    client = asked.asker.client
    resolved, snapshot, waiting = await _resolved(context, asked, parse_action(action))
    additions = [additions_of(approval) for approval in waiting]
    whole = with_additions(snapshot, additions)
    digest = await asyncio.to_thread(lambda: proposal_hash(resolve_action(resolved, whole)[0]))
    await _refuse_repeated(context, digest, whole, asked)
    reviewed, depends_on = await asyncio.to_thread(
        _reviewed_on_pending, resolved, snapshot, additions, waiting
    )
    levels = await levels_of(
        context,
        reviewed.action,
        whole,
        session=asked.session.require_validation or is_always_reviewed(client),
        request=asked.ask_first,
        unattended=asked.session.kind == "automation",
    )

    def new() -> Approval:
        reasons = demands_of(reviewed.action, levels, whole)
        return new_approval(context, asked, reviewed.action, snapshot, reviewed.preview).changed(
            touched=dict(reviewed.touched),
            reasons=reasons,
            needs_person=bool(reasons),
            proposal_hash=digest,
            program=program_of(client),
            depends_on=depends_on,
            names=own_names(resolved, reviewed.action),
            labels=labels_of(reviewed.action, snapshot, waiting),
        )

    approval = await asyncio.to_thread(new)
    approval = approval.changed(warnings=await warnings_of(context, approval, snapshot))
    stored = await context.put(approval, write_guard=asked.write_guard)
    if context.on_proposed is not None and stored.needs_person:
        context.on_proposed(stored)
    return stored


async def _resolved(
    context: ApprovalContext, asked: Asked, action: Action
) -> tuple[Action, Snapshot, list[Approval]]:
    """Returns the action with pending nodes named by their keys, the snapshot that it needs, and
    the pending proposals of the thread.
    """
    waiting = await context.waiting(
        graph_key=asked.graph_key, thread_id=asked.thread_id, limit=MAX_WAITING
    )
    names = {name: key for approval in reversed(waiting) for name, key in approval.names.items()}
    snapshot = await load_snapshot(context.source, asked.graph_key, action)
    resolved = await asyncio.to_thread(renamed, action, names, snapshot.nodes)
    if resolved is not action:
        snapshot = await load_snapshot(context.source, asked.graph_key, resolved)
    return resolved, snapshot, waiting


def new_approval(
    context: ApprovalContext,
    asked: Asked,
    action: Action,
    snapshot: Snapshot,
    preview: Mapping[str, Any],
) -> Approval:
    """Returns a new proposal of an action on the current graph, which is not stored yet."""
    now = context.clock()
    session = asked.session
    client = asked.asker.client
    return Approval(
        id=context.new_id(),
        workspace=context.source.workspace,
        graph_key=asked.graph_key,
        thread_id=asked.thread_id,
        turn=asked.turn,
        tool_call_id=asked.tool_call_id,
        action=action,
        action_hash=canonical_hash(action),
        base_revision=snapshot.graph.revision,
        touched={},
        preview=dict(preview),
        reason=clean(asked.reason),
        asker=asked.asker.user_id,
        client=client.to_document() if client else None,
        model=asked.model,
        created=now,
        expires=now + (context.ttl_ms if session.ttl_ms is None else session.ttl_ms),
        automation_id=session.automation_id,
        codemod_id=session.codemod_id,
        scheduled_time=session.scheduled_time,
        seed_version=session.seed_version,
        voice_code=session.voice_code,
    )


def _reviewed_on_pending(
    action: Action, snapshot: Snapshot, additions: Sequence[Additions], waiting: Iterable[Approval]
) -> tuple[Reviewed, tuple[str, ...]]:
    """Reviews an action with all pending changes, and again with those that it needs.

    The first review keeps new nodes away from occupied positions. Raises: ProposalRefused.
    """
    try:
        first = review(action, with_additions(snapshot, additions)) if additions else None
    except ProposalRefused:
        first = None
    needed: set[str] = set()
    if first is not None:
        dependencies = {approval.id: approval.depends_on for approval in waiting}
        queue = [added.approval_id for added in used_by(first.action, additions)]
        while queue:
            approval_id = queue.pop()
            if approval_id in dependencies and approval_id not in needed:
                needed.add(approval_id)
                queue += dependencies[approval_id]
    used = [added for added in additions if added.approval_id in needed]
    reviewed = review(
        first.action if first else action, with_additions(snapshot, used) if first else snapshot
    )
    if protected := protected_fields(snapshot, reviewed.mutation):
        raise ProposalRefused(problems=[Problem(where=name, what=_PROTECTED) for name in protected])
    return reviewed, tuple(sorted(needed))


def proposal_hash(action: Action) -> str:
    """Returns a hash that is equal for all proposals of the same change.

    The order of a batch, the names of new nodes, and whether a single action is in a batch do not
    matter.
    """
    singles = [single for _, single in single_actions(action)]
    hashes: dict[str, str] = {}
    for single in singles:
        payload = _unnamed(single)["payload"]
        if (new := single.effects().creates) and new.key:
            hashes[new.key] = hash_of({**payload, "edges": []})
    parts = [_sorted_lists(_unnamed(with_node_keys(single, hashes))) for single in singles]
    return hash_of(sorted(map(canonical_json, parts)))


def _unnamed(single: SingleAction) -> dict[str, Any]:
    """Returns the document of an action without the name of its new node."""
    part = to_document(single)
    dropped = ("key",) if single.effects().creates else ()
    return {
        **part,
        "payload": {name: v for name, v in part["payload"].items() if name not in dropped},
    }


def _sorted_lists(part: dict[str, Any]) -> dict[str, Any]:
    payload = part["payload"]
    ordered = {
        name: sorted(payload[name], key=canonical_json)
        for name in ("edges", "nodeKeys")
        if name in payload
    }
    return {**part, "payload": payload | ordered}


async def _refuse_repeated(
    context: ApprovalContext, digest: str, snapshot: Snapshot, asked: Asked
) -> None:
    """Raises: AlreadyProposed for a pending proposal, RejectedBefore for a rejected one with
    unchanged content.

    Compares with proposals for the graph of the automation or else of the thread. In a conversation
    a rejection counts only in its turn: a person who asks again has changed their mind.
    """
    automation_id = asked.session.automation_id
    proposals = await context.find(
        proposal_hash=digest,
        graph_key=snapshot.graph.key,
        thread_id=asked.thread_id if automation_id is None else None,
        automation_id=automation_id,
        limit=MAX_COMPARED,
    )
    now = context.clock()
    for earlier in proposals:
        if earlier.is_open and earlier.expires > now:
            raise AlreadyProposed(approval_id=earlier.id)
    for earlier in proposals:
        if earlier.status == "applied":
            return  # a person approved the same change since
        decision = earlier.decision
        counts = automation_id is not None or earlier.turn == asked.turn
        if earlier.status != "rejected" or decision is None or not counts:
            continue
        earlier = await with_shown(context.records, earlier)
        if not changed_since(earlier.touched, touched(earlier.action, snapshot)):
            raise RejectedBefore(approval_id=earlier.id, by=decision.by, feedback=decision.feedback)
