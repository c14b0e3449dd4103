"""Proposals and decisions of one workspace, for the agent, the server and commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast, final

from datasources.base import GraphDataSource, MutableGraphDataSource, RecordStore, RecordWrite
from graphrag.approvals.approval import KIND, Approval, Decision, Reason, Status
from graphrag.approvals.approval_context import TTL_MS, ApprovalContext, Fence
from graphrag.approvals.decisions import decide, decide_by_policy
from graphrag.approvals.discussion import comment
from graphrag.approvals.errors import ApprovalError
from graphrag.approvals.imported_changes import FileChange, Stored, store_file
from graphrag.approvals.pending_changes import PendingView, additions_of
from graphrag.approvals.policies import PolicyView, policy_view, set_policy
from graphrag.approvals.proposing import Asked, propose
from graphrag.approvals.undo import undo
from graphrag.approvals.validation import CLASSES, ActionClass
from graphrag.approvals.voice_codes import normal
from graphrag.leases import now_ms
from graphrag.roles import Person, Policy
from tools.base import Role
from tools.proposals import Action


@final
class Approvals:
    """Stores proposals until they are decided, and applies each decision once.

    The larger methods call functions of other modules, whose docstrings have details and errors.
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
        """The arguments are those of `ApprovalContext`."""
        self.context = ApprovalContext(
            source,
            records,
            policy=policy,
            clock=clock,
            ttl_ms=ttl_ms,
            require_validation=require_validation,
            on_applied=on_applied,
            on_decided=on_decided,
            on_proposed=on_proposed,
        )
        self.source = source
        self.records = records
        self.audit = self.context.audit

    async def propose(self, action: Action | Mapping[str, Any], asked: Asked) -> Approval:
        """Reviews an action and stores it for a decision; see `proposing.propose`."""
        return await propose(self.context, action, asked)

    async def comment(self, approval_id: str, text: str, by: Person) -> Approval:
        """Adds a comment to an approval; see `discussion.comment`."""
        return await comment(self.context, approval_id, text, by)

    async def decide(
        self, approval_id: str, decision: Decision, by: Person, *, thread_id: str | None = None
    ) -> Approval:
        """Decides an approval and applies the decision once; see `decisions.decide`."""
        return await decide(self.context, approval_id, decision, by, thread_id=thread_id)

    async def decide_by_policy(
        self, approval_ids: Sequence[str], *, fence: Fence | None = None
    ) -> list[Approval]:
        """Applies the proposals of a step that need no person; see `decisions.decide_by_policy`."""
        return await decide_by_policy(self.context, approval_ids, fence=fence)

    async def undo(
        self, graph_key: str, approval_id: str | None = None, *, by: Person, turn: bool = False
    ) -> Approval:
        """Undoes an applied change, by default the graph's last one; see `undo.undo`."""
        return await undo(self.context, graph_key, approval_id, by=by, turn=turn)

    async def store_file(self, change: FileChange, by: Person) -> Stored:
        """Applies and proposes the changes of an imported file; see `imported_changes`."""
        return await store_file(self.context, change, by)

    async def policy(self, by: Person, graph_key: str | None = None) -> PolicyView:
        """Returns the classes of change that need a person; see `policies.policy_view`."""
        return await policy_view(self.context, by, graph_key)

    async def set_policy(
        self,
        classes: Iterable[ActionClass],
        by: Person,
        *,
        graph_key: str | None = None,
        type_name: str | None = None,
    ) -> PolicyView:
        """Sets the classes of change that need a person; see `policies.set_policy`."""
        return await set_policy(self.context, classes, by, graph_key=graph_key, type_name=type_name)

    def check(self, by: Person, role: Role = "viewer", code: str = "", *, about: str = "") -> None:
        """Raises: ApprovalNotFound in another workspace, NotAllowed below the role."""
        self.context.check(by, role, code, about=about)

    def objection(self, asker: str, by: Person) -> str | None:
        """Returns the message code of the rule that forbids a person to decide, or None."""
        return self.context.objection(asker, by)

    async def waiting(self, *, limit: int = 1_000, **fields: str | None) -> list[Approval]:
        """Returns the open proposals with these fields, newest first. Raises: SourceError."""
        return await self.context.waiting(limit=limit, **fields)

    async def audited(
        self,
        by: Person,
        facts: Mapping[str, Any],
        write: Callable[[Sequence[RecordWrite]], Awaitable[object]],
    ) -> None:
        """Stores an action of a person together with its audit entry; see `ApprovalContext`."""
        await self.context.audited(by, facts, write)

    async def pending_view(self, *, graph_key: str, thread_id: str) -> GraphDataSource:
        """Returns the source with the pending new nodes of a thread, for its write tools."""
        waiting = await self.context.find(
            graph_key=graph_key, thread_id=thread_id, status="pending"
        )
        names = {
            name: key for approval in reversed(waiting) for name, key in approval.names.items()
        }
        view = PendingView(
            self.source, graph_key, [additions_of(approval) for approval in waiting], names
        )
        return cast(GraphDataSource, view)

    async def get(self, approval_id: str, by: Person) -> Approval:
        """Returns an approval. Raises: ApprovalNotFound, also in another workspace."""
        return self._current(await self.context.get_visible(approval_id, by))

    def _current(self, approval: Approval) -> Approval:
        """Returns the approval with its current status: expired after its time, even before that is
        stored.
        """
        if approval.status == "pending" and approval.expires <= self.context.clock():
            return approval.changed(status="expired")
        return approval

    async def list(
        self,
        *,
        by: Person,
        status: Status | None = None,
        voice_code: str | None = None,
        limit: int = 100,
        **fields: str | None,
    ) -> list[Approval]:
        """Returns the workspace's approvals with these fields (None: any), newest first; none to a
        person of another workspace. `voice_code`: in any spelling.
        """
        if not self.context.is_home(by):
            return []
        code = normal(voice_code) if voice_code else None
        stored: list[Approval] = []
        for one in ("expired", "pending") if status == "expired" else (status,):
            stored += await self.context.find(status=one, voice_code=code, limit=limit, **fields)
        current = [self._current(approval) for approval in stored]
        wanted = [approval for approval in current if status in (None, approval.status)]
        return sorted(wanted, key=lambda approval: approval.created, reverse=True)[:limit]

    async def stamp(self) -> tuple[int, str]:
        """Returns a value that changes with every decision and proposal. Raises: SourceError."""
        newest = await self.context.find(status="pending", limit=1)
        return await self.audit.length(), newest[0].id if newest else ""

    async def decide_all(
        self, approvals: Sequence[Approval], decision: Decision, by: Person
    ) -> list[tuple[str, Approval | ApprovalError]]:
        """Decides several approvals in order, each after those that it depends on.

        The others are decided even if one is refused. Returns pairs of id and result.
        """
        undecided = {approval.id: approval for approval in approvals}
        done: dict[str, Approval | ApprovalError] = {}
        while undecided:
            ready = (
                key
                for key, approval in undecided.items()
                if not undecided.keys() & set(approval.depends_on)
            )
            approval_id = next(ready, next(iter(undecided)))
            del undecided[approval_id]
            try:
                done[approval_id] = await self.decide(approval_id, decision, by)
            except ApprovalError as exc:
                done[approval_id] = exc
        return [*done.items()]

    async def withdraw(self, *, graph_key: str, thread_id: str) -> list[Approval]:
        """Closes the undecided proposals of a thread, which newer ones replace."""
        closed: list[Approval] = []
        while waiting := await self.context.find(
            graph_key=graph_key, thread_id=thread_id, status="pending"
        ):
            closed += [
                await self.context.expire(approval, "stale", Reason(code="stale_replaced"))
                for approval in waiting
            ]
        return closed

    async def close_for_gone_graph(self, graph_key: str) -> None:
        """Closes the undecided proposals about a deleted graph. Runs that wait for them end."""
        while waiting := await self.context.find(graph_key=graph_key, status="pending"):
            for approval in waiting:
                await self.context.expire(approval, "failed", Reason(code="failed_graph_gone"))

    async def expire_due(self, *, limit: int) -> list[Approval]:
        """Closes at most `limit` of the oldest proposals whose time is over. Returns them."""
        pending = await self.context.records.query(
            KIND, {"status": "pending"}, order_by="expiresTime", limit=limit
        )
        due = [
            approval
            for approval in await self.context.read(pending)
            if approval.expires <= self.context.clock()
        ]
        return [await self.context.expire(approval) for approval in due]
