"""The context that proposing, deciding and undoing share: graphs, approvals, audit log, clock."""

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
MAX_QUEUED = 1_000  # Maximum number of queued decisions per graph. Further ones are refused.

ATTEMPTS = 200  # Number of attempts if others keep changing the graph.
BUSY_ATTEMPTS = 4
# Maximum pause between attempts. It does not grow, so that callers who waited long are not last.
PAUSE_S = 0.02

# Performs a write together with its own check, or raises.
WriteGuard = Callable[[RecordWrite], Awaitable[Sequence[Record | None]]]


class Fence(Protocol):
    """Allows a transaction only while its caller may write; see `graphrag.leases.Lease`."""

    def fence(self) -> RecordWrite: ...

    async def read(self) -> None:
        """Updates the fence to the stored state. Raises: an error if the caller may no longer
        write.
        """
        ...


@final
class ApprovalContext:
    """The approvals of one workspace. Each is written only over the version that was read.

    Raises (writes): RecordConflict if another write was first.
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
        """`on_applied` is called with each change applied by a decision or undo, `on_decided` with
        each decision and undo; their errors are logged. `on_proposed` is called with each proposal
        that a person must decide and must not raise. `require_validation`: the classes for which
        the operator requires a person. `clock` returns milliseconds since 1970.
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
        self._queued: Counter[str] = Counter()

    def new_id(self) -> str:
        """Returns an id that cannot be guessed."""
        return f"ap_{secrets.token_hex(12)}"

    def is_home(self, by: Person) -> bool:
        return by.workspace == self.source.workspace

    def check(self, by: Person, role: Role = "viewer", code: str = "", *, about: str = "") -> None:
        """Raises: ApprovalNotFound in another workspace, NotAllowed below the role."""
        if not self.is_home(by):
            raise ApprovalNotFound(approval_id=about)
        if not by.at_least(role):
            raise NotAllowed(code=code, user_id=by.user_id, role=by.role)

    def objection(self, asker: str, by: Person) -> str | None:
        """Returns the message code of the rule that forbids a person to decide requests of `asker`,
        or None.
        """
        return self.deciders.objection(by, asker)

    # Reading

    async def stored(self, approval_id: str) -> Approval | None:
        """Returns a stored approval of this workspace with its preview, or None. Its undo data are
        read by `stored_parts.with_undo`.
        """
        record = await self.records.get(KIND, approval_id)
        if record is None or record.data.get("workspace") != self.source.workspace:
            return None
        approval = await asyncio.to_thread(from_record, record)
        return await stored_parts.with_shown(self.records, approval)

    async def read(self, records: Sequence[Record]) -> list[Approval]:
        """Parses records of this workspace in a thread, since one may contain thousands of
        documents.
        """
        own_records = [
            record for record in records if record.data.get("workspace") == self.source.workspace
        ]
        return await asyncio.to_thread(lambda: [from_record(record) for record in own_records])

    async def get_visible(self, approval_id: str, by: Person) -> Approval:
        """Returns an approval that this person may see. Raises: ApprovalNotFound."""
        approval = await self.stored(approval_id) if self.is_home(by) else None
        if approval is None:
            raise ApprovalNotFound(approval_id=approval_id)
        return approval

    async def find(self, *, limit: int = 100, **fields: str | None) -> list[Approval]:
        """Returns the latest approvals with these fields (None: any), newest first, settled ones
        without their large parts.
        """
        names = Approval.model_fields
        where = {names[k].serialization_alias or k: v for k, v in fields.items() if v is not None}
        records = await self.records.query(
            KIND, where, order_by="createdTime", descending=True, limit=limit
        )
        return await self.read(records)

    async def waiting(self, *, limit: int = 1_000, **fields: str | None) -> list[Approval]:
        """Returns the open proposals that have not expired, newest first. Raises: SourceError."""
        now = self.clock()
        return [
            approval
            for approval in await self.find(status="pending", limit=limit, **fields)
            if approval.expires > now
        ]

    # Writing

    async def put(self, approval: Approval, *, write_guard: WriteGuard | None = None) -> Approval:
        """Stores an approval and returns it with its new version. `write_guard` performs the write
        or refuses it.
        """
        write = await asyncio.to_thread(stored_parts.head_write, approval)
        written = await (write_guard(write) if write_guard else self.records.write([write]))
        [stored] = filter(None, written)
        return await asyncio.to_thread(from_record, stored)

    async def in_turn(
        self, graph_key: str, approval_id: str, work: Callable[[], Awaitable[T]]
    ) -> T:
        """Runs `work` after the earlier work on this graph. Runs it again if something that it read
        was changed concurrently.

        If the caller is cancelled, running work is completed and queued work is removed.
        Raises: ApprovalBusy, and the errors of `work`.
        """
        if self._queued[graph_key] >= MAX_QUEUED:
            raise ApprovalBusy(approval_id=approval_id)
        lock = self._locks.setdefault(graph_key, asyncio.Lock())
        self._queued[graph_key] += 1
        try:
            await lock.acquire()
        except asyncio.CancelledError:
            self._dequeue(graph_key)
            raise
        task = asyncio.ensure_future(_with_retries(approval_id, work))
        task.add_done_callback(lambda _: (lock.release(), self._dequeue(graph_key)))
        return await asyncio.shield(task)

    def is_free(self, graph_key: str) -> bool:
        """Returns whether no work on this graph is queued or running."""
        return graph_key not in self._queued

    def _dequeue(self, graph_key: str) -> None:
        self._queued[graph_key] -= 1
        if not self._queued[graph_key]:
            del self._queued[graph_key], self._locks[graph_key]

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
        """Stores an approval with its audit entry (with `more`), `records` and its mutation.

        All in one transaction, on the graph at `revision`; then the callbacks are called, once per
        transition. Returns `result` without a version, so it must be read again before the next
        change. Raises: SourceError, unless everything was stored and only the answer of the store
        was lost.
        """
        facts = await asyncio.to_thread(lambda: audit_facts(result, event) | more)
        result, parts = await asyncio.to_thread(stored_parts.apart, result)
        head = await asyncio.to_thread(stored_parts.head_write, result)
        changed_at = result.result.at if result.result else self.clock()

        def write(entry: Sequence[RecordWrite]) -> Awaitable[object]:
            joined = [head, *parts, *records, *entry, *([fence.fence()] if fence else [])]
            if mutation is None:
                return self.records.write(joined)
            timed = replace(mutation, changed_at=changed_at)
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
        return await self._notify(result.changed(version=None))

    async def audited(
        self,
        by: Person,
        facts: Mapping[str, Any],
        write: Callable[[Sequence[RecordWrite]], Awaitable[object]],
    ) -> None:
        """Calls `write` with an audit entry, to store it in one transaction with an action of a
        person.

        Raises: the errors of `write`; RecordConflict if other writers were first at every attempt.
        """
        await self.audit.record({**facts, "userId": by.user_id, "role": by.role}, write)

    async def close(
        self, approval: Approval, status: Status, decided: Decided, reason: Reason | None = None
    ) -> Approval:
        """Stores the end of an approval that did not change the graph. Raises: RecordConflict."""
        outcome = Outcome(at=self.clock(), reason=reason)
        return await self.commit(
            approval.changed(status=status, decision=decided, result=outcome), status
        )

    async def expire(
        self, approval: Approval, status: Status = "expired", why: Reason | None = None
    ) -> Approval:
        """Closes a pending approval that nobody decided in time; `why`: another reason.

        Returns the closed approval.
        """
        decided = Decided(verdict="expire", by=SYSTEM, role=SYSTEM, at=self.clock())
        try:
            return await self.close(approval, status, decided, why)
        except RecordConflict:  # another decision was first
            return await self.stored(approval.id) or approval

    async def _notify(self, approval: Approval) -> Approval:
        """Calls the callbacks after a commit. Logs their errors."""
        try:
            if self._on_decided is not None:
                self._on_decided(approval)
            if self._on_applied is not None and approval.status == "applied":
                await self._on_applied(approval)
        except Exception as exc:
            log.exception("after_decision_failed", extra={"error": type(exc).__name__})
        return approval


async def _with_retries(approval_id: str, work: Callable[[], Awaitable[T]]) -> T:
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
    """Returns the hash of the applied change and its inverse, to detect later tampering."""
    result = approval.result
    if result is None or result.mutation is None:
        return None
    return hash_of([result.mutation, result.inverse])


def audit_facts(approval: Approval, event: str) -> dict[str, Any]:
    """Returns the facts of a decision for an audit entry: who asked where, who decided, what
    changed.
    """
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
