"""Makes a graph a new workflow of an n8n server, after a person has decided that, and once.

A server gives a new workflow an id of its own, so an answer that is lost leaves no trace here. But
it keeps the ids of nodes, and those that are sent are stored before. So after a try, a workflow
with one of them that no other graph is linked with is the one that was created, whatever became of
the graph since. Before the first try it is somebody else's, and nothing is created beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from graphrag.connections.document_patch import holds_placeholder
from graphrag.connections.editor import CreatesWorkflows, PushRemark, RemoteDocument, RemoteWorkflow
from graphrag.connections.errors import EditorFault
from graphrag.connections.push_plan import FORMATS, PushPlan, PushStopped
from graphrag.connections.push_run import READ_AGAIN_S, StorePush, carried_out, ended
from graphrag.connections.server_connections import ServerSession
from graphrag.connections.stored_connection import ConnectionLink
from graphrag.connections.stored_push import Push, PushState
from graphrag.importers import GraphContent
from graphrag.importers.export import NotExportable, export_as
from graphrag.importers.json_values import Json, as_dict, as_list, as_text
from graphrag.workers import run_limited

MAX_SENT_NODES = 100
"""Nodes whose ids are kept with a creation."""
EMPTY: Json = {"name": "", "nodes": [], "connections": {}}


async def plan_create(session: ServerSession, content: GraphContent) -> PushPlan:
    """Returns what would be created. Raises: PushStopped, EditorFault."""
    editor = session.editor
    if not isinstance(editor, CreatesWorkflows):
        raise PushStopped("push_creates_n8n_only", state="refused")
    form = FORMATS[session.connection.kind]
    try:
        written = await run_limited(export_as, form, content, None)
    except NotExportable as exc:
        raise PushStopped("push_not_writable", reason=exc.reason) from exc
    document: Json = written.document
    if holds_placeholder(document):
        raise PushStopped("push_secret", place=str(document.get("name")))
    nothing = RemoteDocument(
        workflow=RemoteWorkflow(workflow_id="", name="", tokens={}), document=EMPTY
    )
    plan = await run_limited(PushPlan.between, nothing, document, form)
    preflight = await editor.preflight(nothing, document)
    return replace(plan, preflight=preflight, left_out=tuple(written.report.lines()))


class CreateRun:
    """Creates one workflow and links the graph to it. `store` keeps the push with each state."""

    def __init__(
        self,
        session: ServerSession,
        link: ConnectionLink,
        *,
        store: StorePush,
        replan: Callable[[], Awaitable[PushPlan]],
        tries: Sequence[Push],
        clock: Callable[[], int],
    ) -> None:
        """`tries`: creations of the graph that were sent to the server."""
        self._tries = tries
        self._session = session
        self._link = link
        self._store = store
        self._replan = replan
        self._clock = clock

    async def send(self, push: Push) -> Push:
        """Creates the workflow unless it is there, and returns the push as it ended."""
        try:
            plan = await self._replan()
        except PushStopped as stop:
            return await self._ended(push, "failed", stop.remark)
        if plan.digest != push.changes_digest:
            return await self._ended(push, "failed", PushRemark(code="push_stale"))
        if plan.preflight.problems:
            return await self._ended(push, "failed", plan.preflight.problems[0])
        editor = self._session.editor
        assert isinstance(editor, CreatesWorkflows)
        ids = _node_ids(plan.target)
        found = await self._found({*ids, *self._tried_ids()})
        if found is not None and not self._tries:
            facts = {"name": found.workflow.name}
            return await self._ended(
                push, "failed", PushRemark(code="push_exists_there", facts=facts)
            )
        reason: PushRemark | None = None
        if found is None:
            sent_nodes = tuple(sorted(ids)[:MAX_SENT_NODES])
            push = await self._store(
                push, state="sent", sent_time=self._clock(), sent_nodes=sent_nodes
            )
            try:
                answer = await editor.create(plan.target)
            except EditorFault:
                reason = PushRemark(code="push_not_applied")
            else:
                if not answer.is_accepted:
                    facts = {"reason": answer.reason or f"HTTP {answer.status}"}
                    reason = PushRemark(code="push_refused", facts=facts)
        return await self._settled(push, {*ids, *self._tried_ids()}, reason)

    async def settle(self, push: Push) -> Push:
        """Returns a creation whose sender stopped, as the server shows that it ended."""
        otherwise = PushRemark(code="push_not_applied")
        if push.sent_time is None:
            return await self._ended(push, "failed", otherwise)
        await carried_out(push, self._clock)
        return await self._settled(push, self._tried_ids(), otherwise)

    def _tried_ids(self) -> set[str]:
        """Returns the ids of the nodes that were sent before."""
        return {node_id for push in self._tries for node_id in push.sent_nodes}

    async def _settled(
        self, push: Push, ids: Collection[str], otherwise: PushRemark | None
    ) -> Push:
        """Returns a creation as it ended. `ids`: those of its nodes, `otherwise`: why no workflow
        with them is there.
        """
        for wait_s in READ_AGAIN_S:
            await asyncio.sleep(wait_s)
            try:
                found = await self._found(ids)
            except EditorFault:
                continue
            if found is not None:
                is_linked = await self._session.pull.adopted(found, self._link)
                return await self._ended(
                    push,
                    "verified",
                    None if is_linked else PushRemark(code="push_graph_gone"),
                    workflow_id=found.workflow.workflow_id,
                    tokens_after=dict(found.workflow.tokens),
                )
            if otherwise is not None:
                return await self._ended(push, "failed", otherwise)
        return await self._ended(push, "unknown", PushRemark(code="push_unread"))

    async def _found(self, ids: Collection[str]) -> RemoteDocument | None:
        """Returns the workflow that has one of our nodes and is linked with no other graph.

        Raises: EditorFault.
        """
        editor = self._session.editor
        assert isinstance(editor, CreatesWorkflows)
        links = await self._session.links.all()
        others = {key for key, link in links.items() if link.graph_key != self._link.graph_key}
        for item in await editor.documents():
            workflow_id = as_text(item.get("id")) or ""
            if workflow_id not in others and not _node_ids(item).isdisjoint(ids):
                return await editor.read(workflow_id)
        return None

    async def _ended(
        self, push: Push, state: PushState, remark: PushRemark | None, **update: Any
    ) -> Push:
        return await ended(self._store, push, state, remark, now=self._clock(), **update)


def _node_ids(workflow: Json) -> set[str]:
    nodes = map(as_dict, as_list(workflow.get("nodes")) or ())
    return {key for node in nodes if (key := as_text((node or {}).get("id")))}
