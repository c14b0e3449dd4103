"""REST of turns: ask, decide, answer a question, and what the blocks of a message weigh before it is sent."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from graphrag.approvals.approval import MAX_FEEDBACK
from graphrag.commands import SentBlock
from server.chat_answer import ChatAnswer, collect
from server.error_responses import ERRORS, MODEL_ERRORS
from server.requests import EXCLUDE_NONE, AnswerBody, Id, InLanguage, RequestBody, Workspaces, state_of
from server.resuming import resumed
from server.ws_messages import CallerPhone, Features
from tools.session_tools import QUESTIONS

router = APIRouter(prefix="/api", tags=["conversations"], responses=ERRORS)

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


@router.post("/ai/chat", responses=MODEL_ERRORS, **EXCLUDE_NONE)
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


@router.post("/ai/resume", responses=MODEL_ERRORS, **EXCLUDE_NONE)
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


@router.post("/ai/thread/{thread_id}/answer", responses=MODEL_ERRORS, **EXCLUDE_NONE)
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


class PreviewRequest(RequestBody):
    """The blocks of a message about a graph."""

    graph_key: Id
    blocks: list[SentBlock]


class BlockSummary(AnswerBody):
    """A block in one line. Units: `tokens` of what it finds now, by itself."""

    id: str
    summary: str
    tokens: int


class PreviewAnswer(AnswerBody):
    """`budget`: what the blocks of a message find together is cut to so many tokens."""

    blocks: list[BlockSummary]
    budget: int


@router.post("/enrichments/preview")
async def preview(workspaces: Workspaces, language: InLanguage, body: PreviewRequest) -> PreviewAnswer:
    """Say what the blocks of a message are about, and how many tokens they find. Nothing is stored."""
    place, graph = await workspaces.of_graph(body.graph_key)
    blocks = place.agent.blocks
    found = await blocks.preview(graph.key, body.blocks, place.person.role, language)
    made = [BlockSummary.model_validate(one) for one in found]
    return PreviewAnswer(blocks=made, budget=blocks.budget)
