"""REST of conversations: ask, decide, list, read, delete. The paths and bodies are Nodius's."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator, Field

from graphrag.agent.events import QuestionAsked
from graphrag.agent.thread_messages import is_note
from graphrag.agent.thread_store import Thread, ThreadNotFound
from graphrag.approvals.approval import MAX_FEEDBACK
from graphrag.commands import SentBlock
from graphrag.i18n import Language
from server.chat_answer import ChatAnswer, collect, waiting_part
from server.openapi_errors import ERRORS, MODEL_ERRORS
from server.requests import (
    EXCLUDE_NONE,
    AnswerBody,
    Id,
    InLanguage,
    RequestBody,
    Success,
    Workspaces,
    state_of,
)
from server.resuming import resumed, standing
from server.thread_agent_view import ThreadAgentView
from server.workspaces import WorkspaceContext, WorkspaceResolver
from server.ws_messages import CallerPhone, Features
from tools.session_tools import QUESTIONS

router = APIRouter(prefix="/api/ai", tags=["conversations"], responses=ERRORS)

ContextType = Literal["graph", "nodeConfig", "htmlClass", "home"]
MAX_MESSAGE = 100_000


class ChatRequest(RequestBody):
    """A message of a person about a graph; without `threadId` a new conversation, with `agentId` one with
    that agent. With an empty `graphKey` and no agent it is about all graphs of the workspace.

    `interactive`: when the rounds of tools are used up, ask for more (`type: "tool_limit"`) in place of
    answering without tools. `features`: what else the client can show; `questions`: the model may ask
    (`type: "question"`). `callerPhone` (E.164): on whose behalf an editor writes, with the first message.
    """

    thread_id: Id | None = None
    agent_id: Id | None = None
    caller_phone: CallerPhone | None = None
    graph_key: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
    message: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE, pattern=r"\S")]
    context_type: ContextType | None = None
    interactive: bool = False
    blocks: list[SentBlock] = Field(default_factory=list[SentBlock])
    features: Features


@router.post("/chat", responses=MODEL_ERRORS, **EXCLUDE_NONE)
async def chat(
    request: Request, workspaces: Workspaces, language: InLanguage, body: ChatRequest
) -> ChatAnswer:
    """Answer a message about a graph. The answer may be a proposal that waits for a decision."""
    if body.thread_id is not None:
        place, _ = await workspaces.of_thread(body.thread_id)
    else:
        place = await workspaces.of_chat(body.graph_key, None, body.agent_id)
    state = state_of(request)
    state.limiter.spend(place.person.user_id)
    events = place.agent.run(
        body.thread_id,
        body.graph_key,
        body.message,
        place.person,
        agent_id=body.agent_id,
        caller_phone=body.caller_phone,
        context_type=body.context_type,
        language=language,
        interactive=body.interactive,
        blocks=body.blocks,
        features=frozenset(body.features),
    )
    return await collect(state, request, events)


class ResumeRequest(RequestBody):
    """A decision of what a conversation waits for; without `approvalId` of its oldest proposal.

    `interactive`, `features`: as in a chat request.
    """

    thread_id: Id
    approved: bool
    feedback: Annotated[str, Field(max_length=MAX_FEEDBACK)] | None = None
    approval_id: Id | None = None
    edited_action: dict[str, Any] | None = None
    interactive: bool = False
    features: Features


@router.post("/resume", responses=MODEL_ERRORS, **EXCLUDE_NONE)
async def resume(
    request: Request, workspaces: Workspaces, language: InLanguage, body: ResumeRequest
) -> ChatAnswer:
    """Decide what a conversation waits for, and let it go on."""
    place = await workspaces.with_thread(body.thread_id)
    state = state_of(request)
    state.limiter.spend(place.person.user_id)
    features = frozenset(body.features)
    events = resumed(place, body, language=language, interactive=body.interactive, features=features)
    return await collect(state, request, events)


class AnswerRequest(RequestBody):
    """The answer to a question: one of its `card`'s responses, or a text where it takes one."""

    response: Annotated[str, Field(max_length=MAX_MESSAGE)] | bool
    interactive: bool = False


@router.post("/thread/{thread_id}/answer", responses=MODEL_ERRORS, **EXCLUDE_NONE)
async def answer(
    request: Request, workspaces: Workspaces, language: InLanguage, thread_id: Id, body: AnswerRequest
) -> ChatAnswer:
    """Answer the question that a conversation waits with, once, and let it go on."""
    place = await workspaces.with_thread(thread_id)
    state = state_of(request)
    state.limiter.spend(place.person.user_id)
    events = place.agent.resume(
        thread_id,
        place.person,
        response=body.response,
        language=language,
        interactive=body.interactive,
        features=frozenset({QUESTIONS}),
    )
    return await collect(state, request, events)


def _whole(value: Any) -> Any:
    """Return 72 for 72.0: to JSON they are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ThreadsRequest(RequestBody):
    graph_key: Id | None = None
    context_type: ContextType | None = None
    limit: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_whole)] = 100


class ThreadSummary(AnswerBody):
    """Units: times in milliseconds since 1970, cost in US dollars. `status`: where the last turn stands.
    `ended`: the conversation with its agent is over."""

    thread_id: str
    graph_key: str
    context_type: str | None = None
    title: str = ""
    total_tokens: int = 0
    total_cost: float = 0.0
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
    """List the caller's own conversations, newest first."""
    found: list[Thread] = []
    for place in await workspaces.all():
        stored = await place.services.threads.list(
            place.person, graph_key=body.graph_key, context_type=body.context_type, limit=body.limit
        )
        found += [await place.effective_status(thread) for thread in stored]
    found.sort(key=lambda thread: thread.last_updated_time, reverse=True)
    return ThreadList(threads=[ThreadSummary.model_validate(t.summary()) for t in found[: body.limit]])


class ThreadMessages(AnswerBody):
    """Messages in OpenAI's form; `status` says where the last turn stands.

    `notes` are those of the service between them, each `after` so many of the messages. `agent`: of a
    conversation with one.
    """

    thread_id: str
    conversation_history: list[dict[str, Any]]
    notes: list[dict[str, Any]]
    pending_interrupt: dict[str, Any] | None = None
    status: str = "idle"
    agent: ThreadAgentView | None = None


_FEATURES = "What the client can show; `questions`: also a question that waits."
_SOME_WORDS = {"anyOf": [{"type": "array", "items": {"type": "string"}, "maxItems": 20}, {"type": "string"}]}
"""In an address a list of one word is that word."""


@router.get("/thread/{thread_id}/messages", **EXCLUDE_NONE)
async def messages(
    workspaces: Workspaces,
    thread_id: Id,
    language: InLanguage,
    features: Annotated[
        list[str] | None, Query(max_length=20, description=_FEATURES, json_schema_extra=_SOME_WORDS)
    ] = None,
) -> ThreadMessages:
    """Return a conversation with what it waits for."""
    place, thread = await workspaces.of_thread(thread_id)
    thread = await place.effective_status(thread)
    said: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for message in thread.conversation_history:
        if is_note(message):
            notes.append({**message, "after": len(said)})
        else:
            said.append(message)
    return ThreadMessages(
        thread_id=thread.key,
        conversation_history=said,
        notes=notes,
        pending_interrupt=await _pending(place, thread, language, asks=QUESTIONS in (features or ())),
        status=thread.turn.status,
        agent=ThreadAgentView.of(thread),
    )


@router.post("/thread/{thread_id}/end", **EXCLUDE_NONE)
async def end(workspaces: Workspaces, thread_id: Id) -> ThreadAgentView:
    """End a conversation with an agent; a turn of it is stopped first. Return what it knew at its end."""
    place, _ = await workspaces.of_thread(thread_id)
    shown = ThreadAgentView.of(await place.agent.end(thread_id, place.person))
    assert shown is not None
    return shown


async def _pending(
    place: WorkspaceContext, thread: Thread, language: Language, *, asks: bool
) -> dict[str, Any] | None:
    """Return what waits as it was first sent, as long as it waits; a question to who `asks` for it."""
    waits = await standing(place, thread)
    if waits is None or (isinstance(waits, QuestionAsked) and not asks):
        return None
    return {"message": waits.text, **waiting_part(waits, language)}


class TraceSpan(AnswerBody):
    """What was done: `invoke_agent`, `retrieval`, `embeddings`, `chat` or `execute_tool`, with its facts.

    Units: `start` in milliseconds since 1970, `ms` in milliseconds.
    """

    operation: str
    name: str
    start: int
    ms: float
    failed: bool = False
    attributes: dict[str, Any]


class TurnTraced(AnswerBody):
    """How one answer came about. `context`: what the model was sent first, `{role, text, chars}`, long texts
    cut. Units: `time` in milliseconds since 1970."""

    turn: int
    time: int
    spans: list[TraceSpan]
    context: list[dict[str, Any]]


class ThreadTrace(AnswerBody):
    thread_id: str
    turns: list[TurnTraced]


@router.get("/thread/{thread_id}/trace")
async def trace(workspaces: Workspaces, thread_id: Id) -> ThreadTrace:
    """Return how the answers of a conversation came about. For whose it is, and for admins."""
    place = await _place_of(workspaces, thread_id)
    turns = await place.services.traces.of_thread(thread_id)
    return ThreadTrace(thread_id=thread_id, turns=[TurnTraced.model_validate(turn) for turn in turns])


async def _place_of(workspaces: WorkspaceResolver, thread_id: str) -> WorkspaceContext:
    """Return the workspace of a person's own thread, or for an admin of anybody's. Raises: ThreadNotFound."""
    for place in await workspaces.all():
        person = place.person
        if person.at_least("admin"):
            with suppress(ThreadNotFound):
                await place.services.threads.get_of(thread_id, person.workspace)
                return place
    return (await workspaces.of_thread(thread_id))[0]


@router.delete("/thread/{thread_id}")
async def delete(workspaces: Workspaces, thread_id: Id) -> Success:
    """Forget a conversation; one with an agent ends first. What it proposed stays to be decided."""
    place, _ = await workspaces.of_thread(thread_id)
    await place.services.life.endings.forget(thread_id, place.person)
    return Success()
