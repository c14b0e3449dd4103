"""What proposing, deciding and undoing share: the graph, the approvals, the audit log, the clock.

A decision goes these steps; the process may die between any two of them:

    1. the approval is pending
    2. it is claimed: who decides what is written over the version that was read, so one decision wins
    3. (approve) the graph is read and the action reviewed again on it
    4. (approve) one transaction: mutation, approval → applied with its inverse, audit entry
    3'. (anything else) the audit entry is appended
    4'. the approval becomes rejected, expired, stale or failed

`recover` looks at what was claimed longer ago than any decision takes: an audit entry means that
3' was done, so 4' follows; a rejection is carried on from where it stopped; an approval goes back
to 1, since without step 4 nothing was applied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from datasources.base import MutableGraphDataSource
from datasources.errors import RecordConflict
from graphrag.approvals.errors import AlreadyDecided, ApprovalNotFound
from graphrag.approvals.model import SYSTEM, Approval, Decided, Outcome, Reason, Status
from graphrag.approvals.store import ApprovalStore
from graphrag.audit import Audit
from graphrag.people import Person, Policy
from tools.proposals import hash_of

CLAIM_MS = 60_000
"""A claim that is older was made by a process that died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where the approvals of one workspace lie. `clock` gives milliseconds since 1970."""

    source: MutableGraphDataSource
    store: ApprovalStore
    audit: Audit
    policy: Policy
    clock: Callable[[], int]
    ids: Callable[[], str]
    ttl_ms: int

    async def known(self, approval_id: str, by: Person, thread_id: str | None = None) -> Approval:
        """Return an approval that exists for this person. Raises: ApprovalNotFound."""
        approval = await self.store.get(approval_id) if self.is_home(by) else None
        if approval is None or (thread_id is not None and approval.thread_id != thread_id):
            raise ApprovalNotFound(approval_id=approval_id)
        return approval

    def is_home(self, by: Person) -> bool:
        return by.workspace == self.source.workspace

    async def claim(self, approval: Approval, decided: Decided) -> Approval:
        """Write down who decides what; of several only one can. Raises: AlreadyDecided."""
        try:
            return await self.store.put(approval.changed(status="claimed", decision=decided))
        except RecordConflict:
            raise await self.decided_by_another(approval) from None

    async def decided_by_another(self, approval: Approval) -> AlreadyDecided | ApprovalNotFound:
        now = await self.store.get(approval.id)
        return already_decided(now) if now else ApprovalNotFound(approval_id=approval.id)

    async def close(
        self, claimed: Approval, status: Status, reason: Reason | None = None, *, is_noted: bool = False
    ) -> Approval:
        """Record how a claimed approval ended without a change of the graph. Raises: AlreadyDecided."""
        if not is_noted:
            await self.audit.append(audit_facts(claimed, status, reason=reason))
        ended = claimed.changed(status=status, result=Outcome(at=self.clock(), reason=reason))
        try:
            return await self.store.put(ended)
        except RecordConflict:
            raise await self.decided_by_another(claimed) from None

    async def expire(self, approval: Approval) -> Approval:
        """Close a pending approval that nobody decided in time. Raises: AlreadyDecided."""
        decided = Decided(verdict="expire", by=SYSTEM, role=SYSTEM, at=self.clock())
        return await self.close(await self.claim(approval, decided), "expired")

    async def release(self, claimed: Approval) -> Approval:
        """Give a claimed approval back to whoever decides next. Raises: AlreadyDecided."""
        try:
            return await self.store.put(claimed.changed(status="pending", decision=None))
        except RecordConflict:
            raise await self.decided_by_another(claimed) from None

    async def recover_one(self, claimed: Approval) -> Approval:
        """Bring an abandoned claim to where it belongs. Raises: AlreadyDecided when it was not abandoned."""
        noted = await self.audit.entries(approval_id=claimed.id, limit=1)
        if noted:
            facts = noted[0].facts
            reason = Reason.model_validate(facts["why"]) if "why" in facts else None
            return await self.close(claimed, facts["event"], reason, is_noted=True)
        verdict = claimed.decision.verdict if claimed.decision else "approve"
        if verdict == "reject":
            return await self.close(claimed, "rejected")
        if verdict == "expire":
            return await self.close(claimed, "expired")
        return await self.release(claimed)

    def is_abandoned(self, approval: Approval, older_than_ms: int = CLAIM_MS) -> bool:
        decision = approval.decision
        return approval.status == "claimed" and (
            decision is None or decision.at + older_than_ms <= self.clock()
        )


def already_decided(approval: Approval) -> AlreadyDecided:
    decision = approval.decision
    return AlreadyDecided(
        approval_id=approval.id,
        status=approval.status,
        by=decision.by if decision else "?",
        at=decision.at if decision else approval.created,
    )


def change_hash(approval: Approval) -> str | None:
    """Return what identifies the applied change and its inverse, so that neither can be exchanged later."""
    result = approval.result
    if result is None or result.mutation is None:
        return None
    return hash_of([result.mutation, result.inverse])


def audit_facts(
    approval: Approval,
    event: str,
    *,
    revision: int | None = None,
    keys: dict[str, list[str]] | None = None,
    reason: Reason | None = None,
) -> dict[str, Any]:
    """Return what an audit entry says of a decision: who asked where, who decided, what changed."""
    decision = approval.decision
    facts: dict[str, Any] = {
        "event": event,
        "approvalId": approval.id,
        "graphKey": approval.graph_key,
        "userId": decision.by if decision else SYSTEM,
        "role": decision.role if decision else SYSTEM,
        "verdict": decision.verdict if decision else None,
        "feedback": (decision.feedback or None) if decision else None,
        "asker": approval.asker,
        "threadId": approval.thread_id,
        "turn": approval.turn,
        "toolCallId": approval.tool_call_id,
        "model": approval.model,
        "actionHash": approval.action_hash,
        "editedActionHash": decision.action_hash if decision else None,
        "revision": revision,
        "changes": keys,
        "inverse": f"approval/{approval.id}" if revision is not None else None,
        "changeHash": change_hash(approval),
        "undoes": approval.undoes,
        "undoesAlso": list(approval.undoes_also) or None,
        "why": reason.model_dump(exclude_none=True) if reason else None,
    }
    return {name: value for name, value in facts.items() if value is not None}
