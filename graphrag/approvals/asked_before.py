"""Finds a proposal that was made before: one that waits, or one rejected on the same content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag.approvals.actions.touched import changed_since, touched
from graphrag.approvals.approval import Action
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.errors import AlreadyProposed, RejectedBefore
from graphrag.approvals.pending_changes import with_names
from tools.proposals import canonical_json, hash_of, single_actions, to_document
from tools.write_tools import Snapshot

if TYPE_CHECKING:
    from graphrag.approvals.proposing import Asked

LOOKED_AT = 20
"""Earlier proposals of one change that are looked at, the latest."""
_CREATES = ("create_node", "create_node_with_edges")


def proposal_hash(action: Action) -> str:
    """Return what is the same for every proposal of one change.

    Neither the order of a batch counts nor what it calls its new nodes, nor that one action is in a batch.
    """
    parts = [to_document(single) for _, single in single_actions(action)]
    own: dict[str, str] = {}
    for part in parts:
        payload = part["payload"]
        if part["type"] in _CREATES and (name := payload.pop("key", None)):
            own[name] = hash_of({**payload, "edges": []})
    return hash_of(sorted(canonical_json(_in_order(with_names(part, own))) for part in parts))


def _in_order(part: dict[str, Any]) -> dict[str, Any]:
    payload = part["payload"]
    sets = ("edges", "nodeKeys") if part["type"] in (*_CREATES, "reorganize_layout") else ()
    ordered = {name: sorted(payload[name], key=canonical_json) for name in sets if name in payload}
    return {**part, "payload": payload | ordered}


async def refuse_repeated(context: ApprovalContext, digest: str, snapshot: Snapshot, asked: Asked) -> None:
    """Raise AlreadyProposed for what waits, RejectedBefore for what was rejected on the same content.

    Among the proposals for the graph of one automation, else of one thread. In a conversation a rejection
    holds for its turn: who asks again in a new message has changed their mind.
    """
    automation_id = asked.session.automation_id
    found = await context.store.find(
        proposal_hash=digest,
        graph_key=snapshot.graph.key,
        thread_id=asked.thread_id if automation_id is None else None,
        automation_id=automation_id,
        limit=LOOKED_AT,
    )
    now = context.clock()
    for earlier in found:
        if earlier.is_open and earlier.expires > now:
            raise AlreadyProposed(approval_id=earlier.id)
    for earlier in found:
        if earlier.status == "applied":
            return  # a person changed their mind since
        holds = automation_id is not None or earlier.turn == asked.turn
        if earlier.status != "rejected" or earlier.decision is None or not holds:
            continue
        if not changed_since(earlier.touched, touched(earlier.action, snapshot)):
            decision = earlier.decision
            raise RejectedBefore(approval_id=earlier.id, by=decision.by, feedback=decision.feedback)
