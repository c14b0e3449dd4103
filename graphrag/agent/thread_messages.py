"""The stored form of messages: OpenAI's, with what it has no place for under names of our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrag.llm.message_text import clean
from graphrag.retrieval.context import CONTEXT_MARKER


def to_stored(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages as `conversationHistory` holds them."""
    return [_stored(message) for message in messages]


def _stored(message: Message) -> dict[str, Any]:
    match message:
        case SystemMessage():
            return {"role": "system", "content": clean(message.content), "stable": message.stable}
        case UserMessage():
            shown = {"contextNodes": list(message.retrieved)} if message.retrieved else {}
            return {"role": "user", "content": clean(message.content), **shown}
        case ToolMessage():
            stored: dict[str, Any] = {
                "role": "tool",
                "tool_call_id": message.call_id,
                "name": message.name,
                "content": clean(message.content),
            }
            return stored | ({"isError": True} if message.is_error else {})
        case AssistantMessage():
            stored = {"role": "assistant", "content": clean(message.content)}
            if message.tool_calls:
                stored["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": clean(call.name), "arguments": clean(call.arguments)},
                    }
                    for call in message.tool_calls
                ]
            return stored | ({"reasoning": clean(message.reasoning)} if message.reasoning else {})


def from_stored(stored: Iterable[Any]) -> list[Message]:
    """Read stored messages; also those of other programs, whose unreadable ones are left out."""
    made: list[Message] = []
    for raw in stored:
        if not isinstance(raw, Mapping):
            continue
        message = _message(cast(Mapping[str, Any], raw), first=not made)
        if message is not None:
            made.append(message)
    return made


def _message(raw: Mapping[str, Any], *, first: bool) -> Message | None:
    content = _text(raw.get("content"))
    match raw.get("role"):
        case "system" | "developer":
            stable = bool(raw.get("stable", first)) and not content.startswith(CONTEXT_MARKER)
            return SystemMessage(content=content, stable=stable)
        case "user":
            return UserMessage(content=content, retrieved=_keys(raw.get("contextNodes")))
        case "assistant":
            return AssistantMessage(
                content=content,
                tool_calls=tuple(_calls(raw.get("tool_calls"))),
                reasoning=_text(raw.get("reasoning")),
            )
        case "tool":
            return ToolMessage(
                call_id=_text(raw.get("tool_call_id")),
                name=_text(raw.get("name")),
                content=content,
                is_error=raw.get("isError") is True,
            )
        case _:
            return None


def _calls(raw: Any) -> Iterable[ToolCall]:
    for item in cast(list[Any], raw) if isinstance(raw, list) else ():
        call = _mapping(item)
        said = _mapping(call.get("function"))
        if said:
            yield ToolCall(
                id=_text(call.get("id")), name=_text(said.get("name")), arguments=_text(said.get("arguments"))
            )


def _keys(raw: Any) -> tuple[str, ...]:
    return tuple(key for key in cast(list[Any], raw) if isinstance(key, str)) if isinstance(raw, list) else ()


def _mapping(raw: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], raw) if isinstance(raw, Mapping) else {}


def _text(raw: Any) -> str:
    if isinstance(raw, list):  # content in parts
        parts = [cast(Mapping[str, Any], part) for part in cast(list[Any], raw) if isinstance(part, Mapping)]
        return "".join(_text(part.get("text")) for part in parts)
    return raw if isinstance(raw, str) else ""
