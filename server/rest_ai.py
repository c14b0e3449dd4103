"""REST of turns: ask, decide, answer a question, and preview the blocks of a message."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from graphrag.agent.events import Event, PendingQuestion, ProposalPending, QuestionAsked, ToolLimit
from graphrag.agent.thread_store import Thread, ThreadBusy
from graphrag.approvals import Approval, ApprovalNotFound, Approve, ApproveEdited, Decision, Reject
from graphrag.approvals.approval import MAX_FEEDBACK
from graphrag.commands import BlockSummary, SentBlock
from graphrag.i18n import Language
from server.bodies import MAX_MESSAGE, AnswerBody, Id, RequestBody
from server.channels.agui_interrupts import DecisionPayload
from server.channels.rest_answers import ChatAnswer
from server.error_schemas import ERRORS, MODEL_ERRORS
from server.http_turns import collect
from server.requests import EXCLUDE_NONE, InLanguage, Workspaces, state_of
from server.workspaces import WorkspaceContext
from server.ws_messages import AiChat, AiResume, CallerPhone, Features
from tools.proposals import to_document
from tools.session_tools import QUESTIONS

router = APIRouter(prefix="/api", tags=["conversations"], responses=ERRORS)

ContextType = Literal["graph", "nodeConfig", "htmlClass", "home"]


class ChatRequest(RequestBody):
    """A message of a person about a graph; without `threadId` a new conversation, with
    `agentId` one with that agent. With an empty `graphKey` and no agent it is about all
    graphs of the workspace.

    `interactive`: when the rounds of tools are used up, ask for more (`type: "tool_limit"`) in
    place of answering without tools. `features`: what else the client can show; `questions`: the
    model may ask (`type: "question"`). `callerPhone` (E.164): on whose behalf an editor writes,
    with the first message.
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
    """Answers a message about a graph. The answer may be a proposal that waits for a decision."""
    if body.thread_id is not None:
        place, _ = await workspaces.of_thread(body.thread_id)
    else:
        place = await workspaces.of_chat(body.graph_key, None, body.agent_id)
    return await _collected(request, place, body, language)


async def _collected(
    request: Request, place: WorkspaceContext, body: ChatRequest | ResumeRequest, language: Language
) -> ChatAnswer:
    state = state_of(request)
    state.limits.messages.spend(place.person.user_id)
    events = asked_turn(place, body, language=language, interactive=body.interactive)
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
    """Decides what a conversation waits for, and let it go on."""
    return await _collected(request, await workspaces.with_thread(body.thread_id), body, language)


def asked_turn(
    place: WorkspaceContext,
    asked: ChatRequest | ResumeRequest | AiChat | AiResume,
    *,
    language: Language,
    interactive: bool = True,
    new_key: str | None = None,
) -> AsyncGenerator[Event]:
    """Returns the events of a message, or of a decision of what a thread waits for: yes or no
    decides a proposal, grants more rounds of tools, or retries. `new_key`: of a new thread.

    Raises: as `Agent.run`, `Agent.resume`.
    """
    shown: dict[str, Any] = {
        "language": language,
        "interactive": interactive,
        "features": frozenset(asked.features),
    }
    if isinstance(asked, ResumeRequest | AiResume):
        return place.agent.resume(
            asked.thread_id,
            place.person,
            approval_id=asked.approval_id,
            answer=partial(_answer_of, place, asked),
            **shown,
        )
    return place.agent.run(
        asked.thread_id,
        asked.graph_key,
        asked.message,
        place.person,
        agent_id=asked.agent_id,
        caller_phone=asked.caller_phone,
        context_type=asked.context_type,
        blocks=asked.blocks,
        new_key=new_key,
        **shown,
    )


async def _answer_of(
    place: WorkspaceContext, asked: ResumeRequest | AiResume, thread: Thread
) -> tuple[Decision | None, bool | None]:
    """Returns the decision of a proposal, or whether more rounds of tools are granted; neither
    for a retry.
    """
    if thread.turn.status == "limit":
        return None, asked.approved
    if _is_retry(thread, asked) or await is_decided(place, thread, asked, asked.approval_id):
        return None, None
    return decision_of(asked.approved, asked.feedback, asked.edited_action), None


def _is_retry(thread: Thread, asked: ResumeRequest | AiResume) -> bool:
    """Returns True if a failed turn with nothing to decide is retried."""
    broken = thread.turn.status in ("failed", "running")
    return broken and asked.approved and asked.approval_id is None and not thread.turn.open


async def is_decided(
    place: WorkspaceContext,
    thread: Thread,
    asked: ResumeRequest | AiResume | DecisionPayload,
    named: str | None,
) -> bool:
    """Returns True if the same decision was made already, elsewhere or before the model failed: the
    thread then only continues.
    """
    if named is None or (named not in thread.turn.open.values() and thread.turn.status != "failed"):
        return False
    with suppress(ApprovalNotFound):
        approval = await place.services.approvals.get(named, place.person)
        return approval.thread_id == thread.key and decided_alike(approval, asked)
    return False


def decided_alike(approval: Approval, asked: ResumeRequest | AiResume | DecisionPayload) -> bool:
    """Returns True if an approval was decided as asked."""
    if approval.is_open or approval.status == ("rejected" if asked.approved else "applied"):
        return False
    if not asked.approved or asked.edited_action is None or approval.status != "applied":
        return True
    edited = approval.decision.action if approval.decision else None
    applied = to_document(approval.action if edited is None else edited)
    given = asked.edited_action.get("payload")
    return isinstance(given, dict) and given.items() <= applied["payload"].items()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


async def standing(
    place: WorkspaceContext, thread: Thread
) -> ProposalPending | QuestionAsked | ToolLimit | None:
    """Returns the event that a conversation waits with, as it was first sent; None if it does not
    wait.
    """
    turn = thread.turn
    if (asked := PendingQuestion.of(thread)) is not None:
        return QuestionAsked(thread_id=thread.key, text=turn.text, asked=asked)
    if turn.status == "limit":
        rounds = {"rounds_used": turn.rounds_used, "max_extended": place.agent.limits.max_rounds}
        return ToolLimit(thread_id=thread.key, text=turn.text, **rounds)
    if turn.status != "waiting":
        return None
    if (
        not turn.open and thread.user_id == place.person.user_id
    ):  # the editor's: not proposed here yet
        with suppress(ThreadBusy):
            turn = (await place.agent.propose_waiting(thread.key, place.person)).turn
    open_ids = set(turn.open.values())
    approvals = await place.services.approvals.list(thread_id=thread.key, by=place.person)
    waiting = [approval for approval in approvals if approval.id in open_ids and approval.is_open]
    waiting.sort(key=lambda approval: (approval.created, approval.id))
    if not waiting:
        return None
    return ProposalPending(thread_id=thread.key, text=turn.text, approvals=tuple(waiting))


def decision_of(
    approved: bool, feedback: str | None, edited_action: dict[str, Any] | None
) -> Decision:
    """Returns the decision of a request."""
    if not approved:
        return Reject(feedback or "")
    return (
        Approve(feedback or "")
        if edited_action is None
        else ApproveEdited(edited_action, feedback or "")
    )


class AnswerRequest(RequestBody):
    """The answer to a question: one of its `card`'s responses, or a text if it accepts one."""

    response: Annotated[str, Field(max_length=MAX_MESSAGE)] | bool
    interactive: bool = False


@router.post("/ai/thread/{thread_id}/answer", responses=MODEL_ERRORS, **EXCLUDE_NONE)
async def answer(
    request: Request,
    workspaces: Workspaces,
    language: InLanguage,
    thread_id: Id,
    body: AnswerRequest,
) -> ChatAnswer:
    """Answers the question that a conversation waits with, once, and let it go on."""
    place = await workspaces.with_thread(thread_id)
    state = state_of(request)
    state.limits.messages.spend(place.person.user_id)
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


class PreviewAnswer(AnswerBody):
    """`budget`: what the blocks of a message find together is cut to so many tokens."""

    blocks: list[BlockSummary]
    budget: int


@router.post("/enrichments/preview")
async def preview(
    workspaces: Workspaces, language: InLanguage, body: PreviewRequest
) -> PreviewAnswer:
    """Say what the blocks of a message are about, and how many tokens they find.
    Nothing is stored.
    """
    place = await workspaces.of_graph(body.graph_key)
    blocks = place.agent.blocks
    summaries = await blocks.preview(place.graph.key, body.blocks, place.person.role, language)
    return PreviewAnswer(blocks=summaries, budget=blocks.budget)
