"""The stored form of messages: OpenAI's, with what it has no place for under names of our own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from graphrag.llm.base import (
    AssistantMessage,
    Fact,
    Message,
    SystemKind,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    clean,
)
from graphrag.retrieval.context import CONTEXT_MARKER


def to_stored(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages as `conversationHistory` holds them."""
    return [_stored(message) for message in messages]


def stamped(messages: Iterable[Message], now: int) -> list[Message]:
    """Return the messages, those that were never stored with an id and the time `now` in milliseconds."""
    return [
        message if message.id is not None else replace(message, id=f"m_{uuid.uuid4().hex[:16]}", time=now)
        for message in messages
    ]


def is_note(raw: Any) -> bool:
    """Return whether a stored message is a note of the service, which clients of before do not know."""
    return isinstance(raw, Mapping) and ("systemKind" in raw or raw.get("excludeFromPrompt") is True)


def _stored(message: Message) -> dict[str, Any]:
    named = {"id": message.id, "time": message.time}
    return _written(message) | {name: value for name, value in named.items() if value}


def _written(message: Message) -> dict[str, Any]:
    match message:
        case SystemMessage():
            return _stored_system(message)
        case UserMessage():
            return {"role": "user", "content": clean(message.content)} | _present(
                contextNodes=list(message.retrieved),
                segments=[dict(segment) for segment in message.segments],
                execution=dict(message.execution or {}),
            )
        case ToolMessage():
            stored: dict[str, Any] = {
                "role": "tool",
                "tool_call_id": message.call_id,
                "name": message.name,
                "content": clean(message.content),
            }
            return stored | _present(isError=message.is_error, outcome=dict(message.outcome or {}))
        case AssistantMessage():
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": clean(call.name), "arguments": clean(call.arguments)},
                }
                for call in message.tool_calls
            ]
            return {"role": "assistant", "content": clean(message.content)} | _present(
                tool_calls=calls,
                reasoning=clean(message.reasoning),
                invalid=message.invalid,
                excludeFromPrompt=message.exclude_from_prompt,
            )


def _stored_system(message: SystemMessage) -> dict[str, Any]:
    """What commands found stands in `data` alone: who does not know that field reads the summary."""
    content = message.summary if message.data else message.content
    stored: dict[str, Any] = {"role": "system", "content": clean(content), "stable": message.stable}
    return stored | _present(
        level=message.level if message.level != 1 else None,
        systemKind=message.kind,
        summary=clean(message.summary),
        results=[dict(result) for result in message.results],
        data=clean(message.data),
        excludeFromPrompt=message.exclude_from_prompt,
    )


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


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


def _system_message(raw: Mapping[str, Any], content: str, *, first: bool) -> SystemMessage:
    kind = cast(SystemKind, _text(raw.get("systemKind"))) or None
    return SystemMessage(
        content=_text(raw.get("data")) or content if kind == "DATA_ADDED" else content,
        stable=bool(raw.get("stable", first)) and not content.startswith(CONTEXT_MARKER),
        level=2 if raw.get("level") == 2 else 1,
        kind=kind,
        summary=_text(raw.get("summary")),
        results=_facts(raw.get("results")),
        exclude_from_prompt=raw.get("excludeFromPrompt") is True,
    )


def _message(raw: Mapping[str, Any], *, first: bool) -> Message | None:
    content = _text(raw.get("content"))
    about: dict[str, Any] = {
        "id": _text(raw.get("id")),
        "time": time if isinstance(time := raw.get("time"), int) else 0,
    }
    match raw.get("role"):
        case "system" | "developer":
            return replace(_system_message(raw, content, first=first), **about)
        case "user":
            return UserMessage(
                **about,
                content=content,
                retrieved=_keys(raw.get("contextNodes")),
                segments=_facts(raw.get("segments")),
                execution=_mapping(raw.get("execution")) or None,
            )
        case "assistant":
            return AssistantMessage(
                **about,
                content=content,
                tool_calls=tuple(_calls(raw.get("tool_calls"))),
                reasoning=_text(raw.get("reasoning")),
                invalid=raw.get("invalid") is True,
                exclude_from_prompt=raw.get("excludeFromPrompt") is True,
            )
        case "tool":
            return ToolMessage(
                **about,
                call_id=_text(raw.get("tool_call_id")),
                name=_text(raw.get("name")),
                content=content,
                is_error=raw.get("isError") is True,
                outcome=_mapping(raw.get("outcome")) or None,
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


def _facts(raw: Any) -> tuple[Fact, ...]:
    items = cast(list[Any], raw) if isinstance(raw, list) else []
    return tuple(cast(Fact, item) for item in items if isinstance(item, Mapping))


def _mapping(raw: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], raw) if isinstance(raw, Mapping) else {}


def _text(raw: Any) -> str:
    if isinstance(raw, list):  # content in parts
        parts = [cast(Mapping[str, Any], part) for part in cast(list[Any], raw) if isinstance(part, Mapping)]
        return "".join(_text(part.get("text")) for part in parts)
    return raw if isinstance(raw, str) else ""


TOOL_LIMIT = "tool_limit"


def take_over(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored thread of that program in this program's form; unknown fields stay."""
    raw = data.get("conversationHistory")
    history = [
        item for item in (cast(list[Any], raw) if isinstance(raw, list) else []) if not _is_system(item)
    ]
    pending = _mapping(data.get("pendingInterrupt"))
    status = ""
    if pending.get("type") == TOOL_LIMIT:
        status = "limit"
    elif call := _tool_call(pending):
        status = "waiting"
        if not any(_has_call(item, call["id"]) for item in history):
            history.append({"role": "assistant", "content": "", "tool_calls": [call]})
    turn = {"turn": {"number": 1, "status": status}} if status else {}
    return {**data, "conversationHistory": history, **turn}


def _is_system(item: Any) -> bool:
    return _mapping(item).get("role") in ("system", "developer")


def _tool_call(pending: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the call that waits for a decision, in the form of OpenAI's messages."""
    call = _mapping(pending.get("toolCall"))
    name, arguments = call.get("name"), call.get("args", call.get("arguments"))
    if not isinstance(name, str) or not name:
        return None
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    identity = call.get("id")
    return {
        "id": identity if isinstance(identity, str) and identity else "pending",
        "type": "function",
        "function": {"name": name, "arguments": text},
    }


def _has_call(item: Any, call_id: str) -> bool:
    calls = _mapping(item).get("tool_calls")
    return isinstance(calls, list) and any(_mapping(c).get("id") == call_id for c in cast(list[Any], calls))
