"""Writes what was changed here to connected servers, once a person has decided it.

Decision: a push is no proposal about a graph: it changes none, and its life goes on after the
decision (sent, verified, rolled back, unknown). So it is a record of its own. The rules of who
decides are those of proposals.
"""

from __future__ import annotations

import base64
import secrets
import zlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, final

import orjson

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import GraphNotFound
from graphrag.approvals import Approvals, NotAllowed, Person
from graphrag.connections.document_patch import entry_names
from graphrag.connections.editor import RemoteDocument, RemoteWorkflow, ServerNotice
from graphrag.connections.errors import (
    ConnectionForbidden,
    ConnectionRefused,
    PushDecided,
    PushNotFound,
)
from graphrag.connections.key_store import KeyStore
from graphrag.connections.publish_run import DRAFT, PublishRun, plan_publish
from graphrag.connections.push_plan import (
    FORMATS,
    PushPlan,
    PushStopped,
    plan_push,
    plan_undo,
)
from graphrag.connections.push_run import PushRun
from graphrag.connections.server_connections import Connections, PullReport, ServerSession
from graphrag.connections.stored_connection import (
    ConnectionLink,
    EditorKind,
    PushMode,
    ServerConnection,
)
from graphrag.connections.stored_push import (
    MAX_SHOWN,
    PUSH_KIND,
    UNSETTLED,
    Push,
    PushAction,
    PushState,
    StoredRemark,
    is_undone,
    read_push,
    remarks,
    stored_change,
)
from graphrag.importers.exchange import KIND as IMPORT_KIND
from graphrag.importers.exchange import kept_source
from graphrag.importers.export import file_without_secrets
from graphrag.leases import now_ms
from graphrag.stored_records import change_record, delete_record, readable
from graphrag.workers import run_limited
from tools.base import Role

WAIT_S = 120.0
"""For others who read or write the same server."""
MAX_PUSHES = 1_000
"""Pushes of a connection that are kept; the oldest are removed."""
MAX_UNDOABLE = 5
"""Pushes of a workflow whose documents are kept; older ones cannot be taken back by this way."""
WATCH_MS = 5 * 60_000
"""How long after a push the failures of nodes are kept with it."""
MAX_FAILURES = 5
MAX_SEALED_BYTES = 8 * 1024 * 1024


@final
class Pushes:
    """The pushes of one workspace. `clock` gives milliseconds since 1970."""

    def __init__(
        self,
        records: RecordStore,
        approvals: Approvals,
        connections: Connections,
        keys: KeyStore,
        *,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._records = records
        self._approvals = approvals
        self._connections = connections
        self._keys = keys
        self._clock = clock

    async def list(self, connection: str | None = None, *, limit: int = 100) -> list[Push]:
        """Returns the pushes, newest first."""
        where = {"connection": connection} if connection is not None else {}
        records = await self._records.query(
            PUSH_KIND, where, order_by="createdTime", descending=True, limit=limit
        )
        return list(readable(records, read_push))

    async def get(self, push_id: str) -> Push:
        """Raises: PushNotFound, BadDocument."""
        record = await self._records.get(PUSH_KIND, push_id)
        if record is None:
            raise PushNotFound(push_id=push_id)
        return read_push(record)

    async def plan(self, name: str, graph_key: str, by: Person) -> Push | None:
        """Works out what a push of a graph would write and stores it for a decision; None where
        nothing was changed here.

        Raises: ConnectionNotFound, ConnectionForbidden, ConnectionRefused, ConnectionBusy,
        EditorFault.
        """
        if not by.at_least("editor"):
            raise ConnectionForbidden()
        async with self._connections.session(name, by, WAIT_S) as session:
            _check_mode(session.connection.push)
            link = await _link_of(session, graph_key)
            await self._settle_all(session, by)
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
        if not by.at_least("editor"):
            raise ConnectionForbidden()
        async with self._connections.session(name, by, WAIT_S) as session:
            _check_mode(session.connection.push)
            link = await _link_of(session, graph_key)
            await self._settle_all(session, by)
            own = [push.tokens_after.get(DRAFT, "") for push in await self.list(name)]
            planning = partial(plan_publish, session, link, own)
            return await self._planned(session, link, by, planning, action="publish")

    async def plan_undo(self, push_id: str, by: Person) -> Push | None:
        """Works out what takes a push back and stores it for a decision; None where the server's
        document is as before already.

        Raises: as `plan`, PushNotFound.
        """
        if not by.at_least("editor"):
            raise ConnectionForbidden()
        push = await self.get(push_id)
        async with self._connections.session(push.connection, by, WAIT_S) as session:
            _check_mode(session.connection.push)
            link = await _link_of(session, push.graph_key)
            await self._settle_all(session, by)
            documents = self._opened(push)
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
            link = await _link_of(session, push.graph_key)
            push = await self._decided(push, "planned", by)
            push = await self._run(session, link, push, by).send(push)
            await self._forget_documents(link)
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
        if not any(push.state in UNSETTLED for push in await self.list(name)):
            return []
        async with self._connections.session(name, by, WAIT_S) as session:
            return await self._settle_all(session, by)

    async def notice_undone(self, report: PullReport, by: Person) -> list[Push]:
        """Returns the pushes that somebody undid on the server, as a synchronisation showed.

        It happens where an editor's page was open during the push and is saved later.
        """
        changed = {each.workflow_id for each in report.workflows if each.change == "updated"}
        name = report.connection.key
        undone: list[Push] = []
        for push in await self.list(name) if changed else ():
            if push.workflow_id not in changed:
                continue
            changed.discard(push.workflow_id)  # only the newest one of a workflow counts
            document = await self._document_of(push, report.connection.kind)
            if push.state == "verified" and document is not None and is_undone(push, document):
                update = {"state": "undone", "reason": StoredRemark(code="push_undone")}
                undone.append(await self._stored(push.model_copy(update=update), by))
        return undone

    async def notice_failure(
        self, connection: ServerConnection, notice: ServerNotice, by: Person
    ) -> None:
        """Keeps a failure of a node with the connection's newest push, if that was written a few
        minutes ago at most.
        """
        [push] = await self.list(connection.key, limit=1) or [None]
        now = self._clock()
        if push is None or push.state != "verified" or len(push.failures) >= MAX_FAILURES:
            return
        if (push.ended_time or 0) + WATCH_MS < now:
            return
        names = entry_names(await self._document_of(push, connection.kind))
        facts = {"node": names.get(notice.node_id, notice.node_id), "message": notice.message}
        failure = StoredRemark(code="push_node_failed", facts=facts)
        if failure not in push.failures:
            update = {"failures": (*push.failures, failure)}
            await self._stored(push.model_copy(update=update), by, event="push_node_failed")

    async def _document_of(self, push: Push, kind: EditorKind) -> Any:
        """Returns the server's document of the last synchronisation, None where there is none."""
        try:
            graph = await self._approvals.source.get_graph(push.graph_key)
        except GraphNotFound:
            return None
        raw = kept_source(await self._records.get(IMPORT_KIND, graph.key), graph)
        if raw is None:
            return None
        return await run_limited(file_without_secrets, FORMATS[kind], orjson.loads(raw))

    async def _settle_all(self, session: ServerSession, by: Person) -> list[Push]:
        settled: list[Push] = []
        links = await session.links.all()
        for push in await self.list(session.connection.key):
            link = links.get(push.workflow_id)
            if push.state in UNSETTLED and link is not None:
                run = self._run(session, link, push, by)
                if isinstance(run, PublishRun):
                    settled.append(await run.settle(push))
                else:
                    settled.append(await run.settle(push, await self._sent_plan(push, session)))
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
        shown = plan.changes[:MAX_SHOWN] if plan else ()
        names = plan.names if plan else {}
        push = Push(
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
        await self._remove_oldest(session.connection.key)
        return await self._stored(push, by)

    def _run(
        self, session: ServerSession, link: ConnectionLink, push: Push, by: Person
    ) -> PushRun | PublishRun:
        """Returns what carries a push out."""
        store = partial(self._stored, by=by)
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
            seal=self._sealed,
            clock=self._clock,
        )

    async def _undo_plan(
        self, session: ServerSession, link: ConnectionLink, push_id: str
    ) -> PushPlan:
        try:
            documents = self._opened(await self.get(push_id))
        except (PushNotFound, ConnectionRefused) as exc:
            raise PushStopped("push_undo_gone") from exc
        return await plan_undo(session, link, documents)

    # Records

    async def _stored(self, push: Push, by: Person, *, event: str = "") -> Push:
        """Stores a push with an audit entry, by default of its state, over what was read."""
        old = await self._records.get(PUSH_KIND, push.key)
        write = RecordWrite(
            kind=PUSH_KIND,
            key=push.key,
            data=push.to_document(),
            expected_version=old.version if old else None,
        )
        facts = {
            "event": event or f"push_{push.state}",
            "pushId": push.key,
            "connection": push.connection,
            "workflowId": push.workflow_id,
            "graphKey": push.graph_key,
            "changesHash": push.changes_digest,
            "tokensBefore": push.tokens_before,
            "tokensAfter": push.tokens_after,
            "reason": push.reason.code if push.reason else None,
        }
        await self._approvals.audited(by, facts, lambda entry: self._records.write([write, *entry]))
        return push

    async def _decided(self, push: Push, state: PushState, by: Person) -> Push:
        update = {
            "state": state,
            "decided_by": by.user_id,
            "decided_role": by.role,
            "decided_time": self._clock(),
        }
        return await self._stored(push.model_copy(update=update), by)

    def _check_decider(self, push: Push, mode: PushMode, by: Person) -> None:
        """Raises: NotAllowed, PushDecided."""
        if push.state != "waiting":
            raise PushDecided(push_id=push.key, state=push.state)
        needed: Role = "reviewer" if mode == "approval" else "editor"
        code = None if by.at_least(needed) else f"push_needs_{needed}"
        code = code or self._approvals.objection(push.asked_by, by)
        if code is not None:
            raise NotAllowed(code=code, user_id=by.user_id, role=by.role)

    async def _remove_oldest(self, connection: str) -> None:
        records = await self._records.query(
            PUSH_KIND, {"connection": connection}, order_by="createdTime", limit=MAX_PUSHES
        )
        for record in records[: max(0, len(records) - MAX_PUSHES + 1)]:
            await delete_record(self._records, record)

    async def _forget_documents(self, link: ConnectionLink) -> None:
        """Removes the documents of older pushes of a workflow."""
        kept = 0
        for push in await self.list(link.connection, limit=MAX_PUSHES):
            if push.workflow_id != link.workflow_id or push.sealed_documents is None:
                continue
            kept += 1
            if kept > MAX_UNDOABLE:
                await change_record(self._records, PUSH_KIND, push.key, _without_documents)

    # Documents with their secrets, encrypted

    def _sealed(self, plan: PushPlan) -> str | None:
        """Returns the documents of a push encrypted; None where the service has no secret."""
        documents = orjson.dumps({"before": plan.read.document, "after": plan.target})
        packed = base64.b64encode(zlib.compress(documents)).decode()
        if len(packed) > MAX_SEALED_BYTES:
            return None
        try:
            return self._keys.seal(packed)
        except ConnectionRefused:
            return None

    def _opened(self, push: Push) -> Mapping[str, Any]:
        """Returns the documents of a push. Raises: ConnectionRefused where they are gone."""
        if push.sealed_documents is None:
            raise ConnectionRefused("push_undo_gone")
        packed = self._keys.opened(push.sealed_documents)
        documents: Mapping[str, Any] = orjson.loads(zlib.decompress(base64.b64decode(packed)))
        return documents

    async def _sent_plan(self, push: Push, session: ServerSession) -> PushPlan | None:
        """Returns what a push sent, None where its documents were not kept."""
        try:
            documents = self._opened(push)
        except ConnectionRefused:
            return None
        form = FORMATS[session.connection.kind]
        workflow = RemoteWorkflow(
            workflow_id=push.workflow_id, name=push.name, tokens=push.tokens_before
        )
        read = RemoteDocument(workflow=workflow, document=documents["before"])
        return await run_limited(PushPlan.between, read, documents["after"], form)


def _without_documents(record: Record | None) -> dict[str, Any] | None:
    return {**record.data, "sealedDocuments": None} if record is not None else None


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
