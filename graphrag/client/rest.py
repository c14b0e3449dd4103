"""A client of the REST service: its JSON as dictionaries, typed errors, no retries.

What an answer holds is described in docs/openapi.json.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

import httpx2
import orjson

from graphrag.client.errors import ServiceError, ServiceUnreachable

__all__ = ["NodiusClient", "ServiceError", "ServiceUnreachable"]

Json = dict[str, Any]
TIMEOUT_S = 330.0
"""A turn may take as long as the service lets a model answer."""


class NodiusClient:
    """One person's access to a service. Raises (every method): ServiceError, ServiceUnreachable.

    `workspace` narrows everything to one of the person's workspaces. Options of a method are the fields of
    the request's body or its query, by their names on the wire; one that is None is not sent.
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
        headers = {"X-Nodius-Client": "nodius-client"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
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

    async def me(self) -> Json:
        return await self._call("GET", "me")

    async def usage(self, **query: Any) -> Json:
        return await self._call("GET", "usage", query=query)

    async def chat(self, graph_key: str, message: str, **options: Any) -> Json:
        """Ask, and wait for the answer or for a proposal."""
        return await self._call(
            "POST", "ai/chat", body={"graphKey": graph_key, "message": message, **options}
        )

    async def preview_blocks(self, graph_key: str, blocks: Sequence[Json]) -> Json:
        """Return what the blocks of a message say and weigh; nothing is stored."""
        body = {"graphKey": graph_key, "blocks": list(blocks)}
        return await self._call("POST", "enrichments/preview", body=body)

    async def resume(self, thread_id: str, *, approved: bool, **options: Any) -> Json:
        """Decide what a conversation waits for, by default its oldest proposal, and let it go on."""
        body = {"threadId": thread_id, "approved": approved, **options}
        return await self._call("POST", "ai/resume", body=body)

    async def answer(self, thread_id: str, response: str | bool, **options: Any) -> Json:
        """Answer the question that a conversation waits with, and let it go on."""
        body = {"response": response, **options}
        return await self._call("POST", f"ai/thread/{_part(thread_id)}/answer", body=body)

    async def threads(self, **options: Any) -> list[Json]:
        return (await self._call("POST", "ai/threads", body=options))["threads"]

    async def thread_messages(self, thread_id: str) -> Json:
        return await self._call("GET", f"ai/thread/{_part(thread_id)}/messages")

    async def delete_thread(self, thread_id: str) -> None:
        await self._call("DELETE", f"ai/thread/{_part(thread_id)}")

    async def graphs(self) -> list[Json]:
        return (await self._call("GET", "graphs"))["graphs"]

    async def graph(self, graph_key: str) -> Json:
        return await self._call("GET", f"graphs/{_part(graph_key)}")

    async def view(self, graph_key: str) -> Json:
        """Return all of a graph at one moment, unsaved edits too."""
        return await self._call("GET", f"graphs/{_part(graph_key)}/view")

    async def editors(self, graph_key: str) -> list[Json]:
        """Return who edits a graph through this server now."""
        return (await self._call("GET", f"graphs/{_part(graph_key)}/editors"))["editors"]

    async def nodes(self, graph_key: str, *, sheet: str | None = None) -> AsyncGenerator[Json]:
        """Yield every node's document, by key, read page after page."""
        async for node in self._elements("nodes", graph_key, sheet):
            yield node

    async def edges(self, graph_key: str, *, sheet: str | None = None) -> AsyncGenerator[Json]:
        """Yield every edge's document, by key, read page after page."""
        async for edge in self._elements("edges", graph_key, sheet):
            yield edge

    async def _elements(self, name: str, graph_key: str, sheet: str | None) -> AsyncGenerator[Json]:
        query: Json = {"sheet": sheet, "after": None}
        while True:
            page = await self._call("GET", f"graphs/{_part(graph_key)}/{name}", query=query)
            for element in page[name]:
                yield element
            query["after"] = page.get("next")
            if query["after"] is None:
                return

    async def import_graph(self, raw: bytes, **query: Any) -> Json:
        """Import a workflow's file: Nodius JSON, n8n or Node-RED."""
        return _document(await self._send("POST", "graphs/import", query=query, raw=raw))

    async def export_graph(self, graph_key: str) -> bytes:
        """Return a graph as a Nodius JSON document."""
        return (await self._send("GET", f"graphs/{_part(graph_key)}/export")).content

    async def approvals(self, **query: Any) -> list[Json]:
        return (await self._call("GET", "approvals", query=query))["approvals"]

    async def approval(self, approval_id: str) -> Json:
        return await self._call("GET", f"approvals/{_part(approval_id)}")

    async def approve(self, approval_id: str, **options: Any) -> Json:
        body = {"verdict": "approve", **options}
        return await self._call("POST", f"approvals/{_part(approval_id)}/decision", body=body)

    async def reject(self, approval_id: str, *, feedback: str = "") -> Json:
        body = {"verdict": "reject", "feedback": feedback}
        return await self._call("POST", f"approvals/{_part(approval_id)}/decision", body=body)

    async def undo(self, graph_key: str, **options: Any) -> Json:
        """Undo a change, by default the graph's last that stands; with `turn=True` all of its turn."""
        return await self._call("POST", f"graphs/{_part(graph_key)}/undo", body=options)

    async def history(self, graph_key: str, **query: Any) -> list[Json]:
        """Return the latest live edits of a graph, newest first."""
        return (await self._call("GET", f"graphs/{_part(graph_key)}/history", query=query))["edits"]

    async def undo_edit(self, graph_key: str, edit_id: str) -> Json:
        """Undo a live edit, unless what it changed was changed since."""
        return await self._call("POST", f"graphs/{_part(graph_key)}/history/{_part(edit_id)}/take-back")

    async def audit(self, **query: Any) -> list[Json]:
        return (await self._call("GET", "audit", query=query))["entries"]

    async def tool_calls(self) -> list[Json]:
        """Return the last calls of tools in the service's process, newest first. For admins."""
        return (await self._call("GET", "tool-calls"))["calls"]

    async def apply_agent(self, agent_id: str, document: Json, **options: Any) -> Json:
        """Store a document as the newest version of its agent. For admins, as the three that follow."""
        return await self._call("PUT", f"agents/{_part(agent_id)}", body={"document": document, **options})

    async def agent_document(self, agent_id: str) -> Json:
        return (await self._call("GET", f"agents/{_part(agent_id)}"))["document"]

    async def start_agent(self, agent_id: str) -> Json:
        return await self._call("POST", f"agents/{_part(agent_id)}/start")

    async def stop_agent(self, agent_id: str, **options: Any) -> Json:
        return await self._call("POST", f"agents/{_part(agent_id)}/stop", body=options)

    async def delete_agent(self, agent_id: str) -> None:
        await self._send("DELETE", f"agents/{_part(agent_id)}")

    async def talk(self, agent_id: str, **options: Any) -> Json:
        """Return a token for a call with an agent, and the address of its stream."""
        return await self._call("POST", f"agents/{_part(agent_id)}/talk", body=options)

    async def call(self, call_id: str) -> Json:
        """Return what is recorded of a call. For reviewers."""
        return await self._call("GET", f"calls/{_part(call_id)}")

    async def _call(
        self, method: str, path: str, *, query: Json | None = None, body: Json | None = None
    ) -> Json:
        raw = None if body is None else orjson.dumps(_given(body))
        return _document(await self._send(method, path, query=query or {}, raw=raw))

    async def _send(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, raw: bytes | None = None
    ) -> httpx2.Response:
        given = _given({"workspace": self._workspace, **(query or {})})
        headers = {} if raw is None else {"Content-Type": "application/json"}
        try:
            answer = await self._http.request(
                method, f"/api/{path}", params=given, content=raw, headers=headers
            )
        except httpx2.HTTPError as exc:
            raise ServiceUnreachable(address=self._address, reason=str(exc) or type(exc).__name__) from exc
        if answer.is_success:
            return answer
        raise _refusal(answer)


def _given(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _part(key: str) -> str:
    return quote(key, safe="")


def _document(answer: httpx2.Response) -> Json:
    """Return the object of an answer. Raises: ServiceError (`malformed`) where it is none."""
    try:
        loaded: Any = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        loaded = None
    if not isinstance(loaded, dict):
        reason = "the answer is not JSON of this service"
        raise ServiceError(status=answer.status_code, code="malformed", reason=reason)
    return cast(Json, loaded)


def _refusal(answer: httpx2.Response) -> ServiceError:
    pause = answer.headers.get("Retry-After", "")
    retry_after_s = float(pause) if pause.isascii() and pause.isdigit() else None
    try:
        facts = _document(answer)["error"]
        return ServiceError(
            status=answer.status_code,
            code=facts["code"],
            reason=facts["message"],
            retryable=facts["retryable"],
            request_id=facts.get("requestId", ""),
            details=facts.get("details"),
            retry_after_s=retry_after_s,
        )
    except (ServiceError, KeyError, TypeError):  # a proxy between the service and us answered
        return ServiceError(
            status=answer.status_code,
            code="unknown",
            reason="the answer is not this service's",
            retryable=answer.status_code in (502, 503, 504),
            retry_after_s=retry_after_s,
        )
