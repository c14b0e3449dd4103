"""The events of a turn, which every channel (command line, HTTP, WebSocket) forwards or collects.

A turn begins with `TurnStarted` and ends with exactly one of `Completed`, `ProposalPending`,
`ToolLimit`, `QuestionAsked` or `Failed`. After `ProposalPending`, `ToolLimit` and `QuestionAsked`
the thread waits for `resume`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast, final

from pydantic import ValidationError

from graphrag.agent.history import unanswered
from graphrag.agent.thread_store import Thread, ThreadError
from graphrag.approvals import Approval
from graphrag.errors import Described, describe
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
"""The codes that clients of conversations know. Any other fault is sent as `internal`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFault:
    """Why a turn failed.

    `messages` are sentences for people, without keys, code or traces. `details` is the text of the
    provider, without secrets.
    """

    code: str
    retryable: bool
    messages: Mapping[Language, str]
    retry_after_s: float | None = None
    details: str = ""

    def message(self, language: Language) -> str:
        return self.messages[language]


def classify(exc: BaseException) -> TurnFault:
    """Returns the fault of an exception. An unexpected one is `internal`, and its text is not
    shown.
    """
    described: dict[Language, Described] = {
        name: found
        for name in LANGUAGES
        if isinstance(exc, Exception) and (found := describe(exc, name)) is not None
    }
    if not described:
        is_lost = isinstance(exc, ConnectionError)
        code = "timeout" if isinstance(exc, TimeoutError) else "network" if is_lost else "internal"
        messages: dict[Language, str] = {name: text(code, name) for name in LANGUAGES}
        return TurnFault(code=code, retryable=code != "internal", messages=messages)
    english = described["en"]
    safe: dict[Language, str] = {
        name: without_secrets(one.message) for name, one in described.items()
    }
    code = "network" if english.code == "unavailable" else english.code
    return TurnFault(
        code=code if code in FAULT_CODES else "internal",
        retryable=english.retryable,
        messages=safe,
        retry_after_s=exc.retry_after_s if isinstance(exc, ModelError) else None,
        details=without_secrets(english.details) if isinstance(exc, ModelError) else "",
    )


@final
class NoQuestion(ThreadError):
    """Facts: `thread_id`."""


@final
class AlreadyAnswered(ThreadError):
    """`answer`: the answer that counts, or that the person wrote a message instead."""

    def __init__(self, *, thread_id: str, answer: str) -> None:
        super().__init__(thread_id=thread_id, answer=answer[:300])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuestion:
    """A question and the call that asked it."""

    call_id: str
    question: AskPerson

    @classmethod
    def of(cls, thread: Thread) -> PendingQuestion | None:
        """Returns the question that a thread waits for, None if there is none."""
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
        """Returns its form in the thread."""
        return {"type": "question", "module": self.question.document, "callId": self.call_id}

    def shown(self, text: str) -> dict[str, Any]:
        """Returns its form for clients; `card` is for those that do not know this kind of
        question.
        """
        return {**self.stored(), "message": text, "card": self.question.card}


def standing_answer(messages: Sequence[Message]) -> str | None:
    """Returns the answer to the last question of a conversation."""
    answers = (
        m for m in reversed(messages) if isinstance(m, ToolMessage) and m.name == ASK_PERSON.name
    )
    return next((answer.content for answer in answers), None)


def no_question(thread_id: str, messages: Sequence[Message]) -> NoReturn:
    """Raises: AlreadyAnswered if a question was asked before, else NoQuestion."""
    standing = standing_answer(messages)
    if standing is None or unanswered(messages):
        raise NoQuestion(thread_id=thread_id)
    raise AlreadyAnswered(thread_id=thread_id, answer=standing)


def in_words(response: Response, language: Language) -> str:
    """Returns an answer as text for the model."""
    return (
        response
        if isinstance(response, str)
        else text("answer_yes" if response else "answer_no", language)
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """The thread is stored, so the turn can be stopped, and read by others, from now on.

    `retrieved`: keys of the nodes in the context, most relevant first; `reasons`: why they were
    retrieved for this message. `words_only`: the embedding service failed, so only words were
    searched.
    """

    thread_id: str
    turn: int
    retrieved: tuple[str, ...] = ()
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    words_only: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A piece of the answer to show."""

    text: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TextTakenBack:
    """The tokens since the last call are not part of the answer.

    They were the model's thinking without its opening tag, or described a call that is made now.
    """


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """The model begins to write a call. Sent once a call."""

    call_id: str
    name: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A call has its answer. `result_text` is complete, even if the model gets less.

    `arguments`: as the model wrote them. `data`: the result for programs; the resolved action of a
    proposal.
    """

    call_id: str
    name: str
    arguments: str
    result_text: str
    is_error: bool
    data: Any = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported(UsageReport):
    """Tokens of one model call. `cost_usd`: None if no price is known. `estimated`: counted
    by us.
    """

    cost_usd: float | None = None
    estimated: bool = False

    @property
    def unpriced(self) -> int:
        """Number of tokens without a known price."""
        return self.prompt + self.completion if self.cost_usd is None else 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ActionApplied:
    """A proposal of this thread was applied, just now or elsewhere."""

    approval: Approval


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The answer. `text`: all text since the person's message or decision. `stopped`: a person
    stopped the turn. `end_reason`, `outcome`: of the conversation, if its agent ended it with this
    answer. `not_in_graph`: claims that are not in the graph (`nodes`, `edges`, and a `note` for
    people).
    """

    thread_id: str
    text: str
    stopped: bool = False
    not_in_graph: Mapping[str, Any] | None = None
    end_reason: str | None = None
    outcome: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalPending:
    """The turn waits for decisions, oldest proposal first. `text`: the model's text before."""

    thread_id: str
    text: str
    approvals: tuple[Approval, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimit:
    """The model has used its rounds of tools: a person grants more, or asks for an answer."""

    thread_id: str
    text: str
    rounds_used: int
    max_extended: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """The model asks the person; sent to clients that can show it. `text`: the model's text
    before.
    """

    thread_id: str
    text: str
    asked: PendingQuestion


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The turn failed. The thread is valid; `resume` tries the last step again."""

    thread_id: str
    fault: TurnFault


Ending = Completed | ProposalPending | ToolLimit | QuestionAsked | Failed
"""The last event of a turn."""

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
