"""The stored form of messages: that of OpenAI, with additional fields of our own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, final

from graphrag.llm.base import (
    AssistantMessage,
    Fact,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    clean,
)
from graphrag.retrieval.context import CONTEXT_MARKER


@final
@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message and its stored name. `read` accepts anything; an empty value is stored
    only with `always`.
    """

    attribute: str
    name: str
    read: Callable[[Any], Any]
    always: bool = False


def _text(raw: Any) -> str:
    if isinstance(raw, list):  # content in parts
        parts = [
            cast(Mapping[str, Any], part)
            for part in cast(list[Any], raw)
            if isinstance(part, Mapping)
        ]
        return "".join(_text(part.get("text")) for part in parts)
    return raw if isinstance(raw, str) else ""


def _list(raw: Any) -> list[Any]:
    return cast(list[Any], raw) if isinstance(raw, list) else []


def _mapping(raw: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], raw) if isinstance(raw, Mapping) else {}


def _facts(raw: Any) -> tuple[Fact, ...]:
    return tuple(cast(Fact, item) for item in _list(raw) if isinstance(item, Mapping))


def _fact(raw: Any) -> Fact | None:
    return _mapping(raw) or None


def _is_true(raw: Any) -> bool:
    return raw is True


def _calls(raw: Any) -> tuple[ToolCall, ...]:
    called = [(call, _mapping(call.get("function"))) for call in map(_mapping, _list(raw))]
    return tuple(
        ToolCall(
            id=_text(call.get("id")),
            name=_text(said.get("name")),
            arguments=_text(said.get("arguments")),
            extra=_mapping(call.get("extra")),
        )
        for call, said in called
        if said
    )


_CONTENT = _Field("content", "content", _text, always=True)
_FOR_PEOPLE = _Field("exclude_from_prompt", "excludeFromPrompt", _is_true)
_FIELDS: Mapping[type[Message], tuple[_Field, ...]] = {
    SystemMessage: (
        _CONTENT,
        _Field("stable", "stable", bool, always=True),
        _Field("kind", "systemKind", lambda raw: _text(raw) or None),
        _Field("summary", "summary", _text),
        _Field("results", "results", _facts),
        _FOR_PEOPLE,
    ),
    UserMessage: (
        _CONTENT,
        _Field(
            "retrieved",
            "contextNodes",
            lambda raw: tuple(k for k in _list(raw) if isinstance(k, str)),
        ),
        _Field("segments", "segments", _facts),
        _Field("execution", "execution", _fact),
    ),
    AssistantMessage: (
        _CONTENT,
        _Field("tool_calls", "tool_calls", _calls),
        _Field("origin", "origin", _text),
        _Field("extra", "extra", _mapping),
        _Field("invalid", "invalid", _is_true),
        _FOR_PEOPLE,
        _Field("not_in_graph", "notInGraph", _fact),
    ),
    ToolMessage: (
        _Field("call_id", "tool_call_id", _text, always=True),
        _Field("name", "name", _text, always=True),
        _CONTENT,
        _Field("is_error", "isError", _is_true),
        _Field("outcome", "outcome", _fact),
    ),
}
_ROLES: Mapping[str, type[Message]] = {
    "system": SystemMessage,
    "developer": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
}
_ROLE_OF: Mapping[type[Message], str] = {
    kind: role for role, kind in _ROLES.items() if role != "developer"
}


def to_stored(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Returns the messages in the form of `conversationHistory`."""
    return [_stored(message) for message in messages]


def stamped(messages: Iterable[Message], now: int) -> list[Message]:
    """Returns the messages; new ones get an id and the time `now`. Units: milliseconds
    since 1970.
    """
    return [
        message
        if message.id is not None
        else replace(message, id=f"m_{uuid.uuid4().hex[:16]}", time=now)
        for message in messages
    ]


def is_note(raw: Any) -> bool:
    """Returns whether a stored message is a note of the service, which older clients do not
    know.
    """
    return isinstance(raw, Mapping) and (
        "systemKind" in raw or raw.get("excludeFromPrompt") is True
    )


def _stored(message: Message) -> dict[str, Any]:
    stored: dict[str, Any] = {"role": _ROLE_OF[type(message)]}
    for one in _FIELDS[type(message)]:
        if (value := _plain(getattr(message, one.attribute))) or one.always:
            stored[one.name] = value
    if isinstance(message, SystemMessage):
        if (
            message.data
        ):  # it stands in `data` alone: who does not know that field reads the summary
            stored |= {"content": stored.get("summary", ""), "data": clean(message.data)}
        if message.level != 1:
            stored["level"] = message.level
    return stored | {name: value for name in ("id", "time") if (value := getattr(message, name))}


def _plain(value: Any) -> Any:
    """Returns a field of a message as JSON."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, ToolCall):
        function = {"name": clean(value.name), "arguments": clean(value.arguments)}
        extra = {"extra": _plain(value.extra)} if value.extra else {}
        return {"id": clean(value.id), "type": "function", "function": function, **extra}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in cast(Sequence[Any], value)]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in cast(Mapping[str, Any], value).items()}
    return value


def shown(stored: Any) -> dict[str, Any]:
    """Returns a stored message for clients, without fields that only its provider can read."""
    made = {
        name: value for name, value in _mapping(stored).items() if name not in ("origin", "extra")
    }
    if calls := _list(made.get("tool_calls")):
        made["tool_calls"] = [
            {k: v for k, v in _mapping(call).items() if k != "extra"} for call in calls
        ]
    return made


def from_stored(stored: Iterable[Any]) -> list[Message]:
    """Reads stored messages. Unreadable ones of other programs are left out."""
    made: list[Message] = []
    for raw in stored:
        message = _message(_mapping(raw), first=not made)
        if message is not None:
            made.append(message)
    return made


def _message(raw: Mapping[str, Any], *, first: bool) -> Message | None:
    kind = _ROLES.get(_text(raw.get("role")))
    if kind is None:
        return None
    time = raw.get("time")
    fields: dict[str, Any] = {one.attribute: one.read(raw.get(one.name)) for one in _FIELDS[kind]}
    fields |= {"id": _text(raw.get("id")), "time": time if isinstance(time, int) else 0}
    if kind is SystemMessage:
        fields["stable"] = bool(raw.get("stable", first)) and not fields["content"].startswith(
            CONTEXT_MARKER
        )
        fields["level"] = 2 if raw.get("level") == 2 else 1
        if fields["kind"] == "DATA_ADDED":
            fields["content"] = _text(raw.get("data")) or fields["content"]
    return kind(**fields)
