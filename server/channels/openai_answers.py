"""The forms of the OpenAI API, and the events of a turn as its answers.

The package `openai` has these shapes as classes; reading it takes longer than all
else at the start.

Sources: OpenAI API reference, chat completions and responses; openai-python's types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from graphrag.agent.events import (
    Completed,
    Event,
    Failed,
    ProposalPending,
    TextTakenBack,
    Token,
    TurnStarted,
    UsageReported,
)
from graphrag.approvals import Approval
from graphrag.i18n import Language
from server.bodies import MAX_MESSAGE, text_of_parts
from server.channels.turn_documents import (
    AnswerText,
    Links,
    ending_document,
    proposal_sentence,
    tokens_document,
)
from server.errors import TurnBroken

MAX_MESSAGES = 10_000
# Characters of the client's report of a conversation that is not stored here, for the model.
MAX_HISTORY = 20_000
_LINK = re.compile(r"\{\{[A-Za-z]+:([^{}]+)\}\}")


class OpenAIForm(BaseModel):
    """Unknown fields are ignored: clients send many that a graph has no use for."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class GivenMessage(OpenAIForm):
    """A message as a client has it; of its content, a text or parts, only text is read."""

    role: Annotated[str, Field(max_length=40)]
    content: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""

    @field_validator("content", mode="before")
    @classmethod
    def _text(cls, content: Any) -> str:
        return "" if content is None else text_of_parts(content)


class StreamOptions(OpenAIForm):
    include_usage: bool = False


class ChatForm(OpenAIForm):
    """A question to a graph (`graph:KEY`), an agent (`agent:ID`) or all graphs (`nodius`).

    The last message must be the person's. Sampling parameters and tools of the client are left out.
    """

    model: Annotated[str, Field(min_length=1, max_length=240)]
    messages: Annotated[list[GivenMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Literal[1] = 1

    @model_validator(mode="after")
    def _asks(self) -> ChatForm:
        last = self.messages[-1]
        if last.role != "user" or not last.content.strip():
            raise ValueError("the last message must be of the user, and hold text")
        return self


class ResponsesForm(OpenAIForm):
    """A question as the responses API asks it; `previous_response_id` goes on
    with a conversation.
    """

    model: Annotated[str, Field(min_length=1, max_length=240)]
    input: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE)] | list[GivenMessage]
    instructions: Annotated[str, Field(max_length=MAX_MESSAGE)] | None = None
    previous_response_id: Annotated[str, Field(max_length=240)] | None = None
    stream: bool = False

    @field_validator("input")
    @classmethod
    def _asks(cls, given: str | list[GivenMessage]) -> str | list[GivenMessage]:
        if isinstance(given, list) and not (
            given and given[-1].role == "user" and given[-1].content.strip()
        ):
            raise ValueError("the last message must be of the user, and hold text")
        return given

    @property
    def messages(self) -> list[GivenMessage]:
        given = (
            [GivenMessage(role="user", content=self.input)]
            if isinstance(self.input, str)
            else self.input
        )
        first = (
            [GivenMessage(role="system", content=self.instructions)] if self.instructions else []
        )
        return [*first, *given]


def dialogue(messages: Sequence[GivenMessage]) -> list[tuple[str, str]]:
    """Returns role and text of the messages of the person and the assistant."""
    return [
        (one.role, one.content.strip()) for one in messages if one.role in ("user", "assistant")
    ]


def question(messages: Sequence[GivenMessage], *, with_history: bool) -> str:
    """Returns the message for the model: the last one, after those that it has not seen yet."""
    last = messages[-1].content
    if not with_history:
        return last
    earlier = [f"{one.role}: {one.content.strip()}" for one in messages[:-1] if one.content.strip()]
    if not earlier:
        return last
    before = "\n\n".join(earlier)[-MAX_HISTORY:]
    return f"[Conversation before, as the person's program reports it]\n{before}\n[End]\n\n{last}"


def without_links(text: str) -> str:
    """Returns a piece of an answer with links of the page as plain keys."""
    return _LINK.sub(lambda link: f"`{link[1].split('|')[-1]}`", text)


def usage(prompt: int, completion: int) -> dict[str, int]:
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


def whole_answer(head: Mapping[str, Any], text: str, used: Mapping[str, int]) -> dict[str, Any]:
    """Returns an answer that is not streamed. `head`: id, created, model."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": used}


def chunk(
    head: Mapping[str, Any],
    delta: Mapping[str, Any] | None,
    *,
    ends: bool = False,
    used: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Returns a piece of an answer; without `delta` one with the usage alone."""
    choice = {"index": 0, "delta": delta, "finish_reason": "stop" if ends else None}
    piece = {
        **head,
        "object": "chat.completion.chunk",
        "choices": [] if delta is None else [choice],
    }
    return piece if used is None else {**piece, "usage": used}


def output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list[Any]()}


def message_item(response_id: str, text: str, status: str) -> dict[str, Any]:
    """Returns the message of a response."""
    parts = [output_text(text)] if status == "completed" else []
    named = {
        "id": f"msg_{response_id.removeprefix('resp_')}",
        "type": "message",
        "role": "assistant",
    }
    return {**named, "status": status, "content": parts}


def response(
    form: ResponsesForm,
    response_id: str,
    created: int,
    text: str | None,
    used: Mapping[str, int] | None,
) -> dict[str, Any]:
    """Returns a response; without `text` one that is being written.

    Units: seconds since 1970, tokens.
    """
    done = text is not None
    counted = used and {
        "input_tokens": used["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": used["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used["total_tokens"],
    }
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "model": form.model,
        "status": "completed" if done else "in_progress",
        "output": [message_item(response_id, text, "completed")] if done else [],
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
        "instructions": form.instructions,
        "previous_response_id": form.previous_response_id,
        "usage": counted,
    }


class AnswerMapping:
    """One answer as pieces of text, with links to its proposals at the end.

    `is_streamed`: a client has the pieces at once, so nothing is taken back.
    """

    def __init__(self, language: Language, link: Links, *, is_streamed: bool) -> None:
        self._language: Language = language
        self._link = link
        self._is_streamed = is_streamed
        self._written = AnswerText()
        self._reports: list[UsageReported] = []
        self.thread_id: str | None = None

    def continue_thread(self, thread_id: str) -> None:
        """Names the conversation before its turn starts: it goes on with an earlier one."""
        self.thread_id = thread_id

    @property
    def text(self) -> str:
        """The answer so far."""
        return str(self._written)

    @property
    def usage(self) -> dict[str, int]:
        """The tokens so far."""
        tokens = tokens_document(self._reports)
        return usage(tokens["promptTokens"], tokens["completionTokens"])

    def pieces(self, event: Event) -> Iterator[str]:
        """Yields the pieces of text of an event; an empty one when the turn starts.

        Raises: TurnBroken for the event of a turn that failed.
        """
        for piece in self._pieces(event):
            self._written.add([piece])
            yield piece

    def _pieces(self, event: Event) -> Iterator[str]:
        match event:
            case TurnStarted():
                self.thread_id = event.thread_id
                yield ""
            case Token():
                yield without_links(event.text)
            case TextTakenBack() if not self._is_streamed:
                self._written.take_back()
            case UsageReported():
                self._reports.append(event)
                self._written.end_call()
            case ProposalPending():
                for approval in event.approvals:
                    yield self._proposed(approval)
            case Completed():
                yield from self._completed(ending_document(event, self._language))
            case Failed():
                raise TurnBroken(thread_id=event.thread_id, fault=event.fault)
            case _:
                pass

    def _completed(self, document: Mapping[str, Any]) -> Iterator[str]:
        if not self.text and document["message"]:
            yield without_links(document["message"])
        if "notInGraph" in document:
            yield f"\n\n{document['notInGraph']['note']}"

    def _proposed(self, approval: Approval) -> str:
        sentence = proposal_sentence(approval, self._link(approval), self._language)
        return f"\n\n{sentence}" if self.text else sentence
