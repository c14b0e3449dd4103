"""What proposing, deciding and undoing share: the graph, the approvals, the audit log, the clock."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from datasources.base import MutableGraphDataSource, RecordWrite
from datasources.errors import (
    BadDocument,
    DatabaseBusy,
    GraphNotFound,
    InvalidMutation,
    RecordConflict,
    RevisionConflict,
    SourceError,
)
from datasources.types import Mutation
from graphrag.approvals.approval import SYSTEM, Approval, Decided, Outcome, Reason, Status
from graphrag.approvals.audit import Audit
from graphrag.approvals.errors import AlreadyDecided, ApprovalBusy, ApprovalNotFound
from graphrag.approvals.store import ApprovalStore, Fence
from graphrag.approvals.validation import CLASSES, ActionClass
from graphrag.roles import Person, Policy
from tools.proposals import hash_of

T = TypeVar("T")

MAX_QUEUED = 1_000
"""Decisions of one graph that wait at most; one more is refused."""

ATTEMPTS = 200
"""So often work begins again because others changed the graph meanwhile."""
BUSY_ATTEMPTS = 4
PAUSE_S = 0.02
"""The longest wait before another attempt. It does not grow: a caller that waited long would be the last."""


class GraphQueues:
    """One queue of work for each graph of this process, in the order it was asked for.

    A caller that is cancelled before its turn leaves the queue.
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._asked: Counter[str] = Counter()

    async def run(self, graph_key: str, approval_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` in its turn; once begun it goes on to its end, also when the caller is cancelled.

        Raises: ApprovalBusy when too many wait, and what `work` raises.
        """
        if self._asked[graph_key] >= MAX_QUEUED:
            raise ApprovalBusy(approval_id=approval_id)
        lock = self._locks.setdefault(graph_key, asyncio.Lock())
        self._asked[graph_key] += 1
        try:
            await lock.acquire()
        except asyncio.CancelledError:
            self._left(graph_key)
            raise
        task = asyncio.ensure_future(work())
        task.add_done_callback(lambda _: (lock.release(), self._left(graph_key)))
        return await asyncio.shield(task)

    def _left(self, graph_key: str) -> None:
        self._asked[graph_key] -= 1
        if not self._asked[graph_key]:
            del self._asked[graph_key], self._locks[graph_key]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalContext:
    """Where the approvals of one workspace lie. `clock` gives milliseconds since 1970."""

    source: MutableGraphDataSource
    store: ApprovalStore
    audit: Audit
    policy: Policy
    clock: Callable[[], int]
    ids: Callable[[], str]
    ttl_ms: int
    application: frozenset[ActionClass] = CLASSES
    """The classes for which the operator demands a person."""
    queues: GraphQueues = field(default_factory=GraphQueues)

    async def known(self, approval_id: str, by: Person, thread_id: str | None = None) -> Approval:
        """Return an approval that exists for this person. Raises: ApprovalNotFound."""
        approval = await self.store.get(approval_id) if self.is_home(by) else None
        if approval is None or (thread_id is not None and approval.thread_id != thread_id):
            raise ApprovalNotFound(approval_id=approval_id)
        return approval

    def objection(self, approval: Approval, by: Person) -> str | None:
        """Return the message code of what forbids a person to decide it, or None: the workspace's policy, or
        the rule for the program that proposed it."""
        policy, deciders = self.policy, approval.deciders
        if deciders is not None:
            four_eyes = policy.four_eyes or deciders == "four-eyes"
            policy = replace(policy, asker_decides=False, four_eyes=four_eyes)
        return policy.objection(by, approval.asker)

    def is_home(self, by: Person) -> bool:
        return by.workspace == self.source.workspace

    async def waiting(
        self, *, graph_key: str | None = None, thread_id: str | None = None, limit: int = 100
    ) -> list[Approval]:
        """Return what nobody has decided and still may be, the latest first. Raises: SourceError."""
        found = await self.store.find(graph_key=graph_key, thread_id=thread_id, status="pending", limit=limit)
        now = self.clock()
        return [approval for approval in found if approval.expires > now]

    async def in_turn(self, graph_key: str, approval_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` when it is its turn on this graph; again when others changed meanwhile what it read.

        Once begun it goes on to its end, also when the caller goes away.
        Raises: ApprovalBusy, and what `work` raises.
        """

        async def attempts() -> T:
            busy = 0
            for _ in range(ATTEMPTS):
                try:
                    return await work()
                except (RevisionConflict, RecordConflict):
                    pass
                except DatabaseBusy:
                    busy += 1
                    if busy == BUSY_ATTEMPTS:
                        raise
                await asyncio.sleep(random.uniform(0, PAUSE_S))
            raise ApprovalBusy(approval_id=approval_id)

        return await self.queues.run(graph_key, approval_id, attempts)

    async def commit(
        self,
        result: Approval,
        facts: Mapping[str, Any],
        write: Callable[[Sequence[RecordWrite]], Awaitable[object]],
    ) -> Approval:
        """Have `write` store an approval and its audit entry in one transaction; return it as stored.

        Raises: what `write` raises, unless it was done all the same and only the answer was lost.
        """
        try:
            await self.audit.record(facts, write)
        except (RevisionConflict, RecordConflict, InvalidMutation, BadDocument, GraphNotFound):
            raise
        except SourceError:
            stored = await self.store.get(result.id)
            if stored is None or (stored.status, stored.decision) != (result.status, result.decision):
                raise
            return stored
        return await self.store.get(result.id) or result

    async def apply(
        self,
        result: Approval,
        event: str,
        mutation: Mutation,
        *,
        revision: int,
        records: Sequence[RecordWrite] = (),
        fence: Fence | None = None,
        **more: str,
    ) -> Approval:
        """Apply a mutation with the approval that stands for it, its audit entry (with `more`) and `records`.

        All in one transaction, on the graph as it was at `revision`. Raises: as `commit`.
        """

        def documents() -> tuple[dict[str, Any], RecordWrite]:
            return audit_facts(result, event) | more, result.write()

        facts, own = await asyncio.to_thread(documents)
        timed = replace(mutation, changed_at=result.result.at if result.result else self.clock())

        async def write(entry: Sequence[RecordWrite]) -> None:
            held = [fence.fence()] if fence else []
            joined = [own, *records, *entry, *held]
            await self.source.apply(timed, expected_revision=revision, records=joined)

        return await self.commit(result, facts, write)

    async def write_audited(self, write: RecordWrite, facts: Mapping[str, Any]) -> None:
        """Carry out a write with its audit entry, in one transaction. Raises: RecordConflict, SourceError."""
        records = self.store.records
        await self.audit.record(facts, lambda entry: records.write([write, *entry]))

    async def close(
        self, approval: Approval, status: Status, decided: Decided, reason: Reason | None = None
    ) -> Approval:
        """Record how an approval ended without a change of the graph. Raises: RecordConflict."""
        ended = approval.changed(
            status=status, decision=decided, result=Outcome(at=self.clock(), reason=reason)
        )

        records, facts = self.store.records, audit_facts(ended, status)
        return await self.commit(ended, facts, lambda entry: records.write([ended.write(), *entry]))

    async def expire(self, approval: Approval, *, graph_is_gone: bool = False) -> Approval:
        """Close a pending approval that nobody decided in time, or can decide; return how it ended."""
        decided = Decided(verdict="expire", by=SYSTEM, role=SYSTEM, at=self.clock())
        try:
            if graph_is_gone:
                return await self.close(approval, "failed", decided, Reason(code="failed_graph_gone"))
            return await self.close(approval, "expired", decided)
        except RecordConflict:  # somebody was faster
            return await self.store.get(approval.id) or approval


def already_decided(approval: Approval) -> AlreadyDecided:
    decision = approval.decision
    return AlreadyDecided(
        approval_id=approval.id, status=approval.status, by=decision.by if decision else "?"
    )


def change_hash(approval: Approval) -> str | None:
    """Return what identifies the applied change and its inverse, so that neither can be exchanged later."""
    result = approval.result
    if result is None or result.mutation is None:
        return None
    return hash_of([result.mutation, result.inverse])


def audit_facts(approval: Approval, event: str) -> dict[str, Any]:
    """Return what an audit entry says of a decision: who asked where, who decided, what changed."""
    decision, result = approval.decision, approval.result
    revision = result.revision if result else None
    facts: dict[str, Any] = {
        "event": event,
        "approvalId": approval.id,
        "graphKey": approval.graph_key,
        "userId": decision.by if decision else SYSTEM,
        "role": decision.role if decision else SYSTEM,
        "verdict": decision.verdict if decision else None,
        "levels": decision.levels if decision else None,
        "feedback": (decision.feedback or None) if decision else None,
        "asker": approval.asker,
        "threadId": approval.thread_id,
        "turn": approval.turn,
        "toolCallId": approval.tool_call_id,
        "model": approval.model,
        "client": approval.client,
        "automationId": approval.automation_id,
        "scheduledTime": approval.scheduled_time,
        "seedVersion": approval.seed_version,
        "actionHash": approval.action_hash,
        "editedActionHash": decision.action_hash if decision else None,
        "revision": revision,
        "changes": (result.keys or None) if result else None,
        "inverse": f"approval/{approval.id}" if revision is not None else None,
        "changeHash": change_hash(approval),
        "undoes": approval.undoes,
        "undoesAlso": list(approval.undoes_also) or None,
        "why": result.reason.model_dump(exclude_none=True) if result and result.reason else None,
    }
    return {name: value for name, value in facts.items() if value is not None}
