"""Proposals and their decisions, for one workspace: what the agent, the server
and the commands call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from datasources.base import GraphDataSource
from graphrag.approvals.approval import KIND, Approval, Decision, Status
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.decisions import decide, decide_by_policy
from graphrag.approvals.discussion import comment
from graphrag.approvals.errors import ApprovalError
from graphrag.approvals.imported_changes import store_file
from graphrag.approvals.pending_changes import PendingView, additions_of
from graphrag.approvals.policies import policy_view, set_policy
from graphrag.approvals.proposing import propose
from graphrag.approvals.undo import undo
from graphrag.approvals.voice_codes import normal
from graphrag.roles import Person


class Approvals(ApprovalContext):
    """Keeps proposals until people decide them, and carries the decisions out, each once.

    Its larger methods are functions of modules of their own, which say what they do and raise.
    """

    propose = propose
    comment = comment
    decide = decide
    decide_by_policy = decide_by_policy
    undo = undo
    store_file = store_file
    policy = policy_view
    set_policy = set_policy

    async def pending_view(self, *, graph_key: str, thread_id: str) -> GraphDataSource:
        """Return the source in which the thread's pending new nodes are there: write
        tools look here.
        """
        waiting = await self.find(graph_key=graph_key, thread_id=thread_id, status="pending")
        names = {
            name: key for approval in reversed(waiting) for name, key in approval.names.items()
        }
        view = PendingView(
            self.source, graph_key, [additions_of(approval) for approval in waiting], names
        )
        return cast(GraphDataSource, view)

    async def get(self, approval_id: str, by: Person) -> Approval:
        """Return an approval. Raises: ApprovalNotFound, also for another workspace's."""
        return self._current(await self.known(approval_id, by))

    def _current(self, approval: Approval) -> Approval:
        """Return it as it stands now: what nobody decided in time has expired, stored as that
        or not yet.
        """
        if approval.status == "pending" and approval.expires <= self.clock():
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
        """Return the workspace's approvals with these fields (None: any), newest first; nothing for
        a person of another one. `voice_code` as somebody may write it.
        """
        if not self.is_home(by):
            return []
        code = normal(voice_code) if voice_code else None
        found: list[Approval] = []
        for one in ("expired", "pending") if status == "expired" else (status,):
            found += await self.find(status=one, voice_code=code, limit=limit, **fields)
        current = [self._current(approval) for approval in found]
        wanted = [approval for approval in current if status in (None, approval.status)]
        return sorted(wanted, key=lambda approval: approval.created, reverse=True)[:limit]

    async def stamp(self) -> tuple[int, str]:
        """Return what is another after every decision and every proposal. Raises: SourceError."""
        newest = await self.find(status="pending", limit=1)
        return await self.audit.length(), newest[0].id if newest else ""

    async def decide_all(
        self, approvals: Sequence[Approval], decision: Decision, by: Person
    ) -> list[tuple[str, Approval | ApprovalError]]:
        """Decide several in this order, but after what they build on; what is refused stops
        no other one.
        """
        left = {approval.id: approval for approval in approvals}
        done: dict[str, Approval | ApprovalError] = {}
        while left:
            free = (key for key, one in left.items() if not left.keys() & set(one.depends_on))
            approval_id = next(free, next(iter(left)))
            del left[approval_id]
            try:
                done[approval_id] = await self.decide(approval_id, decision, by)
            except ApprovalError as exc:
                done[approval_id] = exc
        return [*done.items()]

    async def withdraw(self, *, graph_key: str, thread_id: str) -> list[Approval]:
        """Close what a thread proposed and nobody decided: something newer replaces it."""
        closed: list[Approval] = []
        while waiting := await self.find(
            graph_key=graph_key, thread_id=thread_id, status="pending"
        ):
            closed += [await self.expire(approval) for approval in waiting]
        return closed

    async def close_for_gone_graph(self, graph_key: str) -> None:
        """Close what waits for a decision about a graph that no longer exists; runs that wait
        for it end.
        """
        while waiting := await self.find(graph_key=graph_key, status="pending"):
            for approval in waiting:
                await self.expire(approval, graph_is_gone=True)

    async def expire_due(self, *, limit: int) -> list[Approval]:
        """Close the oldest proposals that nobody decided in time, at most so many; return them."""
        pending = await self.records.query(
            KIND, {"status": "pending"}, order_by="expiresTime", limit=limit
        )
        due = [
            approval for approval in await self._read(pending) if approval.expires <= self.clock()
        ]
        return [await self.expire(approval) for approval in due]
