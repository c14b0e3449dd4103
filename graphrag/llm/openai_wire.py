"""OpenAI's chat format: our messages as it wants them, and the shapes of what it sends.

The shapes are read by us: the client library lets any shape through. They take what many servers
send, and name what cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UsageReport,
    UserMessage,
)
from graphrag.llm.calls import is_json

UNREADABLE = "INVALID_JSON"
"""The key under which arguments that are no JSON go back to the model. Source: Anthropic's page on
fine-grained tool streaming, which advises it."""

LateSystem = Literal["system", "user"]
"""As what a system message after the first turn is sent: some chat templates allow none there."""


def clean(text: str) -> str:
    """Return the text with half surrogate pairs, which UTF-8 cannot hold, as `?`."""
    return text.encode(errors="replace").decode()


def readable_arguments(call: ToolCall) -> str:
    """Return a call's arguments as JSON of an object, whatever was written."""
    text = call.arguments.strip() or "{}"
    if is_json(text) and text.startswith("{"):
        return clean(text)
    return json.dumps({UNREADABLE: clean(call.arguments)}, ensure_ascii=False)


def to_messages(
    messages: Sequence[Message], *, late_system: LateSystem = "system", resend_reasoning: bool = False
) -> list[dict[str, Any]]:
    """Return the messages in OpenAI's form; leading instructions become one message.

    What is told later stays in its place, after what never changes, so that a server's cache of the
    beginning holds. As `user` it joins what the person says: some templates want turns to alternate.
    """
    lead = 0
    while lead < len(messages) and is_stable(messages[lead]):
        lead += 1
    made: list[dict[str, Any]] = []
    system = "\n\n".join(clean(m.content) for m in messages[:lead] if m.content.strip())
    if system:
        made.append({"role": "system", "content": system})
    turn = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=0)
    for place, message in enumerate(messages[lead:], start=lead):
        one = _one(message, late_system, resend_reasoning and place > turn)
        if late_system == "user" and made and made[-1]["role"] == one["role"] == "user":
            made[-1]["content"] += f"\n\n{one['content']}"
        else:
            made.append(one)
    return made


def is_stable(message: Message) -> bool:
    """Return whether a message is instructions that stand unchanged in every call of a thread."""
    return isinstance(message, SystemMessage) and message.stable


def _one(message: Message, late_system: LateSystem, with_reasoning: bool) -> dict[str, Any]:
    match message:
        case SystemMessage():
            return {"role": late_system, "content": clean(message.content)}
        case UserMessage():
            return {"role": "user", "content": clean(message.content)}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call_id, "content": clean(message.content)}
        case AssistantMessage():
            sent: dict[str, Any] = {"role": "assistant", "content": clean(message.content)}
            if message.tool_calls:
                sent["content"] = sent["content"] or None
                sent["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": readable_arguments(call)},
                    }
                    for call in message.tool_calls
                ]
            if with_reasoning and message.reasoning:
                sent["reasoning_content"] = clean(message.reasoning)
            return sent


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", from_attributes=True)


class Function(_Shape):
    name: str | None = None
    arguments: str | None = None

    @field_validator("arguments", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


class Fragment(_Shape):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(_Shape):
    """A piece of an answer, or the whole of one that was not streamed."""

    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Fragment] | None = None
    function_call: Function | None = None

    def texts(self) -> Iterator[tuple[Literal["text", "reasoning"], str]]:
        """Yield the pieces of text, thinking apart."""
        thinking = self.reasoning_content or self.reasoning
        if thinking:
            yield "reasoning", thinking
        if isinstance(self.content, str):
            if self.content:
                yield "text", self.content
            return
        for part in self.content or ():
            text = part.get("text") if isinstance(part, dict) else None  # pyright: ignore[reportUnknownVariableType]
            if isinstance(text, str) and text:
                yield "text", text


class Choice(_Shape):
    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None


class Progress(_Shape):
    """How much of a prompt llama.cpp has read. Source: its pull request 15827."""

    processed: int = 0
    total: int = 0


class ChatPiece(_Shape):
    """A chunk of a stream, or a whole answer."""

    choices: list[Choice] | None = None
    prompt_progress: Progress | None = None
    usage: Any = None
    object: str | None = None


class _Details(_Shape):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(_Shape):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None


def read_usage(raw: Any) -> UsageReport | None:
    """Return the tokens of a request. What cannot be read is none: an answer is worth more than its count."""
    if raw is None:
        return None
    try:
        usage = _Usage.model_validate(raw)
    except ValidationError:
        return None
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = (prompt and prompt.cached_tokens) or usage.prompt_cache_hit_tokens or usage.cached_tokens or 0
    return UsageReport(
        prompt=usage.prompt_tokens,
        completion=usage.completion_tokens,
        cached=min(max(cached, 0), usage.prompt_tokens),
        reasoning=max((completion and completion.reasoning_tokens) or 0, 0),
    )
