"""REST of conversations: list, read, rename, end, delete, each as a file, and how its
answers came about.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BeforeValidator, Field, StringConstraints

from graphrag.agent.events import QuestionAsked
from graphrag.agent.thread_store import TITLE_CHARS, Thread, ThreadNotFound
from graphrag.i18n import Language
from server.bodies import AnswerBody, Id, RequestBody, Success
from server.channels.turn_documents import ending_document
from server.error_schemas import ERRORS
from server.requests import EXCLUDE_NONE, InLanguage, Workspaces
from server.rest_ai import ContextType, standing
from server.rest_sessions import said_and_notes
from server.thread_traces import Brief, ThreadTrace, Turn, thread_trace
from server.workspaces import WorkspaceContext, WorkspaceResolver
from tools.session_tools import QUESTIONS

router = APIRouter(prefix="/api/ai", tags=["conversations"], responses=ERRORS)


class AgentToolRun(AnswerBody):
    """A tool call of a conversation. `ok` is absent where it was interrupted and may have
    been carried out.

    Units: `ms`; `status` of HTTP.
    """

    tool_call_id: str
    name: str
    ok: bool | None = None
    ms: int = 0
    status: int | None = None


class ThreadAgentView(AnswerBody):
    """The agent of a conversation and what the conversation knows. Units: milliseconds since 1970.

    `flags` are what tools made true; `ctx` its other values.
    """

    agent_id: str
    version: int
    flags: dict[str, bool]
    ctx: dict[str, Any]
    caller_phone: str | None = None
    started_time: int
    last_message_time: int
    ended_time: int | None = None
    end_reason: str | None = None
    outcome: str | None = None
    tools: list[AgentToolRun]

    @classmethod
    def of(cls, thread: Thread) -> ThreadAgentView | None:
        """Returns what is shown of a thread's agent; None where it has none."""
        if (part := thread.agent) is None:
            return None
        values = {name: value for name, value in part.ctx.items() if name != "transcript"}
        flags = {name: value for name, value in values.items() if isinstance(value, bool)}
        rest = {name: value for name, value in values.items() if name not in flags}
        return cls.model_validate(part.model_dump() | {"flags": flags, "ctx": rest})


def _whole(value: Any) -> Any:
    """Returns 72 for 72.0, which are the same number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ThreadsRequest(RequestBody):
    graph_key: Id | None = None
    context_type: ContextType | None = None
    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_whole)] = 100


class ThreadSummary(AnswerBody):
    """Units: times in milliseconds since 1970, cost in US dollars; `total_cost` None: a
    part is unknown.
    `status`: where the last turn stands. `ended`: the conversation with its agent is over.
    """

    thread_id: str
    graph_key: str
    context_type: str | None = None
    title: str = ""
    total_tokens: int = 0
    total_cost: float | None = None
    provider: str | None = None
    model: str | None = None
    message_count: int = 0
    tool_call_count: int = 0
    created_time: int = 0
    last_updated_time: int = 0
    status: str = "idle"
    agent_id: str | None = None
    ended: bool = False


class ThreadList(AnswerBody):
    threads: list[ThreadSummary]


@router.post("/threads")
async def threads(workspaces: Workspaces, body: ThreadsRequest) -> ThreadList:
    """Lists the caller's own conversations, newest first."""
    listed: list[Thread] = []
    for place in await workspaces.all():
        stored = await place.services.threads.list(
            place.person, graph_key=body.graph_key, context_type=body.context_type, limit=body.limit
        )
        listed += [await place.effective_status(thread) for thread in stored]
    listed.sort(key=lambda thread: thread.last_updated_time, reverse=True)
    return ThreadList(
        threads=[ThreadSummary.model_validate(t.summary()) for t in listed[: body.limit]]
    )


class ThreadMessages(AnswerBody):
    """Messages in OpenAI's form; `status` says where the last turn stands.

    `notes` are those of the service between them, each `after` so many of the messages. `agent`: of
    a conversation with one.
    """

    thread_id: str
    conversation_history: list[dict[str, Any]]
    notes: list[dict[str, Any]]
    pending_interrupt: dict[str, Any] | None = None
    status: str = "idle"
    agent: ThreadAgentView | None = None


_FEATURES = "What the client can show; `questions`: also a question that waits."
# In an address a list with one word is the word itself.
_SOME_WORDS = {
    "anyOf": [{"type": "array", "items": {"type": "string"}, "maxItems": 20}, {"type": "string"}]
}


@router.get("/thread/{thread_id}/messages", **EXCLUDE_NONE)
async def messages(
    workspaces: Workspaces,
    thread_id: Id,
    language: InLanguage,
    features: Annotated[
        list[str] | None, Query(max_length=20, description=_FEATURES, json_schema_extra=_SOME_WORDS)
    ] = None,
) -> ThreadMessages:
    """Returns a conversation with what it waits for."""
    place, thread = await workspaces.of_thread(thread_id)
    thread = await place.effective_status(thread)
    history, notes = said_and_notes(thread)
    return ThreadMessages(
        thread_id=thread.key,
        conversation_history=history,
        notes=notes,
        pending_interrupt=await _pending(
            place, thread, language, asks=QUESTIONS in (features or ())
        ),
        status=thread.turn.status,
        agent=ThreadAgentView.of(thread),
    )


@router.post("/thread/{thread_id}/end", **EXCLUDE_NONE)
async def end(workspaces: Workspaces, thread_id: Id) -> ThreadAgentView:
    """Ends a conversation with an agent; its turn is stopped first. Returns its final values."""
    place, _ = await workspaces.of_thread(thread_id)
    endings = place.services.life.endings
    shown = ThreadAgentView.of(await endings.end_by_person(thread_id, place.person))
    assert shown is not None
    return shown


async def _pending(
    place: WorkspaceContext, thread: Thread, language: Language, *, asks: bool
) -> dict[str, Any] | None:
    """Returns what the conversation waits for, as it was first sent. A question only if `asks`."""
    waits = await standing(place, thread)
    if waits is None or (isinstance(waits, QuestionAsked) and not asks):
        return None
    # `message` comes first, as clients have always received it.
    return {"message": waits.text, **ending_document(waits, language)}


@router.get("/thread/{thread_id}/trace")
async def trace(
    workspaces: Workspaces, thread_id: Id, turn: Turn = None, brief: Brief = False
) -> ThreadTrace:
    """Returns how the answers of a conversation came about. For its owner, and admins."""
    place = await _place_of(workspaces, thread_id)
    return await thread_trace(place, thread_id, turn=turn, brief=brief)


async def _place_of(workspaces: WorkspaceResolver, thread_id: str) -> WorkspaceContext:
    """Returns the workspace of a thread of the person, or for an admin of any person. Raises:
    ThreadNotFound.
    """
    for place in await workspaces.all():
        person = place.person
        if person.at_least("admin"):
            with suppress(ThreadNotFound):
                await place.services.threads.get_of(thread_id, person.workspace)
                return place
    return (await workspaces.of_thread(thread_id))[0]


@router.delete("/thread/{thread_id}")
async def delete(workspaces: Workspaces, thread_id: Id) -> Success:
    """Deletes a conversation; one with an agent ends first. Its proposals still wait for
    decisions.
    """
    place, _ = await workspaces.of_thread(thread_id)
    await place.services.life.endings.forget(thread_id, place.person)
    return Success()


_KINDS = {"markdown": ("text/markdown; charset=utf-8", "md"), "json": ("application/json", "json")}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind.partition(";")[0]: {} for kind, _ in _KINDS.values()}}
}
_SAID_BY = {"user": "## {who}", "assistant": "## Nodius"}


class RenameRequest(RequestBody):
    title: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=TITLE_CHARS)
    ]


@router.patch("/thread/{thread_id}")
async def rename(workspaces: Workspaces, thread_id: Id, body: RenameRequest) -> ThreadSummary:
    """Gives a conversation another title. While it is being answered it cannot be renamed."""
    place, _ = await workspaces.of_thread(thread_id)
    async with place.agent.leases.held(thread_id):  # nobody writes it meanwhile
        thread = await place.services.threads.rename(thread_id, place.person, body.title)
    return ThreadSummary.model_validate(thread.summary())


@router.get("/thread/{thread_id}/export", response_model=None, responses=_FILE)
async def export(
    workspaces: Workspaces,
    thread_id: Id,
    format: Annotated[
        Literal["markdown", "json"], Query(description="To read, or all of it.")
    ] = "markdown",
) -> Response:
    """Returns a conversation as a file: what both said, or the messages as they are stored."""
    _, thread = await workspaces.of_thread(thread_id)
    kind, suffix = _KINDS[format]
    whole = {**thread.summary(), "messages": thread.conversation_history}
    text = _markdown(thread) if format == "markdown" else json.dumps(whole, ensure_ascii=False)
    headers = {
        "Content-Disposition": f'attachment; filename="conversation-{thread.key[:12]}.{suffix}"'
    }
    return Response(text.encode("utf-8", "replace"), media_type=kind, headers=headers)


def _markdown(thread: Thread) -> str:
    parts = [f"# {thread.title or thread.key}"]
    for message in thread.conversation_history:
        document = cast(dict[str, Any], message if isinstance(message, dict) else {})
        head = _SAID_BY.get(str(document.get("role")))
        content = document.get("content")
        if head and isinstance(content, str) and content.strip():
            parts += [head.format(who=thread.user_id), content]
    return "\n\n".join(parts) + "\n"
