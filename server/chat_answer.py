"""The REST answer to a turn: collects the events into one body; stops the turn when
the client goes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, Literal, TypeVar

from fastapi import Request
from pydantic import Field

from graphrag.agent.events import (
    ActionApplied,
    Completed,
    Ending,
    Event,
    Failed,
    ProposalPending,
    QuestionAsked,
    ToolFinished,
    ToolLimit,
    TurnStarted,
    UsageReported,
)
from graphrag.agent.reply import sources_of
from graphrag.i18n import Language
from graphrag.workers import end_tasks
from server.bodies import AnswerBody
from server.errors import TurnBroken, TurnStopped
from server.request_language import language_of
from server.server_state import ServerState
from server.ws_events import interrupt_document
from tools.arguments import read_object

T = TypeVar("T")


class ToolCallMade(AnswerBody):
    name: str
    args: dict[str, Any] | str
    result: str
    error: bool = False


class ToolCallAsked(AnswerBody):
    id: str
    name: str
    args: dict[str, Any]


class ReviewWords(AnswerBody):
    """What a proposal does in a person's words, whole and by its actions; what to
    know before deciding.

    `asked` names the levels and classes that want a person, as `graph: delete; session`. A part
    that creates a node has `does` where the node's data say what it does.
    """

    title: str = ""
    parts: list[dict[str, str]] = Field(default_factory=list[dict[str, str]])
    asked: str = ""
    warnings: list[str] = Field(default_factory=list[str])
    needs_person: bool = True
    by_policy: bool = False


class ApprovalWaiting(ReviewWords):
    """Units: `expiresAt` in milliseconds since 1970."""

    id: str
    tool_call_id: str
    action: dict[str, Any]
    preview: dict[str, Any]
    reason: str = ""
    depends_on: list[str] = Field(default_factory=list[str])
    expires_at: int


class AppliedChange(AnswerBody):
    """A change that was carried out in this turn, and the graph's revision after it."""

    approval_id: str
    revision: int | None = None
    keys: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])


class TokensUsed(AnswerBody):
    """Units: tokens; `cost` in US dollars, absent where nobody knows the price."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cost: float | None = None


class ContextNode(AnswerBody):
    """A node that the model was shown for the message, and why: `text`, `vector`, `near`, …"""

    node_key: str
    reasons: list[str] = Field(default_factory=list[str])


class ConversationEnd(AnswerBody):
    """Why a conversation with an agent ended, and the outcome by its document's rules."""

    reason: str
    outcome: str | None = None


class ClaimsNotInGraph(AnswerBody):
    """What an answer claims that the graph does not have: names of nodes, and from where to where
    edges would lead. `note` says it to people.
    """

    nodes: list[str]
    edges: list[tuple[str, str]]
    note: str


class ChatAnswer(AnswerBody):
    """How a turn ended: with an answer, with proposals that wait, at the limit of tool rounds (if
    it is `interactive`), or with a question (to a client with the feature `questions`).

    `context` is what the model was shown of the graph, most relevant first; `words_only`: the
    embedding service failed, so it was found by its words alone. `sources`: keys of the nodes
    that the answer names (`nodes`), of a way in it (`path`) and of what lies behind one
    (`behind`, of which `runs` and `stops` say what runs and what does not where it fails).
    `module` is a question's kind and fields, `card` what to show of it. `ended`: the agent ended
    the conversation with this answer. `notInGraph`: absent where nothing that the answer surely
    claims is missing in the graph.
    """

    thread_id: str
    type: Literal["message", "interrupt", "tool_limit", "question"]
    message: str
    tool_calls: list[ToolCallMade] = Field(default_factory=list[ToolCallMade])
    usage: TokensUsed = TokensUsed()
    applied: list[AppliedChange] = Field(default_factory=list[AppliedChange])
    context: list[ContextNode] = Field(default_factory=list[ContextNode])
    words_only: bool | None = None
    sources: dict[str, list[str]] | None = None
    proposed_action: dict[str, Any] | None = None
    tool_call: ToolCallAsked | None = None
    code_diffs: list[dict[str, Any]] | None = None
    approvals: list[ApprovalWaiting] | None = None
    rounds_used: int | None = None
    max_extended: int | None = None
    call_id: str | None = None
    module: dict[str, Any] | None = None
    card: dict[str, Any] | None = None
    ended: ConversationEnd | None = None
    not_in_graph: ClaimsNotInGraph | None = None


async def collect(
    state: ServerState, request: Request, events: AsyncGenerator[Event]
) -> ChatAnswer:
    """Return how a turn ended. When the client goes away it is stopped and stored.

    Raises: TurnBroken, TurnStopped, and what the generator raises before its first event.
    """
    return _answer(await until_gone(request, _gathered(state, events)), language_of(request))


async def until_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return what some work returns; when the client goes away it is
    cancelled. Raises: TurnStopped.
    """
    turn = asyncio.create_task(work)
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({turn, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not turn.done():
            turn.cancel()
        return await turn
    except asyncio.CancelledError as exc:  # the request is over either way, and that is no fault
        raise TurnStopped from exc
    finally:
        await end_tasks(turn, gone)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _gathered(state: ServerState, events: AsyncGenerator[Event]) -> list[Event]:
    async with aclosing(metered(state, events)) as stream:
        return [event async for event in stream]


async def metered(state: ServerState, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """Yield the events of a turn, counted."""
    began = time.perf_counter()
    state.monitoring.metrics.turn_began()
    try:
        async with aclosing(events) as stream:
            async for event in stream:
                state.monitoring.metrics.event(event)
                yield event
    finally:
        state.monitoring.metrics.turn_ended(time.perf_counter() - began)


def _answer(events: list[Event], language: Language) -> ChatAnswer:
    ending = events[-1]
    started = next((event for event in events if isinstance(event, TurnStarted)), None)
    if isinstance(ending, Failed):
        raise TurnBroken(thread_id=ending.thread_id, fault=ending.fault)
    if not isinstance(ending, Ending):
        raise RuntimeError("a turn ended without its last event")  # noqa: TRY004 - no fault of a caller
    retrieved = started.retrieved if started else ()
    return ChatAnswer.model_validate(
        {
            "threadId": ending.thread_id,
            "type": "message",
            "message": ending.text,
            "toolCalls": _calls(events),
            "usage": _usage(events),
            "applied": [_applied(event) for event in events if isinstance(event, ActionApplied)],
            "context": [
                ContextNode(
                    node_key=key, reasons=list(started.reasons.get(key, ()) if started else ())
                )
                for key in retrieved
            ],
            "wordsOnly": True if started and started.words_only else None,
            "sources": sources_of(ending.text) or None,
            **waiting_part(ending, language),
        }
    )


def waiting_part(ending: Ending, language: Language) -> dict[str, Any]:
    """Return what an answer says of what a turn waits for, or of the end of the conversation."""
    if isinstance(ending, ProposalPending):
        return interrupt_document(ending.text, ending.approvals, language)
    if isinstance(ending, ToolLimit):
        return {
            "type": "tool_limit",
            "roundsUsed": ending.rounds_used,
            "maxExtended": ending.max_extended,
        }
    if isinstance(ending, QuestionAsked):
        return ending.asked.shown(ending.text)
    if isinstance(ending, Completed):
        ended = {"reason": ending.end_reason, "outcome": ending.outcome}
        return {"ended": ended if ending.end_reason else None, "notInGraph": ending.not_in_graph}
    return {}


def _calls(events: list[Event]) -> list[ToolCallMade]:
    return [
        ToolCallMade(
            name=event.name,
            args=_args(event.arguments),
            result=event.result_text,
            error=event.is_error,
        )
        for event in events
        if isinstance(event, ToolFinished)
    ]


def _args(written: str) -> dict[str, Any] | str:
    """Return the arguments as an object, or as the text that a model wrote in its place."""
    found = read_object(written or "{}")
    return written if found is None else found


def _usage(events: list[Event]) -> TokensUsed:
    used = [event for event in events if isinstance(event, UsageReported)]
    prompt = sum(u.prompt for u in used)
    completion = sum(u.completion for u in used)
    costs = [u.cost_usd for u in used]
    known = [cost for cost in costs if cost is not None]
    return TokensUsed(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        cost=sum(known) if len(known) == len(costs) else None,
    )


def _applied(event: ActionApplied) -> AppliedChange:
    result = event.approval.result
    return AppliedChange(
        approval_id=event.approval.id,
        revision=result.revision if result else None,
        keys=result.keys if result else {},
    )
