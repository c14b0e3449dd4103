"""REST of a conversation as a thing of its own: another title, and all that was said as a file."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import StringConstraints

from graphrag.agent.thread_store import TITLE_CHARS, Thread
from server.openapi_errors import ERRORS
from server.requests import Id, RequestBody, Workspaces
from server.rest_ai import ThreadSummary

router = APIRouter(prefix="/api/ai", tags=["chat"], responses=ERRORS)
_KINDS = {"markdown": ("text/markdown; charset=utf-8", "md"), "json": ("application/json", "json")}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind.partition(";")[0]: {} for kind, _ in _KINDS.values()}}
}
_SAID_BY = {"user": "## {who}", "assistant": "## Nodius"}


class RenameRequest(RequestBody):
    title: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=TITLE_CHARS)]


@router.patch("/thread/{thread_id}")
async def rename(workspaces: Workspaces, thread_id: Id, body: RenameRequest) -> ThreadSummary:
    """Give a conversation another title. While it is being answered it cannot be renamed."""
    place, _ = await workspaces.of_thread(thread_id)
    async with place.agent.leases.held(thread_id):  # nobody writes it meanwhile
        thread = await place.services.threads.rename(thread_id, place.person, body.title)
    return ThreadSummary.model_validate(thread.summary())


@router.get("/thread/{thread_id}/export", response_model=None, responses=_FILE)
async def export(
    workspaces: Workspaces,
    thread_id: Id,
    format: Annotated[Literal["markdown", "json"], Query(description="To read, or all of it.")] = "markdown",
) -> Response:
    """Return a conversation as a file: what both said, or the messages as they are stored."""
    _, thread = await workspaces.of_thread(thread_id)
    kind, suffix = _KINDS[format]
    text = _markdown(thread) if format == "markdown" else _json(thread)
    headers = {"Content-Disposition": f'attachment; filename="conversation-{thread.key[:12]}.{suffix}"'}
    return Response(text.encode("utf-8", "replace"), media_type=kind, headers=headers)


def _json(thread: Thread) -> str:
    return json.dumps({**thread.summary(), "messages": thread.conversation_history}, ensure_ascii=False)


def _markdown(thread: Thread) -> str:
    parts = [f"# {thread.title or thread.key}"]
    for message in thread.conversation_history:
        said = cast(dict[str, Any], message if isinstance(message, dict) else {})
        head, content = _SAID_BY.get(str(said.get("role"))), said.get("content")
        if head and isinstance(content, str) and content.strip():
            parts += [head.format(who=thread.user_id), content]
    return "\n\n".join(parts) + "\n"
