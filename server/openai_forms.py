"""What a client of the OpenAI API sends, and what it is sent. Pure.

The package `openai` has these shapes as classes; reading it takes longer than all
else at the start.

Sources: OpenAI API reference, chat completions and responses; openai-python's types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from server.bodies import text_of_parts
from server.rest_ai import MAX_MESSAGE

MAX_MESSAGES = 10_000
MAX_HISTORY = 20_000
"""Of a conversation that we do not have, so many characters of the client's report are shown
to the model.
"""
_LINK = re.compile(r"\{\{[A-Za-z]+:([^{}]+)\}\}")


class OpenAIForm(BaseModel):
    """Fields that are not ours are left out: clients send many that a graph has no use for."""

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
    """Return who said what, without what only programs say."""
    return [
        (one.role, one.content.strip()) for one in messages if one.role in ("user", "assistant")
    ]


def question(messages: Sequence[GivenMessage], *, with_history: bool) -> str:
    """Return the message for our model: the last one, and before it what it has not seen yet."""
    last = messages[-1].content
    if not with_history:
        return last
    said = [f"{one.role}: {one.content.strip()}" for one in messages[:-1] if one.content.strip()]
    if not said:
        return last
    before = "\n\n".join(said)[-MAX_HISTORY:]
    return f"[Conversation before, as the person's program reports it]\n{before}\n[End]\n\n{last}"


def without_links(text: str) -> str:
    """Return a piece of an answer with the links of our own page as plain keys."""
    return _LINK.sub(lambda link: f"`{link[1].split('|')[-1]}`", text)


def usage(prompt: int, completion: int) -> dict[str, int]:
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


def whole_answer(head: Mapping[str, Any], text: str, used: Mapping[str, int]) -> dict[str, Any]:
    """Return an answer that is not streamed. `head`: id, created, model."""
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
    """Return a piece of an answer; without `delta` one that holds the usage alone."""
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
    """Return the message of a response."""
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
    """Return a response; without `text` one that is being written. Units: seconds
    since 1970, tokens.
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
