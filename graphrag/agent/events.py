"""The events of a turn, which every channel (command line, HTTP, WebSocket) forwards or collects.

A turn begins with `TurnStarted` and ends with exactly one of `Completed`, `ProposalPending`,
`ToolLimit`, `QuestionAsked` or `Failed`. After `ProposalPending`, `ToolLimit` and `QuestionAsked`
the thread waits for `resume`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from pydantic import ValidationError

from graphrag.agent.history import unanswered
from graphrag.agent.thread_store import Thread, ThreadError
from graphrag.approvals import Approval
from graphrag.errors import describe
from graphrag.i18n import LANGUAGES, Language, text
from graphrag.llm.base import Message, PromptRead, ToolCall, ToolMessage, UsageReport
from graphrag.llm.errors import ModelError, without_secrets
from tools.session_tools import ASK_PERSON, AskPerson, Response
from tools.toon import compact_json

_OF_SOURCES = ("busy", "not_found", "forbidden", "invalid", "conflict", "stale")
_OF_MODELS = (
    *("auth_error", "no_credit", "rate_limit", "usage_limit", "server_error", "timeout", "network"),
    *("content_filter", "context_length", "request_refused"),
)
FAULT_CODES = frozenset({*_OF_SOURCES, *_OF_MODELS, "internal"})
"""The codes that a client of conversations knows; any other is sent as `internal`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFault:
    """Why a turn broke off.

    `messages` are whole sentences for a person; they hold neither keys nor code nor traces.
    `details` is what the provider itself said, without secrets.
    """

    code: str
    retryable: bool
    messages: Mapping[Language, str]
    retry_after_s: float | None = None
    details: str = ""

    def message(self, language: Language) -> str:
        return self.messages[language]


def classify(exc: BaseException) -> TurnFault:
    """Return what a failure means. One that nobody foresaw is `internal`, and its text
    is kept back.
    """
    found = {name: describe(exc, name) for name in LANGUAGES} if isinstance(exc, Exception) else {}
    described = {name: one for name, one in found.items() if one is not None}
    if not described:
        is_lost = isinstance(exc, ConnectionError)
        code = "timeout" if isinstance(exc, TimeoutError) else "network" if is_lost else "internal"
        messages = {name: text(code, name) for name in LANGUAGES}
        return TurnFault(code=code, retryable=code != "internal", messages=messages)
    english = described["en"]
    code = "network" if english.code == "unavailable" else english.code
    return TurnFault(
        code=code if code in FAULT_CODES else "internal",
        retryable=english.retryable,
        messages={name: without_secrets(one.message) for name, one in described.items()},
        retry_after_s=exc.retry_after_s if isinstance(exc, ModelError) else None,
        details=without_secrets(english.details) if isinstance(exc, ModelError) else "",
    )


class NoQuestion(ThreadError):
    """Facts: `thread_id`."""


class AlreadyAnswered(ThreadError):
    """`answer` is what stands: what a person answered, or that they wrote something else."""

    def __init__(self, *, thread_id: str, answer: str) -> None:
        super().__init__(thread_id=thread_id, answer=answer[:300])


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuestion:
    """A question and the call that asked it."""

    call_id: str
    question: AskPerson

    @classmethod
    def of(cls, thread: Thread) -> PendingQuestion | None:
        """Return what a thread asks a person; None where it waits for nothing, or
        for something else.
        """
        stored = thread.pending_interrupt
        if thread.turn.status != "waiting" or not isinstance(stored, Mapping):
            return None
        waiting = cast(Mapping[str, Any], stored)
        if waiting.get("type") != "question":
            return None
        try:
            question = AskPerson.model_validate(waiting.get("module"))
        except ValidationError:  # of another version: a message closes it
            return None
        return cls(call_id=str(waiting.get("callId")), question=question)

    @property
    def call(self) -> ToolCall:
        arguments = compact_json(self.question.document)
        return ToolCall(id=self.call_id, name=ASK_PERSON.name, arguments=arguments)

    def stored(self) -> dict[str, Any]:
        """Return it as the thread keeps it."""
        return {"type": "question", "module": self.question.document, "callId": self.call_id}

    def shown(self, text: str) -> dict[str, Any]:
        """Return what a client shows; `card` serves one that does not know the kind of question."""
        return {**self.stored(), "message": text, "card": self.question.card}


def standing_answer(messages: Sequence[Message]) -> str | None:
    """Return how the last question of a conversation was answered."""
    answers = (
        m for m in reversed(messages) if isinstance(m, ToolMessage) and m.name == ASK_PERSON.name
    )
    return next((answer.content for answer in answers), None)


def no_question(thread_id: str, messages: Sequence[Message]) -> NoReturn:
    """Raises: AlreadyAnswered where a question was asked before, else NoQuestion."""
    standing = standing_answer(messages)
    if standing is None or unanswered(messages):
        raise NoQuestion(thread_id=thread_id)
    raise AlreadyAnswered(thread_id=thread_id, answer=standing)


def in_words(response: Response, language: Language) -> str:
    """Return an answer as the model reads it."""
    return (
        response
        if isinstance(response, str)
        else text("answer_yes" if response else "answer_no", language)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """The thread is stored: from here on the turn can be stopped and found again.

    `retrieved` holds the keys of the nodes that the model is shown, most relevant first; `reasons`
    say why of those that were found for this message. `words_only`: the embedding service failed,
    so they were found by their words alone.
    """

    thread_id: str
    turn: int
    retrieved: tuple[str, ...] = ()
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    words_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A piece of the answer, as it may be shown."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTakenBack:
    """The tokens since the last call are no part of the answer.

    They were the model's thinking, whose opening tag it left out and was not known to leave out, or
    they described a call that is made now.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """The model writes a call. Comes once a call."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A call has its answer. `result_text` is whole, also where the model gets it cut.

    `arguments` is what the model wrote. `data` is the result for a program; of a proposal it is
    the resolved action.
    """

    call_id: str
    name: str
    arguments: str
    result_text: str
    is_error: bool
    data: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported(UsageReport):
    """Tokens of one model call. `cost_usd` None: nobody knows the price. `estimated`:
    counted by us.
    """

    cost_usd: float | None = None
    estimated: bool = False

    @property
    def unpriced(self) -> int:
        """Tokens whose price nobody knows."""
        return self.prompt + self.completion if self.cost_usd is None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionApplied:
    """A proposal of this thread was applied: just now, or meanwhile elsewhere."""

    approval: Approval


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The answer. `text` is all of it since the person's message or decision. `stopped`: as far as
    it had come when the person stopped it from elsewhere. `end_reason`, `outcome`: of the whole
    conversation, where its agent ended it with this answer. `not_in_graph`: what the answer claims
    that the graph does not have (`nodes`, `edges`, and a `note` for people).
    """

    thread_id: str
    text: str
    stopped: bool = False
    not_in_graph: Mapping[str, Any] | None = None
    end_reason: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalPending:
    """The turn waits for decisions. `text` is what the model said before; oldest proposal first."""

    thread_id: str
    text: str
    approvals: tuple[Approval, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimit:
    """The model wants more rounds of tools than it has: a person grants them or asks
    for an answer.
    """

    thread_id: str
    text: str
    rounds_used: int
    max_extended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """The model asks the person; only to a client that can show it. `text` is
    what it said before.
    """

    thread_id: str
    text: str
    asked: PendingQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The turn broke off. The thread is valid; `resume` tries the step again where
    that may help.
    """

    thread_id: str
    fault: TurnFault


Ending = Completed | ProposalPending | ToolLimit | QuestionAsked | Failed
"""With one of these a turn ends."""

Event = (
    TurnStarted
    | Token
    | TextTakenBack
    | PromptRead
    | ToolStarted
    | ToolFinished
    | UsageReported
    | ActionApplied
    | Completed
    | ProposalPending
    | ToolLimit
    | QuestionAsked
    | Failed
)
