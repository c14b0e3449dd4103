"""OpenAI's Responses format: our messages as it wants them, and the shapes of what it sends.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    ToolSchema,
    UsageReport,
    UserMessage,
)
from graphrag.llm.openai_wire import LateSystem, clean, readable_arguments


def to_input(messages: Sequence[Message], *, late_system: LateSystem = "system") -> list[dict[str, Any]]:
    """Return the messages as input items: a call and its answer are items of their own."""
    made: list[dict[str, Any]] = []
    spoken = False
    for message in messages:
        match message:
            case SystemMessage():
                made += _said(late_system if spoken else "system", message.content)
                continue
            case UserMessage():
                made += _said("user", message.content)
            case ToolMessage():
                answer = {"call_id": message.call_id, "output": clean(message.content)}
                made.append({"type": "function_call_output", **answer})
            case AssistantMessage():
                made += _said("assistant", message.content)
                made += [
                    {
                        "type": "function_call",
                        "call_id": call.id,
                        "name": call.name,
                        "arguments": readable_arguments(call),
                    }
                    for call in message.tool_calls
                ]
        spoken = True
    return made


def _said(role: str, text: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": clean(text)}] if text.strip() else []


def to_functions(tools: Sequence[ToolSchema]) -> list[dict[str, Any]]:
    """Return tools in this format's flat form; our schemas are not of its strict kind."""
    return [
        {"type": "function", **cast(Mapping[str, Any], tool["function"]), "strict": False} for tool in tools
    ]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", from_attributes=True)


class Part(_Shape):
    type: str | None = None
    text: str | None = None
    refusal: str | None = None


class Item(_Shape):
    """One thing of an answer: a message, a call, thinking, or a tool that the provider ran."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[Part] | None = None


class Trouble(_Shape):
    code: str | None = None
    message: str | None = None
    reason: str | None = None


class Whole(_Shape):
    """An answer as it stands; at the end of a stream, all of it."""

    status: str | None = None
    output: list[Item] | None = None
    usage: Any = None
    error: Trouble | None = None
    incomplete_details: Trouble | None = None


class Event(_Shape):
    """An event of a stream, or (without `type`) an answer that was not streamed."""

    type: str | None = None
    output_index: int | None = None
    delta: Any = None
    item: Item | None = None
    response: Whole | None = None
    object: str | None = None


class _Cached(_Shape):
    cached_tokens: int | None = None


class _Thought(_Shape):
    reasoning_tokens: int | None = None


class _Usage(_Shape):
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(default=0, ge=0)
    input_tokens_details: _Cached | None = None
    output_tokens_details: _Thought | None = None


def read_usage(raw: Any) -> UsageReport | None:
    """Return the tokens of a request; what cannot be read is none."""
    if raw is None:
        return None
    try:
        usage = _Usage.model_validate(raw)
    except ValidationError:
        return None
    cached, thought = usage.input_tokens_details, usage.output_tokens_details
    return UsageReport(
        prompt=usage.input_tokens,
        completion=usage.output_tokens,
        cached=min(max((cached and cached.cached_tokens) or 0, 0), usage.input_tokens),
        reasoning=max((thought and thought.reasoning_tokens) or 0, 0),
    )
