"""The events of a turn as the one answer of the REST API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from graphrag.agent.events import (
    ActionApplied,
    Ending,
    Event,
    Failed,
    ToolFinished,
    TurnStarted,
    UsageReported,
)
from graphrag.agent.reply import sources_of
from graphrag.i18n import Language
from server.bodies import AnswerBody
from server.channels.turn_documents import context_document, ending_document, tokens_document
from server.errors import TurnBroken
from tools.arguments import read_object


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


def chat_answer(events: Sequence[Event], language: Language) -> ChatAnswer:
    """Returns the answer to a turn with these events. Raises: TurnBroken for one that failed."""
    ending = events[-1]
    started = next((event for event in events if isinstance(event, TurnStarted)), None)
    if isinstance(ending, Failed):
        raise TurnBroken(thread_id=ending.thread_id, fault=ending.fault)
    if not isinstance(ending, Ending):
        raise RuntimeError("a turn ended without its last event")  # noqa: TRY004 - no fault of a caller
    usage = tokens_document([event for event in events if isinstance(event, UsageReported)])
    return ChatAnswer.model_validate(
        {
            "threadId": ending.thread_id,
            "toolCalls": [_call(event) for event in events if isinstance(event, ToolFinished)],
            "usage": usage,
            "applied": [_applied(event) for event in events if isinstance(event, ActionApplied)],
            "context": context_document(started) if started else [],
            "wordsOnly": True if started and started.words_only else None,
            "sources": sources_of(ending.text) or None,
            **ending_document(ending, language),
        }
    )


def _call(event: ToolFinished) -> ToolCallMade:
    return ToolCallMade(
        name=event.name,
        args=_args(event.arguments),
        result=event.result_text,
        error=event.is_error,
    )


def _args(written: str) -> dict[str, Any] | str:
    """Returns the arguments as an object, or the text of the model if it is none."""
    arguments = read_object(written or "{}")
    return written if arguments is None else arguments


def _applied(event: ActionApplied) -> AppliedChange:
    result = event.approval.result
    return AppliedChange(
        approval_id=event.approval.id,
        revision=result.revision if result else None,
        keys=result.keys if result else {},
    )
