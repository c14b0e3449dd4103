"""What proposing, deciding and undoing share: the graphs, the stored approvals, the audit
log, the clock.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, final

from datasources.base import MutableGraphDataSource, Record, RecordStore, RecordWrite
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
from graphrag.approvals import stored_parts
from graphrag.approvals.approval import (
    KIND,
    SYSTEM,
    Approval,
    Decided,
    Outcome,
    Reason,
    Status,
    from_record,
)
from graphrag.approvals.audit import Audit
from graphrag.approvals.errors import ApprovalBusy, ApprovalNotFound, NotAllowed
from graphrag.approvals.validation import CLASSES, ActionClass
from graphrag.leases import now_ms
from graphrag.roles import Person, Policy
from tools.base import Role
from tools.proposals import hash_of

log = logging.getLogger(__name__)
T = TypeVar("T")

TTL_MS = 24 * 3600 * 1000
MAX_QUEUED = 1_000
"""Decisions of one graph that wait at most; one more is refused."""

ATTEMPTS = 200
"""So often work begins again because others changed the graph meanwhile."""
BUSY_ATTEMPTS = 4
PAUSE_S = 0.02
"""The longest wait before another attempt. It does not grow: a caller that waited long would
be the last.
"""

WriteGuard = Callable[[RecordWrite], Awaitable[Sequence[Record | None]]]
"""Carries out a write together with a check of its own, or raises."""


class Fence(Protocol):
    """Lets a transaction through only as long as its caller may still
    write; see `graphrag.leases.Lease`.
    """

    def fence(self) -> RecordWrite: ...

    async def read(self) -> None:
        """Make the next `fence` fit what is stored. Raises: what says that the caller may not."""
        ...


@final
class ApprovalContext:
    """The approvals of one workspace, each written only over the version that was read.

    Raises (writes): RecordConflict when somebody was faster.
    """

    def __init__(
        self,
        source: MutableGraphDataSource,
        records: RecordStore,
        *,
        policy: Policy | None = None,
        clock: Callable[[], int] = now_ms,
        ttl_ms: int = TTL_MS,
        require_validation: frozenset[ActionClass] = CLASSES,
        on_applied: Callable[[Approval], Awaitable[None]] | None = None,
        on_decided: Callable[[Approval], None] | None = None,
        on_proposed: Callable[[Approval], None] | None = None,
    ) -> None:
        """`on_applied` is called with every change that a decision or an undo applied, `on_decided`
        with every decision and undo that was carried out; what they raise is logged. `on_proposed`
        is called with every proposal that a person must decide; it may not raise.
        `require_validation`: the classes for which the operator demands a person.
        `clock` gives milliseconds since 1970.
        """
        self.source = source
        self.records = records
        self.clock = clock
        self.ttl_ms = ttl_ms
        self.audit = Audit(records, clock)
        self.deciders = policy or Policy()
        self.application = require_validation
        self._on_applied = on_applied
        self._on_decided = on_decided
        self.on_proposed = on_proposed
        self._locks: dict[str, asyncio.Lock] = {}
        self._asked: Counter[str] = Counter()

    def new_id(self) -> str:
        """Return an id that nobody can guess."""
        return f"ap_{secrets.token_hex(12)}"

    def is_home(self, by: Person) -> bool:
        return by.workspace == self.source.workspace

    def check(self, by: Person, role: Role = "viewer", code: str = "", *, about: str = "") -> None:
        """Raises: ApprovalNotFound for somebody of another workspace, NotAllowed for one
        of a lesser role.
        """
        if not self.is_home(by):
            raise ApprovalNotFound(approval_id=about)
        if not by.at_least(role):
            raise NotAllowed(code=code, user_id=by.user_id, role=by.role)

    def objection(self, asker: str, by: Person) -> str | None:
        """Returns the message code of the rule by which a person may not decide what `asker` asked
        for, None where they may.
        """
        return self.deciders.objection(by, asker)

    # Reading

    async def stored(self, approval_id: str) -> Approval | None:
        """Return an approval of this workspace as it is stored now, with what it shows, None where
        there is none. What takes it back is read by `stored_parts.with_undo`.
        """
        record = await self.records.get(KIND, approval_id)
        if record is None or record.data.get("workspace") != self.source.workspace:
            return None
        approval = await asyncio.to_thread(from_record, record)
        return await stored_parts.with_shown(self.records, approval)

    async def read(self, records: Sequence[Record]) -> list[Approval]:
        """Reads records of this workspace in a thread: one can hold thousands of documents."""
        own = [one for one in records if one.data.get("workspace") == self.source.workspace]
        return await asyncio.to_thread(lambda: [from_record(record) for record in own])

    async def known(self, approval_id: str, by: Person) -> Approval:
        """Return an approval that exists for this person. Raises: ApprovalNotFound."""
        approval = await self.stored(approval_id) if self.is_home(by) else None
        if approval is None:
            raise ApprovalNotFound(approval_id=approval_id)
        return approval

    async def find(self, *, limit: int = 100, **fields: str | None) -> list[Approval]:
        """Return the latest approvals with these fields (None: any), newest first; of settled ones
        without their large parts.
        """
        names = Approval.model_fields
        where = {names[k].serialization_alias or k: v for k, v in fields.items() if v is not None}
        found = await self.records.query(
            KIND, where, order_by="createdTime", descending=True, limit=limit
        )
        return await self.read(found)

    async def waiting(self, *, limit: int = 1_000, **fields: str | None) -> list[Approval]:
        """Return what nobody has decided and still may be, the latest
        first. Raises: SourceError.
        """
        now = self.clock()
        return [
            one
            for one in await self.find(status="pending", limit=limit, **fields)
            if one.expires > now
        ]

    # Writing

    async def put(self, approval: Approval, *, write_guard: WriteGuard | None = None) -> Approval:
        """Store it; return it with its new version. `write_guard` carries the write out,
        or refuses to.
        """
        write = await asyncio.to_thread(stored_parts.head_write, approval)
        written = await (write_guard(write) if write_guard else self.records.write([write]))
        [stored] = filter(None, written)
        return await asyncio.to_thread(from_record, stored)

    async def in_turn(
        self, graph_key: str, approval_id: str, work: Callable[[], Awaitable[T]]
    ) -> T:
        """Do `work` when it is its turn on this graph; again when others changed meanwhile
        what it read.

        Once begun it goes on to its end, also when the caller goes away; one that is cancelled
        before its turn leaves the queue. Raises: ApprovalBusy, and what `work` raises.
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
        task = asyncio.ensure_future(_attempts(approval_id, work))
        task.add_done_callback(lambda _: (lock.release(), self._left(graph_key)))
        return await asyncio.shield(task)

    def is_free(self, graph_key: str) -> bool:
        """Whether work on this graph would begin at once: what was just read is then as new
        as can be.
        """
        return graph_key not in self._asked

    def _left(self, graph_key: str) -> None:
        self._asked[graph_key] -= 1
        if not self._asked[graph_key]:
            del self._asked[graph_key], self._locks[graph_key]

    async def commit(
        self,
        result: Approval,
        event: str,
        mutation: Mutation | None = None,
        *,
        revision: int | None = None,
        records: Sequence[RecordWrite] = (),
        fence: Fence | None = None,
        **more: str,
    ) -> Approval:
        """Store an approval with its audit entry (with `more`), `records` and the
        mutation it stands for.

        All in one transaction, on the graph as it was at `revision`; then the callbacks are called,
        once for each transition, by any caller. Returns `result`, which has no version then: who
        changes it again reads it first.
        Raises: SourceError, unless all was done and only the answer was lost.
        """
        facts = await asyncio.to_thread(lambda: audit_facts(result, event) | more)
        result, parts = await asyncio.to_thread(stored_parts.apart, result)
        own = await asyncio.to_thread(stored_parts.head_write, result)
        at = result.result.at if result.result else self.clock()

        def write(entry: Sequence[RecordWrite]) -> Awaitable[object]:
            joined = [own, *parts, *records, *entry, *([fence.fence()] if fence else [])]
            if mutation is None:
                return self.records.write(joined)
            timed = replace(mutation, changed_at=at)
            return self.source.apply(timed, expected_revision=revision, records=joined)

        try:
            await self.audit.record(facts, write)
        except (RevisionConflict, RecordConflict, InvalidMutation, BadDocument, GraphNotFound):
            raise
        except SourceError:
            stored = await self.stored(result.id)
            if stored is None or (stored.status, stored.decision) != (
                result.status,
                result.decision,
            ):
                raise
        return await self._announced(result.changed(version=None))

    async def audited(
        self,
        by: Person,
        facts: Mapping[str, Any],
        write: Callable[[Sequence[RecordWrite]], Awaitable[object]],
    ) -> None:
        """Have `write` store something a person does, in one transaction with the entry that
        it is given.

        Raises: what `write` raises; RecordConflict when others are always first.
        """
        await self.audit.record({**facts, "userId": by.user_id, "role": by.role}, write)

    async def close(
        self, approval: Approval, status: Status, decided: Decided, reason: Reason | None = None
    ) -> Approval:
        """Record how an approval ended without a change of the graph. Raises: RecordConflict."""
        outcome = Outcome(at=self.clock(), reason=reason)
        return await self.commit(
            approval.changed(status=status, decision=decided, result=outcome), status
        )

    async def expire(self, approval: Approval, *, graph_is_gone: bool = False) -> Approval:
        """Close a pending approval that nobody decided in time, or can decide; return
        how it ended.
        """
        decided = Decided(verdict="expire", by=SYSTEM, role=SYSTEM, at=self.clock())
        try:
            if graph_is_gone:
                return await self.close(
                    approval, "failed", decided, Reason(code="failed_graph_gone")
                )
            return await self.close(approval, "expired", decided)
        except RecordConflict:  # somebody was faster
            return await self.stored(approval.id) or approval

    async def _announced(self, approval: Approval) -> Approval:
        """Call the callbacks with what was committed: whatever becomes of that,
        it stays committed.
        """
        try:
            if self._on_decided is not None:
                self._on_decided(approval)
            if self._on_applied is not None and approval.status == "applied":
                await self._on_applied(approval)
        except Exception as exc:
            log.exception("after_decision_failed", extra={"error": type(exc).__name__})
        return approval


async def _attempts(approval_id: str, work: Callable[[], Awaitable[T]]) -> T:
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


def change_hash(approval: Approval) -> str | None:
    """Return what identifies the applied change and its inverse, so that neither can
    be exchanged later.
    """
    result = approval.result
    if result is None or result.mutation is None:
        return None
    return hash_of([result.mutation, result.inverse])


def audit_facts(approval: Approval, event: str) -> dict[str, Any]:
    """Return what an audit entry says of a decision: who asked where, who decided, what changed."""
    decision = approval.decision
    result = approval.result
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
