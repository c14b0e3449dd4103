"""The question that a conversation waits with: as it is stored, shown and answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from pydantic import ValidationError

from graphrag.agent.history import unanswered
from graphrag.agent.thread_store import Thread, ThreadError
from graphrag.i18n import Language
from graphrag.llm.base import Message, ToolCall, ToolMessage
from tools.session_tools import ASK_PERSON, AskPerson, Response
from tools.toon import compact_json

_WORDS: Mapping[Language, tuple[str, str]] = {"en": ("no", "yes"), "fr": ("non", "oui")}


class NoQuestion(ThreadError):
    def __init__(self, *, thread_id: str) -> None:
        super().__init__(thread_id=thread_id)


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
        """Return what a thread asks a person; None where it waits for nothing, or for something else."""
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
    answers = (m for m in reversed(messages) if isinstance(m, ToolMessage) and m.name == ASK_PERSON.name)
    return next((answer.content for answer in answers), None)


def no_question(thread_id: str, messages: Sequence[Message]) -> NoReturn:
    """Raises: AlreadyAnswered where a question was asked before, else NoQuestion."""
    standing = standing_answer(messages)
    if standing is None or unanswered(messages):
        raise NoQuestion(thread_id=thread_id)
    raise AlreadyAnswered(thread_id=thread_id, answer=standing)


def in_words(response: Response, language: Language) -> str:
    """Return an answer as the model reads it."""
    return response if isinstance(response, str) else _WORDS[language][response]
