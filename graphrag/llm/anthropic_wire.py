"""Anthropic's messages format: our messages as it wants them, and the shapes of its events."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphrag.llm.base import (
    AssistantMessage,
    Message,
    ModelOptions,
    SystemMessage,
    ToolMessage,
    ToolSchema,
    UsageReport,
)
from graphrag.llm.openai_wire import clean, is_stable, readable_arguments

CACHED = {"type": "ephemeral"}
EMPTY = "(empty)"
"""Stands where the format allows no empty text."""

_NOT_ID = re.compile(r"[^a-zA-Z0-9_-]")


class _Ids:
    """Gives calls the ids that this format takes, the same to a call and its answer."""

    def __init__(self) -> None:
        self._current: dict[str, str] = {}
        self._given: set[str] = set()

    def of_call(self, call_id: str) -> str:
        base = _NOT_ID.sub("_", call_id)[:60] or "call"
        given, again = base, 1
        while given in self._given:
            again += 1
            given = f"{base}_{again}"
        self._given.add(given)
        self._current[call_id] = given
        return given

    def of_answer(self, call_id: str) -> str:
        return self._current.get(call_id) or self.of_call(call_id)


def to_request(
    messages: Sequence[Message], tools: Sequence[ToolSchema], options: ModelOptions
) -> dict[str, Any]:
    """Return system, messages, tools and tool_choice, each only where there is something.

    Breakpoints for the provider's cache stand at the end of the stable prefix (tools and stable
    instructions) and at the end of the last message, which the next round of tools extends.
    """
    lead = 0
    while lead < len(messages) and is_stable(messages[lead]):
        lead += 1
    turns = _turns(messages[lead:]) or [_Turn(role="user", content=[_text(EMPTY)])]
    turns[-1]["content"][-1]["cache_control"] = CACHED
    request: dict[str, Any] = {"messages": turns}
    offered = [_tool(tool) for tool in tools] or _tools_of(messages)
    system = _system(messages[:lead])
    if system:
        request["system"] = system
    elif offered:
        offered[-1]["cache_control"] = CACHED
    if offered:
        request["tools"] = offered
        choice = "none" if not tools else options.tool_choice
        if choice != "auto":
            request["tool_choice"] = {"type": {"required": "any", "none": "none"}[choice]}
    return request


def _system(messages: Sequence[Message]) -> list[dict[str, Any]]:
    blocks = [_text(message.content) for message in messages if message.content.strip()]
    if blocks:
        blocks[-1]["cache_control"] = CACHED
    return blocks


class _Turn(TypedDict):
    role: Literal["user", "assistant"]
    content: list[dict[str, Any]]


def _turns(messages: Sequence[Message]) -> list[_Turn]:
    """Return turns of alternating roles; results of tools come first in theirs."""
    ids = _Ids()
    turns: list[_Turn] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message, ids)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        else:
            turns.append(_Turn(role=role, content=blocks))
    for turn in turns:
        turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, _Turn(role="user", content=[_text(EMPTY)]))
    if turns and turns[-1]["role"] == "assistant":
        turns.append(_Turn(role="user", content=[_text(EMPTY)]))
    return turns


def _blocks(message: Message, ids: _Ids) -> list[dict[str, Any]]:
    if isinstance(message, AssistantMessage):
        said = [_text(message.content.rstrip())] if message.content.strip() else []
        return said + [
            {
                "type": "tool_use",
                "id": ids.of_call(call.id),
                "name": call.name,
                "input": json.loads(readable_arguments(call)),
            }
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": ids.of_answer(message.call_id)}
        result["content"] = clean(message.content) or EMPTY
        return [result | ({"is_error": True} if message.is_error else {})]
    if isinstance(message, SystemMessage) and not message.content.strip():
        return []
    return [_text(message.content if message.content.strip() else EMPTY)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": clean(text)}


def _tool(tool: ToolSchema) -> dict[str, Any]:
    function: Mapping[str, Any] = tool["function"]
    made: dict[str, Any] = {"name": function["name"]}
    if function.get("description"):
        made["description"] = function["description"]
    made["input_schema"] = function.get("parameters") or {"type": "object", "properties": {}}
    return made


def _tools_of(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the tools that a history used: it is refused where they are not declared."""
    names = {call.name for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls}
    return [{"name": name, "input_schema": {"type": "object"}} for name in sorted(names)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", from_attributes=True)


class StopDetails(_Shape):
    explanation: str | None = None


class Part(_Shape):
    """A content block at its start, a change of one, or the change of a whole message."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class Whole(_Shape):
    """A message: empty at the start of a stream, complete when it was not streamed."""

    content: list[Part] | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None
    usage: Any = None


class Event(_Shape):
    type: str
    index: int | None = None
    message: Whole | None = None
    content_block: Part | None = None
    delta: Part | None = None
    usage: Any = None


class _Counts(_Shape):
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    cache_read_input_tokens: int | None = Field(default=None, ge=0)
    cache_creation_input_tokens: int | None = Field(default=None, ge=0)


class UsageSum:
    """Keeps the latest of each count: a stream tells them in parts, and again."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def take(self, raw: Any) -> None:
        if raw is None:
            return
        try:
            counts = _Counts.model_validate(raw)
        except ValidationError:
            return  # an answer is worth more than its count
        self._counts |= counts.model_dump(exclude_none=True)

    def report(self) -> UsageReport | None:
        """Return the tokens; the format counts those of the cache apart, we as part of the prompt."""
        if not self._counts:
            return None
        read = self._counts.get("cache_read_input_tokens", 0)
        written = self._counts.get("cache_creation_input_tokens", 0)
        return UsageReport(
            prompt=self._counts.get("input_tokens", 0) + read + written,
            completion=self._counts.get("output_tokens", 0),
            cached=read,
            cache_written=written,
        )
