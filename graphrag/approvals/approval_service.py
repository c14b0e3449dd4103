"""Proposals and their decisions, for one workspace: what the agent, the server and the commands call."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import cast

from datasources.base import GraphDataSource, MutableGraphDataSource, RecordStore
from datasources.errors import RecordConflict
from graphrag.approvals import (
    decisions,
    discussion,
    imported_changes,
    policies,
    policy_decisions,
    programs,
    proposing,
    undo,
)
from graphrag.approvals.approval import Action, Approval, Decision, Status
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.audit import Audit
from graphrag.approvals.errors import ApprovalError
from graphrag.approvals.pending_changes import PendingView, additions_of
from graphrag.approvals.policies import PolicyView
from graphrag.approvals.store import ApprovalStore, Fence
from graphrag.approvals.validation import CLASSES, ActionClass
from graphrag.approvals.voice_codes import normal
from graphrag.leases import now_ms
from graphrag.roles import Person, Policy

log = logging.getLogger(__name__)

TTL_MS = 24 * 3600 * 1000


def new_approval_id() -> str:
    """Return an id that nobody can guess."""
    return f"ap_{secrets.token_hex(12)}"


class Approvals:
    """Keeps proposals until people decide them, and carries the decisions out, each once."""

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
    ) -> None:
        """`on_applied` is called with every change that a decision or an undo applied; what it raises is
        logged. `require_validation`: the classes for which the operator demands a person.
        """
        self._on_applied = on_applied
        self.on_decided: Callable[[Approval], None] | None = None
        """Called with every decision and undo that was carried out; what it raises is logged."""
        self.on_proposed: Callable[[Approval], None] | None = None
        """Called with every proposal that a person must decide; may not raise."""
        self.audit = Audit(records, clock)
        self._context = ApprovalContext(
            source=source,
            store=ApprovalStore(records, source.workspace),
            audit=self.audit,
            policy=policy or Policy(),
            clock=clock,
            ids=new_approval_id,
            ttl_ms=ttl_ms,
            application=require_validation,
        )

    async def propose(self, action: Action | Mapping[str, object], asked: proposing.Asked) -> Approval:
        """Review an action and keep it for a decision. Nothing of the graph changes.

        `needs_person` of what is returned says whether a person must decide it.
        Raises: ProposalRefused with what is wrong, AlreadyProposed, RejectedBefore, NotAllowed,
        ApprovalNotFound (the asker is of another workspace), MalformedProposal, GraphNotFound, and what
        `write_guard` raises.
        """
        made = await proposing.propose(self._context, action, asked)
        if self.on_proposed is not None and made.needs_person:
            self.on_proposed(made)
        return made

    async def pending_view(self, *, graph_key: str, thread_id: str) -> GraphDataSource:
        """Return the source in which the thread's pending new nodes are there: write tools look here."""
        waiting = await self._context.store.find(graph_key=graph_key, thread_id=thread_id, status="pending")
        names = {name: key for approval in reversed(waiting) for name, key in approval.names.items()}
        additions = [additions_of(approval) for approval in waiting]
        view = PendingView(self._context.source, graph_key, additions, names)
        return cast(GraphDataSource, view)

    async def get(self, approval_id: str, by: Person) -> Approval:
        """Return an approval. Raises: ApprovalNotFound, also for another workspace's."""
        return self._current(await self._context.known(approval_id, by))

    def _current(self, approval: Approval) -> Approval:
        """Return it as it stands now: what nobody decided in time has expired, stored as that or not yet."""
        if approval.status == "pending" and approval.expires <= self._context.clock():
            return approval.changed(status="expired")
        return approval

    async def list(
        self,
        *,
        graph_key: str | None = None,
        thread_id: str | None = None,
        status: Status | None = None,
        asker: str | None = None,
        automation_id: str | None = None,
        voice_code: str | None = None,
        limit: int = 100,
        by: Person,
    ) -> list[Approval]:
        """Return the workspace's approvals, newest first; nothing for a person of another one.

        `voice_code` as somebody may write it.
        """
        if not self._context.is_home(by):
            return []
        stored: list[Status | None] = ["expired", "pending"] if status == "expired" else [status]
        found: list[Approval] = []
        for one in stored:
            found += await self._context.store.find(
                graph_key=graph_key,
                thread_id=thread_id,
                status=one,
                asker=asker,
                automation_id=automation_id,
                voice_code=normal(voice_code) if voice_code else None,
                limit=limit,
            )
        current = [self._current(approval) for approval in found]
        wanted = [approval for approval in current if status in (None, approval.status)]
        return sorted(wanted, key=lambda approval: approval.created, reverse=True)[:limit]

    async def stamp(self) -> tuple[int, str]:
        """Return what is another after every decision and every proposal. Raises: SourceError."""
        newest = await self._context.store.find(status="pending", limit=1)
        return await self.audit.length(), newest[0].id if newest else ""

    async def waiting(self, limit: int = 1_000) -> list[Approval]:
        """Return what waits for a decision, the latest first. Raises: SourceError."""
        return await self._context.waiting(limit=limit)

    def objection(self, approval: Approval, by: Person) -> str | None:
        """Return the message code of what forbids this person to decide it, or None."""
        return self._context.objection(approval, by)

    async def comment(self, approval_id: str, text: str, by: Person) -> Approval:
        """Say something of a proposal; return it. Raises: see `discussion.comment`."""
        return await discussion.comment(self._context, approval_id, text, by)

    async def decide(
        self, approval_id: str, decision: Decision, by: Person, *, thread_id: str | None = None
    ) -> Approval:
        """Decide an approval and carry the decision out, once; what comes back may be stale or failed.

        With `thread_id`, an approval of another thread does not exist.
        Raises: ApprovalNotFound, NotAllowed, AlreadyDecided, ProposalExpired, ProposalWaits,
        ProposalRefused (an edit that does not work), ApprovalBusy, MalformedProposal; then the
        approval is as it was.
        """
        return await self._announced(
            await decisions.decide(self._context, approval_id, decision, by, thread_id=thread_id)
        )

    async def decide_all(
        self, approvals: Sequence[Approval], decision: Decision, by: Person
    ) -> list[tuple[str, Approval | ApprovalError]]:
        """Decide several in this order, but after what they build on; what is refused stops no other one."""
        left = {approval.id: approval for approval in approvals}
        done: list[tuple[str, Approval | ApprovalError]] = []
        while left:
            free = (key for key, one in left.items() if not left.keys() & set(one.depends_on))
            approval_id = next(free, next(iter(left)))
            del left[approval_id]
            try:
                done.append((approval_id, await self.decide(approval_id, decision, by)))
            except ApprovalError as exc:
                done.append((approval_id, exc))
        return done

    async def decide_by_policy(
        self, approval_ids: Sequence[str], *, fence: Fence | None = None
    ) -> list[Approval]:
        """Apply the proposals of a step for which no level demands a person; return them as they are then.

        A step is looked at as a whole: where one of them needs a person, or builds on what waits, nothing is
        applied. `fence` lets it write only as long as its caller may.
        Raises: what `fence` raises, ApprovalBusy.
        """
        done = await policy_decisions.decide_by_policy(self._context, approval_ids, fence)
        for approval in done:
            if not approval.is_open:
                await self._announced(approval)
        return done

    async def undo(
        self, graph_key: str, approval_id: str | None = None, *, by: Person, turn: bool = False
    ) -> Approval:
        """Take back an applied change, by default the graph's last that stands; return the undo.

        With `turn`, everything that was applied of the change's turn is taken back in one step.
        An undo is an applied approval itself (`undoes` says of what): undo it by its id to redo.
        Raises: ApprovalNotFound, NotAllowed, NothingToUndo, UndoRefused, ApprovalBusy, GraphNotFound.
        """
        return await self._announced(await undo.undo(self._context, graph_key, approval_id, by, turn=turn))

    async def store_file(self, change: imported_changes.FileChange, by: Person) -> imported_changes.Stored:
        """Store what a file changes in a graph, and propose what is left of it to people.

        Raises: NotAllowed, RevisionConflict, RecordConflict, InvalidMutation, BadDocument.
        """
        stored = await imported_changes.store(self._context, change, by)
        if stored.applied is not None:
            await self._announced(stored.applied)
        return stored

    async def pending_imports(self, graph_key: str) -> list[Approval]:
        """Return what earlier imports proposed for a graph and nobody has decided. Raises: SourceError."""
        return await imported_changes.pending_imports(self._context, graph_key)

    async def policy(self, by: Person, graph_key: str | None = None) -> PolicyView:
        """Return for which classes of change each level demands a person. Raises: GraphNotFound."""
        return await policies.policy_view(self._context, graph_key, by)

    async def set_policy(
        self,
        classes: Iterable[ActionClass],
        by: Person,
        *,
        graph_key: str | None = None,
        type_name: str | None = None,
    ) -> PolicyView:
        """Set what the workspace, a graph, or a node type named in one demands; return all levels then.

        Raises: NotAllowed, ApprovalNotFound, GraphNotFound, TypeNotFound, ApprovalBusy.
        """
        await policies.set_policy(self._context, classes, by, graph_key=graph_key, type_name=type_name)
        return await self.policy(by, graph_key)

    async def programs(self, by: Person) -> list[programs.Program]:
        """Return the programs that propose here from outside. Raises: NotAllowed, SourceError."""
        return await programs.programs(self._context, by)

    async def set_program_rule(
        self, program: str, rule: programs.ProgramRule | None, by: Person
    ) -> list[programs.Program]:
        """Say what a program may propose (None: what its channel may); return all programs then.

        Raises: NotAllowed, ProgramUnknown, ProgramRulesFull, ApprovalBusy.
        """
        await programs.set_rule(self._context, program, rule, by)
        return await self.programs(by)

    async def undo_program(self, program: str, by: Person) -> programs.Undone:
        """Take back what was applied of a program's proposals. Raises: see `programs.undo_all`."""
        found = await programs.undo_all(self._context, program, by)
        for approval in found.done:
            await self._announced(approval)
        return found

    @property
    def source(self) -> MutableGraphDataSource:
        """The graphs of its workspace, each with a stored revision."""
        return self._context.source

    @property
    def records(self) -> RecordStore:
        return self._context.store.records

    async def _announced(self, approval: Approval) -> Approval:
        """Tell who listens what was committed: whatever becomes of that, it stays committed."""
        try:
            if self.on_decided is not None:
                self.on_decided(approval)
            if self._on_applied is not None and approval.status == "applied":
                await self._on_applied(approval)
        except Exception as exc:
            log.exception("after_decision_failed", extra={"error": type(exc).__name__})
        return approval

    async def recover(self) -> None:
        """Make pending again what an earlier program left claimed."""
        for approval in await self._context.store.left_claimed():
            with suppress(RecordConflict):
                await self._context.store.put(approval)

    async def withdraw(self, *, graph_key: str, thread_id: str) -> list[Approval]:
        """Close what a thread proposed and nobody decided: something newer replaces it."""
        store, closed = self._context.store, list[Approval]()
        while waiting := await store.find(graph_key=graph_key, thread_id=thread_id, status="pending"):
            closed += [await self._context.expire(approval) for approval in waiting]
        return closed

    async def close_for_gone_graph(self, graph_key: str) -> None:
        """Close what waits for a decision about a graph that no longer exists; runs that wait for it end."""
        while waiting := await self._context.store.find(graph_key=graph_key, status="pending"):
            for approval in waiting:
                await self._announced(await self._context.expire(approval, graph_is_gone=True))

    async def expire_due(self, *, limit: int) -> list[Approval]:
        """Close the oldest proposals that nobody decided in time, at most so many; return them."""
        due = await self._context.store.due(self._context.clock(), limit=limit)
        return [await self._context.expire(approval) for approval in due]
