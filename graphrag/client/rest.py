"""A client of the REST service: typed answers, typed errors, nothing retried behind the caller's back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import ValidationError

from graphrag.approvals.approval import Status
from graphrag.client.documents import (
    Answer,
    ApprovalDocument,
    ApprovalList,
    AuditList,
    ChatAnswer,
    DeedDocument,
    EdgePage,
    EditUndone,
    ErrorAnswer,
    GraphDetail,
    GraphList,
    GraphSummary,
    HistoryAnswer,
    ImportAnswer,
    NodePage,
    Success,
    ThreadList,
    ThreadMessages,
    ThreadSummary,
    UsageAnswer,
    WhoAmI,
)
from graphrag.client.errors import ServiceError, ServiceUnreachable
from graphrag.client.view_documents import Editor, EditorList, GraphView

__all__ = ["NodiusClient", "ServiceError", "ServiceUnreachable"]

A = TypeVar("A", bound=Answer)
Page = TypeVar("Page", NodePage, EdgePage)
TIMEOUT_S = 330.0
"""A turn may take as long as the service lets a model answer."""


class NodiusClient:
    """One person's access to a service. Raises (every method): ServiceError, ServiceUnreachable.

    `workspace` narrows everything to one of the person's workspaces.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8426",
        *,
        token: str | None = None,
        workspace: str | None = None,
        language: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if language:
            headers["Accept-Language"] = language
        self._address, self._workspace = address, workspace
        self._http = httpx2.AsyncClient(
            base_url=address, headers=headers, timeout=TIMEOUT_S, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def me(self) -> WhoAmI:
        return await self._call(WhoAmI, "GET", "/api/me")

    async def usage(self, *, graph_key: str | None = None) -> UsageAnswer:
        return await self._call(UsageAnswer, "GET", "/api/usage", query={"graphKey": graph_key})

    async def chat(
        self,
        graph_key: str,
        message: str,
        *,
        thread_id: str | None = None,
        context_type: str | None = None,
        interactive: bool = False,
    ) -> ChatAnswer:
        """Ask, and wait for the answer or for a proposal; `interactive` also for a wish for more rounds."""
        body = {
            "graphKey": graph_key,
            "message": message,
            "threadId": thread_id,
            "contextType": context_type,
            "interactive": interactive,
        }
        return await self._call(ChatAnswer, "POST", "/api/ai/chat", body=body)

    async def resume(
        self,
        thread_id: str,
        *,
        approved: bool,
        feedback: str | None = None,
        approval_id: str | None = None,
        edited_action: Mapping[str, Any] | None = None,
    ) -> ChatAnswer:
        """Decide what a conversation waits for, by default its oldest proposal, and let it go on."""
        body = {
            "threadId": thread_id,
            "approved": approved,
            "feedback": feedback,
            "approvalId": approval_id,
            "editedAction": edited_action,
        }
        return await self._call(ChatAnswer, "POST", "/api/ai/resume", body=body)

    async def threads(self, *, graph_key: str | None = None, limit: int = 100) -> list[ThreadSummary]:
        body = {"graphKey": graph_key, "limit": limit}
        return (await self._call(ThreadList, "POST", "/api/ai/threads", body=body)).threads

    async def thread_messages(self, thread_id: str) -> ThreadMessages:
        return await self._call(ThreadMessages, "GET", f"/api/ai/thread/{_part(thread_id)}/messages")

    async def delete_thread(self, thread_id: str) -> None:
        await self._call(Success, "DELETE", f"/api/ai/thread/{_part(thread_id)}")

    async def graphs(self) -> list[GraphSummary]:
        return (await self._call(GraphList, "GET", "/api/graphs")).graphs

    async def graph(self, graph_key: str) -> GraphDetail:
        return await self._call(GraphDetail, "GET", f"/api/graphs/{_part(graph_key)}")

    async def view(self, graph_key: str) -> GraphView:
        """Return all of a graph at one moment, unsaved edits too."""
        return await self._call(GraphView, "GET", f"/api/graphs/{_part(graph_key)}/view")

    async def editors(self, graph_key: str) -> list[Editor]:
        """Return who edits a graph through this server now."""
        return (await self._call(EditorList, "GET", f"/api/graphs/{_part(graph_key)}/editors")).editors

    async def nodes(self, graph_key: str, *, sheet: str | None = None) -> AsyncGenerator[dict[str, Any]]:
        """Yield every node's document, by key, page after page."""
        async for page in self._pages(NodePage, f"/api/graphs/{_part(graph_key)}/nodes", sheet):
            for node in page.nodes:
                yield node

    async def edges(self, graph_key: str, *, sheet: str | None = None) -> list[dict[str, Any]]:
        """Return every edge's document, by key, read page after page."""
        pages = self._pages(EdgePage, f"/api/graphs/{_part(graph_key)}/edges", sheet)
        return [edge async for page in pages for edge in page.edges]

    async def _pages(self, kind: type[Page], path: str, sheet: str | None) -> AsyncGenerator[Page]:
        after: str | None = None
        while True:
            page = await self._call(kind, "GET", path, query={"sheet": sheet, "after": after})
            yield page
            after = page.next
            if after is None:
                return

    async def import_graph(
        self, raw: bytes, *, file_name: str = "workflow.json", graph_key: str | None = None
    ) -> ImportAnswer:
        """Import a workflow's file: Nodius JSON, n8n or Node-RED."""
        query = {"fileName": file_name, "graphKey": graph_key}
        return await self._call(ImportAnswer, "POST", "/api/graphs/import", query=query, raw=raw)

    async def export_graph(self, graph_key: str) -> bytes:
        """Return a graph as a Nodius JSON document."""
        return (await self._send("GET", f"/api/graphs/{_part(graph_key)}/export")).content

    async def approvals(
        self,
        *,
        graph_key: str | None = None,
        status: Status | None = None,
        asker: str | None = None,
        limit: int = 100,
    ) -> list[ApprovalDocument]:
        query = {"graphKey": graph_key, "status": status, "asker": asker, "limit": limit}
        return (await self._call(ApprovalList, "GET", "/api/approvals", query=query)).approvals

    async def approval(self, approval_id: str) -> ApprovalDocument:
        return await self._call(ApprovalDocument, "GET", f"/api/approvals/{_part(approval_id)}")

    async def approve(
        self, approval_id: str, *, edited_action: Mapping[str, Any] | None = None, feedback: str = ""
    ) -> ApprovalDocument:
        body = {"verdict": "approve", "editedAction": edited_action, "feedback": feedback}
        return await self._decide(approval_id, body)

    async def reject(self, approval_id: str, *, feedback: str = "") -> ApprovalDocument:
        return await self._decide(approval_id, {"verdict": "reject", "feedback": feedback})

    async def undo(
        self, graph_key: str, approval_id: str | None = None, *, turn: bool = False
    ) -> ApprovalDocument:
        """Take back a change, by default the graph's last that stands; with `turn` all of its turn."""
        path, body = f"/api/graphs/{_part(graph_key)}/undo", {"approvalId": approval_id, "turn": turn}
        return await self._call(ApprovalDocument, "POST", path, body=body)

    async def history(self, graph_key: str, *, limit: int = 100) -> list[DeedDocument]:
        """Return the latest live edits of a graph, newest first."""
        path, query = f"/api/graphs/{_part(graph_key)}/history", {"limit": limit}
        return (await self._call(HistoryAnswer, "GET", path, query=query)).edits

    async def undo_edit(self, graph_key: str, edit_id: str) -> EditUndone:
        """Take a live edit back, unless it was changed since."""
        path = f"/api/graphs/{_part(graph_key)}/history/{_part(edit_id)}/take-back"
        return await self._call(EditUndone, "POST", path)

    async def audit(self, *, graph_key: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        query = {"graphKey": graph_key, "limit": limit}
        return (await self._call(AuditList, "GET", "/api/audit", query=query)).entries

    async def _decide(self, approval_id: str, body: dict[str, Any]) -> ApprovalDocument:
        path = f"/api/approvals/{_part(approval_id)}/decision"
        return await self._call(ApprovalDocument, "POST", path, body=body)

    async def _call(self, kind: type[A], method: str, path: str, **more: Any) -> A:
        answer = await self._send(method, path, **more)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as exc:
            raise ServiceError(
                status=answer.status_code,
                code="malformed",
                reason=f"the answer is not a {kind.__name__}: {exc.errors(include_url=False)[0]['msg']}",
            ) from exc

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        raw: bytes | None = None,
    ) -> httpx2.Response:
        given = _given({"workspace": self._workspace, **(query or {})})
        try:
            if raw is not None:
                kind = {"Content-Type": "application/json"}
                answer = await self._http.request(method, path, params=given, content=raw, headers=kind)
            else:
                sent = None if body is None else _given(body)
                answer = await self._http.request(method, path, params=given, json=sent)
        except httpx2.HTTPError as exc:
            raise ServiceUnreachable(address=self._address, reason=str(exc) or type(exc).__name__) from exc
        if answer.is_success:
            return answer
        raise _refusal(answer)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _part(key: str) -> str:
    return quote(key, safe="")


def _refusal(answer: httpx2.Response) -> ServiceError:
    pause = answer.headers.get("Retry-After", "")
    retry_after_s = float(pause) if pause.isascii() and pause.isdigit() else None
    try:
        told = ErrorAnswer.model_validate_json(answer.content).error
    except ValidationError:  # something between the service and us answered
        return ServiceError(
            status=answer.status_code,
            code="unknown",
            reason="the answer is not this service's",
            retryable=answer.status_code in (502, 503, 504),
            retry_after_s=retry_after_s,
        )
    return ServiceError(
        status=answer.status_code,
        code=told.code,
        reason=told.message,
        retryable=told.retryable,
        request_id=told.request_id,
        details=told.details,
        retry_after_s=retry_after_s,
    )
