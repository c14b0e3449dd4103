"""Makes a graph a new workflow of an n8n server, after a person has decided that, and once.

A server gives a new workflow an id of its own, so an answer that is lost leaves no trace here. The
ids of nodes are kept. So after a try, a workflow with one of them that no graph is linked with is
the one that was created, also if nodes were added here since. Before the first try it is somebody
else's, and nothing is created beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from graphrag.connections.document_patch import holds_placeholder
from graphrag.connections.editor import CreatesWorkflows, PushRemark, RemoteDocument, RemoteWorkflow
from graphrag.connections.errors import EditorFault
from graphrag.connections.push_plan import FORMATS, PushPlan, PushStopped
from graphrag.connections.push_run import READ_AGAIN_S, StorePush, ended
from graphrag.connections.server_connections import ServerSession
from graphrag.connections.stored_connection import ConnectionLink
from graphrag.connections.stored_push import Push, PushState
from graphrag.importers import GraphContent
from graphrag.importers.export import NotExportable, export_as
from graphrag.importers.json_values import Json, as_dict, as_list, as_text
from graphrag.workers import run_limited

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
        was_tried: bool,
        clock: Callable[[], int],
    ) -> None:
        """`was_tried`: whether a creation of the graph was sent to the server before."""
        self._was_tried = was_tried
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
        found = await self._found(plan.target)
        if found is not None and not self._was_tried:
            facts = {"name": found.workflow.name}
            return await self._ended(
                push, "failed", PushRemark(code="push_exists_there", facts=facts)
            )
        reason: PushRemark | None = None
        if found is None:
            push = await self._store(push, state="sent", sent_time=self._clock())
            try:
                answer = await editor.create(plan.target)
            except EditorFault:
                reason = PushRemark(code="push_not_applied")
            else:
                if not answer.is_accepted:
                    facts = {"reason": answer.reason or f"HTTP {answer.status}"}
                    reason = PushRemark(code="push_refused", facts=facts)
        return await self._settled(push, plan.target, reason)

    async def settle(self, push: Push) -> Push:
        """Returns a creation whose sender stopped, as the server shows that it ended."""
        try:
            plan = await self._replan()
        except PushStopped as stop:
            return await self._ended(push, "failed", stop.remark)
        return await self._settled(push, plan.target, PushRemark(code="push_not_applied"))

    async def _settled(self, push: Push, target: Json, otherwise: PushRemark | None) -> Push:
        for wait_s in READ_AGAIN_S:
            await asyncio.sleep(wait_s)
            try:
                found = await self._found(target)
            except EditorFault:
                continue
            if found is not None:
                await self._session.pull.adopted(found, self._link)
                tokens = dict(found.workflow.tokens)
                workflow_id = found.workflow.workflow_id
                return await self._ended(
                    push, "verified", None, workflow_id=workflow_id, tokens_after=tokens
                )
            if otherwise is not None:
                return await self._ended(push, "failed", otherwise)
        return await self._ended(push, "unknown", PushRemark(code="push_unread"))

    async def _found(self, target: Json) -> RemoteDocument | None:
        """Returns the workflow of the server that has our nodes and is linked with no graph.

        Raises: EditorFault.
        """
        editor = self._session.editor
        assert isinstance(editor, CreatesWorkflows)
        ours = _node_ids(target)
        linked = await self._session.links.all()
        for item in await editor.documents():
            workflow_id = as_text(item.get("id")) or ""
            if workflow_id not in linked and ours & _node_ids(item):
                return await editor.read(workflow_id)
        return None

    async def _ended(
        self, push: Push, state: PushState, remark: PushRemark | None, **update: Any
    ) -> Push:
        return await ended(self._store, push, state, remark, now=self._clock(), **update)


def _node_ids(workflow: Json) -> set[str]:
    nodes = map(as_dict, as_list(workflow.get("nodes")) or ())
    return {key for node in nodes if (key := as_text((node or {}).get("id")))}
