"""Writes what was changed here to connected servers, once a person has decided it.

Decision: a push is no proposal about a graph: it changes none, and its life goes on after the
decision (sent, verified, rolled back, unknown). So it is a record of its own. The rules of who
decides are those of proposals.

Decision: nothing is rehearsed on the server. n8n runs a draft only for a person who signed in on
its page, by requests that it does not document; Node-RED has no dry run at all. Both would run
steps that send, pay or delete. What can be checked without running is checked before a push.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import final

from graphrag.approvals import Approvals, NotAllowed, Person
from graphrag.connections.create_run import CreateRun, plan_create
from graphrag.connections.editor import PushRemark
from graphrag.connections.errors import (
    ConnectionForbidden,
    ConnectionRefused,
    PushDecided,
    PushNotFound,
)
from graphrag.connections.kept_documents import KeptDocuments
from graphrag.connections.publish_run import DRAFT, PublishRun, plan_publish
from graphrag.connections.push_plan import (
    PushPlan,
    PushStopped,
    plan_push,
    plan_undo,
)
from graphrag.connections.push_records import PushRecords
from graphrag.connections.push_run import PushRun
from graphrag.connections.server_connections import Connections, ServerSession
from graphrag.connections.stored_connection import (
    ConnectionLink,
    PushMode,
)
from graphrag.connections.stored_push import (
    MAX_SHOWN,
    Push,
    PushAction,
    PushState,
    StoredRemark,
    remarks,
    stored_change,
)
from graphrag.importers.exchange import read_content
from graphrag.leases import now_ms
from graphrag.workers import run_limited

WAIT_S = 120.0
"""For others who read or write the same server."""


@final
class Pushes:
    """The pushes of one workspace. `clock` gives milliseconds since 1970."""

    def __init__(
        self,
        stored: PushRecords,
        approvals: Approvals,
        connections: Connections,
        documents: KeptDocuments,
        *,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._stored = stored
        self._approvals = approvals
        self._connections = connections
        self._documents = documents
        self._clock = clock

    async def list(self, connection: str | None = None, *, limit: int = 100) -> list[Push]:
        """Returns the pushes, newest first."""
        return await self._stored.list(connection, limit=limit)

    async def get(self, push_id: str) -> Push:
        """Raises: PushNotFound, BadDocument."""
        return await self._stored.get(push_id)

    async def plan(self, name: str, graph_key: str, by: Person) -> Push | None:
        """Works out what a push of a graph would write and stores it for a decision; None where
        nothing was changed here.

        Raises: ConnectionNotFound, ConnectionForbidden, ConnectionRefused, ConnectionBusy,
        EditorFault.
        """
        async with self._planning(name, by) as session:
            link = await _link_of(session, graph_key)
            return await self._planned(
                session,
                link,
                by,
                partial(plan_push, session, self._approvals.source, link),
                action="push",
            )

    async def plan_publish(self, name: str, graph_key: str, by: Person) -> Push | None:
        """Stores for a decision that the draft of a workflow is to run; None where it does already.

        Raises: as `plan`; EditorFault where the kind of server knows no drafts.
        """
        async with self._planning(name, by) as session:
            link = await _link_of(session, graph_key)
            own = [push.tokens_after.get(DRAFT, "") for push in await self.list(name)]
            planning = partial(plan_publish, session, link, own)
            return await self._planned(session, link, by, planning, action="publish")

    async def plan_create(self, name: str, graph_key: str, by: Person) -> Push | None:
        """Stores for a decision that a graph becomes a new workflow of a server.

        Raises: as `plan`; ConnectionRefused where the graph is one of the connection already.
        """
        async with self._planning(name, by) as session:
            links = await session.links.all()
            if any(link.graph_key == graph_key for link in links.values()):
                raise ConnectionRefused("push_created_already", graph=graph_key)
            link = self._new_link(session, graph_key)
            planning = partial(self._create_plan, session, graph_key)
            return await self._planned(session, link, by, planning, action="create")

    @asynccontextmanager
    async def _planning(self, name: str, by: Person) -> AsyncGenerator[ServerSession]:
        """Opens the server of a connection to a person who may ask for a push.

        Raises: ConnectionForbidden, ConnectionRefused, and as `Connections.session`.
        """
        if not by.at_least("editor"):
            raise ConnectionForbidden()
        async with self._connections.session(name, by, WAIT_S) as session:
            _check_mode(session.connection.push)
            await self._settle_all(session, by)
            yield session

    def _new_link(self, session: ServerSession, graph_key: str) -> ConnectionLink:
        """Returns what links a graph once its workflow is there; it is not stored."""
        return ConnectionLink(
            key=f"{session.connection.key}/",
            connection=session.connection.key,
            workflow_id="",
            name=graph_key,
            graph_key=graph_key,
            last_synced_time=self._clock(),
        )

    async def _create_plan(self, session: ServerSession, graph_key: str) -> PushPlan:
        content = await read_content(self._approvals.source, graph_key)
        if content is None:
            raise PushStopped("push_graph_gone")
        return await plan_create(session, content)

    async def plan_undo(self, push_id: str, by: Person) -> Push | None:
        """Works out what takes a push back and stores it for a decision; None where the server's
        document is as before already.

        Raises: as `plan`, PushNotFound.
        """
        push = await self.get(push_id)
        async with self._planning(push.connection, by) as session:
            link = await _link_of(session, push.graph_key)
            documents = self._documents.opened(push)
            return await self._planned(
                session,
                link,
                by,
                partial(plan_undo, session, link, documents),
                action="undo",
                undoes=push.key,
            )

    async def approve(self, push_id: str, by: Person) -> Push:
        """Sends a push that waits and returns it as it ended.

        Raises: PushNotFound, NotAllowed, PushDecided, ConnectionBusy, EditorFault (nothing was
        sent then).
        """
        name = (await self.get(push_id)).connection
        async with self._connections.session(name, by, WAIT_S) as session:
            push = await self.get(push_id)
            _check_mode(session.connection.push)
            self._check_decider(push, session.connection.push, by)
            await self._settle_all(session, by)
            link = await self._link_for(session, push)
            push = await self._decided(push, "planned", by)
            run = await self._run(session, link, push, by)
            push = await run.send(push)
            await self._stored.forget_documents(link.connection, link.workflow_id)
            return push

    async def reject(self, push_id: str, by: Person) -> Push:
        """Closes a push that waits. Raises: PushNotFound, NotAllowed, PushDecided."""
        push = await self.get(push_id)
        mode = (await self._connections.get(push.connection)).push
        if by.user_id != push.asked_by:
            self._check_decider(push, mode, by)
        elif push.state not in ("waiting", "refused"):
            raise PushDecided(push_id=push.key, state=push.state)
        return await self._decided(push, "rejected", by)

    async def settle(self, name: str, by: Person) -> list[Push]:
        """Finds out how pushes ended whose sender stopped. Raises: as `plan`."""
        if not any(push.is_unsettled for push in await self.list(name)):
            return []
        async with self._connections.session(name, by, WAIT_S) as session:
            return await self._settle_all(session, by)

    async def _settle_all(self, session: ServerSession, by: Person) -> list[Push]:
        settled: list[Push] = []
        links = await session.links.all()
        for push in await self.list(session.connection.key):
            link = links.get(push.workflow_id)
            if push.action == "create":
                link = self._new_link(session, push.graph_key)
            if push.is_unsettled and link is not None:
                run = await self._run(session, link, push, by)
                if not isinstance(run, PushRun):
                    settled.append(await run.settle(push))
                else:
                    plan = await self._documents.sent_plan(push, session.connection.kind)
                    settled.append(await run.settle(push, plan))
        return settled

    async def _planned(
        self,
        session: ServerSession,
        link: ConnectionLink,
        by: Person,
        planning: Callable[[], Awaitable[PushPlan | None]],
        *,
        action: PushAction,
        undoes: str | None = None,
    ) -> Push | None:
        """Stores a new push. One that cannot be carried out is stored with its problems."""
        try:
            plan = await planning()
        except PushStopped as stop:
            plan = None
            problems = (stop.remark,)
        else:
            if plan is None:
                return None
            problems = plan.preflight.problems
            if not plan.changes and not problems:
                return None
        push = await run_limited(self._new_push, plan, session, link, by, problems, action, undoes)
        await self._replace_older(push, by)
        return await self._stored.add(push, by)

    def _new_push(
        self,
        plan: PushPlan | None,
        session: ServerSession,
        link: ConnectionLink,
        by: Person,
        problems: tuple[PushRemark, ...],
        action: PushAction,
        undoes: str | None,
    ) -> Push:
        shown = plan.changes[:MAX_SHOWN] if plan else ()
        names = plan.names if plan else {}
        return Push(
            key=f"push_{self._clock()}_{secrets.token_hex(6)}",
            workspace=by.workspace,
            connection=session.connection.key,
            workflow_id=link.workflow_id,
            name=link.name,
            graph_key=link.graph_key,
            action=action,
            state="refused" if problems else "waiting",
            changes=tuple(stored_change(change, names) for change in shown),
            more_changes=len(plan.changes) - len(shown) if plan else 0,
            changes_digest=plan.digest if plan else "",
            problems=remarks(problems),
            warnings=remarks(plan.preflight.warnings) if plan else (),
            effects=remarks(plan.preflight.effects) if plan else (),
            left_out=plan.left_out if plan else (),
            asked_by=by.user_id,
            asked_role=by.role,
            created_time=self._clock(),
            tokens_before=dict(plan.read.workflow.tokens) if plan else {},
            undoes=undoes,
        )

    async def _replace_older(self, new: Push, by: Person) -> None:
        """Closes pushes that wait for the same as a new one."""
        same = (new.graph_key, new.action, new.undoes)
        for push in await self._stored.list(new.connection):
            if push.state == "waiting" and (push.graph_key, push.action, push.undoes) == same:
                reason = StoredRemark(code="push_replaced")
                await self._stored.change(push, by, state="failed", reason=reason)

    async def _run(
        self, session: ServerSession, link: ConnectionLink, push: Push, by: Person
    ) -> PushRun | PublishRun | CreateRun:
        """Returns what carries a push out."""
        store = partial(self._stored.change, by=by)
        if push.action == "create":
            replan = partial(self._create_plan, session, push.graph_key)
            tries = [
                each
                for each in await self.list(push.connection)
                if each.action == "create"
                and each.graph_key == push.graph_key
                and each.sent_time is not None
            ]
            return CreateRun(
                session, link, store=store, replan=replan, tries=tries, clock=self._clock
            )
        if push.action == "publish":
            return PublishRun(session, link, store=store, clock=self._clock)
        planning: Callable[[], Awaitable[PushPlan]] = partial(
            plan_push, session, self._approvals.source, link
        )
        if push.undoes is not None:
            planning = partial(self._undo_plan, session, link, push.undoes)
        return PushRun(
            session,
            link,
            store=store,
            replan=planning,
            seal=self._documents.sealed,
            clock=self._clock,
        )

    async def _link_for(self, session: ServerSession, push: Push) -> ConnectionLink:
        if push.action == "create":
            return self._new_link(session, push.graph_key)
        return await _link_of(session, push.graph_key)

    async def _undo_plan(
        self, session: ServerSession, link: ConnectionLink, push_id: str
    ) -> PushPlan:
        try:
            documents = self._documents.opened(await self.get(push_id))
        except (PushNotFound, ConnectionRefused) as exc:
            raise PushStopped("push_undo_gone") from exc
        return await plan_undo(session, link, documents)

    async def _decided(self, push: Push, state: PushState, by: Person) -> Push:
        return await self._stored.change(
            push,
            by,
            state=state,
            decided_by=by.user_id,
            decided_role=by.role,
            decided_time=self._clock(),
        )

    def _check_decider(self, push: Push, mode: PushMode, by: Person) -> None:
        """Raises: NotAllowed, PushDecided."""
        if push.state != "waiting":
            raise PushDecided(push_id=push.key, state=push.state)
        code = self._approvals.objection(push.asked_by, by)
        if mode == "approval" and not by.at_least("reviewer"):
            code = "push_needs_reviewer"
        elif not by.at_least("editor"):
            code = "push_needs_editor"
        if code is not None:
            raise NotAllowed(code=code, user_id=by.user_id, role=by.role)


def _check_mode(mode: PushMode) -> None:
    if mode == "never":
        raise ConnectionRefused("push_never")


async def _link_of(session: ServerSession, graph_key: str) -> ConnectionLink:
    """Raises: ConnectionRefused where the graph is not one of the connection."""
    links = (await session.links.all()).values()
    for link in links:
        if link.graph_key == graph_key:
            return link
    raise ConnectionRefused("push_not_connected", graph=graph_key, name=session.connection.key)
