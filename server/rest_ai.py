"""REST of conversations: ask, decide, list, read, delete. The paths and bodies are Nodius's."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request

from graphrag.agent.thread_store import Thread
from graphrag.client.documents import (
    ChatAnswer,
    ChatRequest,
    Id,
    ResumeRequest,
    Success,
    ThreadList,
    ThreadMessages,
    ThreadsRequest,
    ThreadSummary,
)
from graphrag.i18n import Language
from server.auth import Caller
from server.collecting import collect
from server.error_responses import language_of
from server.examples import CHATS, RESUMES
from server.openapi_errors import ERRORS, MODEL_ERRORS
from server.requests import Workspace, places_of, state_of
from server.resuming import resumed
from server.workspaces import WorkspaceContext, WorkspaceResolver
from server.ws_events import interrupt_document

router = APIRouter(prefix="/api/ai", tags=["conversations"], responses=ERRORS)
ANSWER: dict[str, Any] = {"response_model": ChatAnswer, "response_model_exclude_none": True}


@router.post("/chat", responses=MODEL_ERRORS, **ANSWER)
async def chat(
    request: Request,
    who: Caller,
    asked: Annotated[ChatRequest, Body(openapi_examples=CHATS)],
    workspace: Workspace = None,
) -> ChatAnswer:
    """Answer a message about a graph. The answer may be a proposal that waits for a decision."""
    state = state_of(request)
    places = places_of(request, who, workspace)
    place = await _where(places, asked)
    state.limiter.spend(who.user_id)
    events = place.agent.run(
        asked.thread_id,
        asked.graph_key,
        asked.message,
        place.person,
        context_type=asked.context_type,
        language=language_of(request),
        interactive=asked.interactive,
    )
    return await collect(state, request, events)


async def _where(places: WorkspaceResolver, asked: ChatRequest) -> WorkspaceContext:
    if asked.thread_id is not None:
        return (await places.of_thread(asked.thread_id))[0]
    return (await places.of_graph(asked.graph_key))[0]


@router.post("/resume", responses=MODEL_ERRORS, **ANSWER)
async def resume(
    request: Request,
    who: Caller,
    asked: Annotated[ResumeRequest, Body(openapi_examples=RESUMES)],
    workspace: Workspace = None,
) -> ChatAnswer:
    """Decide what a conversation waits for, and let it go on."""
    state = state_of(request)
    place, thread = await places_of(request, who, workspace).of_thread(asked.thread_id)
    state.limiter.spend(who.user_id)
    events = resumed(place, thread, asked, language=language_of(request), interactive=asked.interactive)
    return await collect(state, request, events)


@router.post("/threads", response_model=ThreadList)
async def threads(
    request: Request, who: Caller, asked: ThreadsRequest, workspace: Workspace = None
) -> ThreadList:
    """List the caller's own conversations, newest first."""
    found: list[Thread] = []
    for place in await places_of(request, who, workspace).all():
        stored = await place.services.threads.list(
            place.person, graph_key=asked.graph_key, context_type=asked.context_type, limit=asked.limit
        )
        found += [await place.effective_status(thread) for thread in stored]
    found.sort(key=lambda thread: thread.last_updated_time, reverse=True)
    return ThreadList(threads=[ThreadSummary.model_validate(t.summary()) for t in found[: asked.limit]])


@router.get("/thread/{thread_id}/messages", response_model=ThreadMessages, response_model_exclude_none=True)
async def messages(
    request: Request, who: Caller, thread_id: Id, workspace: Workspace = None
) -> ThreadMessages:
    """Return a conversation with what it waits for."""
    place, thread = await places_of(request, who, workspace).of_thread(thread_id)
    thread = await place.effective_status(thread)
    return ThreadMessages(
        thread_id=thread.key,
        conversation_history=thread.conversation_history,
        pending_interrupt=await _pending(place, thread, language_of(request)),
        status=thread.turn.status,
    )


async def _pending(place: WorkspaceContext, thread: Thread, language: Language) -> dict[str, Any] | None:
    """Return what waits as it was first sent, as long as it waits."""
    if thread.turn.status == "limit":
        return {
            "type": "tool_limit",
            "message": thread.turn.text,
            "roundsUsed": thread.turn.rounds_used,
            "maxExtended": place.agent.limits.max_rounds,
        }
    if thread.turn.status != "waiting":
        return None
    known = set(thread.turn.open.values())
    found = await place.services.approvals.list(thread_id=thread.key, by=place.person)
    waiting = [a for a in found if a.id in known and a.is_open]
    waiting.sort(key=lambda approval: (approval.created, approval.id))
    return interrupt_document(thread.turn.text, waiting, language) if waiting else None


@router.delete("/thread/{thread_id}", response_model=Success)
async def delete(request: Request, who: Caller, thread_id: Id, workspace: Workspace = None) -> Success:
    """Forget a conversation. What it proposed stays to be decided."""
    place, _ = await places_of(request, who, workspace).of_thread(thread_id)
    await place.services.threads.delete(thread_id, place.person)
    return Success()
