"""Reads answers piece by piece: what the readers of all formats share, and how tool
calls are gathered.

What a server sent may be of any shape: the client packages let an attribute that they declare as
text be a number.
"""

from __future__ import annotations

import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import BaseModel

from graphrag.llm import base as llm
from graphrag.llm.errors import ModelAnswerMalformed, ModelContentFiltered, ModelStreamBroken

MAX_CHARS = 1_000_000
"""Arguments are not read further; what is left of them is no JSON, and refused."""

_WHOLE = re.compile(r"-?\d{1,15}(?:\.0)?")
_SIGN = re.compile(r'\\.|["{}\[\]]', re.DOTALL)

_GROWING = frozenset(
    ("reasoning_content", "reasoning", "reasoning_text", "text", "summary", "thinking", "data")
)
"""Fields of an answer's reasoning that come in pieces; another one that comes again
replaces the first.
"""


class Unreadable(Exception):
    """A field is of another type than its format says."""


class Fields:
    """The fields of an object, a package's or a JSON one. None stands for what is missing or null.

    Raises, all over: Unreadable, with the name of the field.
    """

    __slots__ = ("_name", "_raw")

    def __init__(self, raw: object, name: str = "an event") -> None:
        if not isinstance(raw, dict | BaseModel):
            raise Unreadable(f"{name}: it is no object")
        self._raw = cast(Any, raw)
        self._name = name

    def any(self, name: str) -> Any:
        """Return a field as it is."""
        if isinstance(self._raw, dict):
            return cast(dict[str, Any], self._raw).get(name)
        found = self._raw.__dict__.get(name)
        extra = self._raw.model_extra if found is None else None
        return extra.get(name) if extra else found

    def text(self, name: str) -> str:
        """Return a text; empty where it is missing."""
        value = self.any(name)
        if value is not None and not isinstance(value, str):
            raise Unreadable(f"{name}: it is no text")
        return value or ""

    def json(self, name: str) -> str:
        """Return a text, or the JSON of an object or a list that some servers send in its place."""
        value = self.any(name)
        return (
            json.dumps(value, ensure_ascii=False)
            if isinstance(value, dict | list)
            else self.text(name)
        )

    def number(self, name: str) -> int | None:
        value = self.any(name)
        if isinstance(value, str | float):
            value = int(float(value)) if _WHOLE.fullmatch(str(value)) else value
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise Unreadable(f"{name}: it is no whole number")
        return value

    def count(self, name: str) -> int:
        """Return a number that is not negative; 0 where it is missing."""
        value = self.number(name) or 0
        if value < 0:
            raise Unreadable(f"{name}: it is negative")
        return value

    def has(self, name: str) -> bool:
        return self.any(name) is not None

    def part(self, name: str) -> Fields:
        """Return an object; one without fields where it is missing."""
        value = self.any(name)
        return Fields({} if value is None else value, name)

    def others(self, known: Container[str]) -> dict[str, Any]:
        """Return the fields with other names that hold something, as JSON; an empty
        text is something.
        """
        if isinstance(self._raw, dict):
            found = cast(dict[str, Any], self._raw)
        else:
            found: dict[str, Any] = {**self._raw.__dict__, **(self._raw.model_extra or {})}
        return {name: plain(v) for name, v in found.items() if name not in known and v is not None}

    def parts(self, name: str) -> list[Fields]:
        """Return a list of objects; empty where it is missing."""
        value = self.any(name)
        if value is not None and not isinstance(value, list):
            raise Unreadable(f"{name}: it is no list")
        return [Fields(item, name) for item in cast(list[object], value or ())]


def plain(value: Any) -> Any:
    """Return a value of a client package as JSON holds it."""
    return (
        value.model_dump(mode="json", exclude_unset=True) if isinstance(value, BaseModel) else value
    )


def _clean(value: Any) -> Any:
    """Return a JSON value with texts that can be stored and sent."""
    if isinstance(value, str):
        return llm.clean(value)
    if isinstance(value, Mapping):
        return {llm.clean(name): _clean(v) for name, v in cast(Mapping[str, Any], value).items()}
    return [_clean(item) for item in cast(list[Any], value)] if isinstance(value, list) else value


def joined(before: Any, more: Any, name: str = "") -> Any:
    """Return the value of the field `name` of which `more` came after `before`."""
    if isinstance(before, str) and isinstance(more, str):
        return before + more if name in _GROWING else more
    if isinstance(before, Mapping) and isinstance(more, Mapping):
        fields: dict[str, Any] = dict(cast(Mapping[str, Any], before))
        for key, value in cast(Mapping[str, Any], more).items():
            fields[key] = joined(fields.get(key), value, key)
        return fields
    if isinstance(before, list) and isinstance(more, list):
        items = list(cast(list[Any], before))
        for item in cast(list[Any], more):
            if items and (index := _index_of(item)) is not None and index == _index_of(items[-1]):
                items[-1] = joined(items[-1], item)
            else:
                items.append(item)
        return items
    return cast(Any, before if more is None else more)


def _index_of(item: Any) -> tuple[Any, Any] | None:
    """Return what the pieces of one part of a list have in common."""
    if not isinstance(item, Mapping):
        return None
    found = cast(Mapping[str, Any], item)
    return (found["index"], found.get("type")) if "index" in found else None


@dataclass(slots=True)
class _Growing:
    """A call that is being gathered. `indexes` are those it was sent with, `sent_id` is
    its first id.
    """

    number: int
    indexes: set[int]
    sent_id: str = ""
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    size: int = 0
    _read: int = 0
    _depth: int = 0
    _in_text: bool = False
    _opened: bool = False
    _escape: str = ""

    @property
    def made(self) -> llm.ToolCall:
        return llm.ToolCall(
            id=self.id or self.sent_id,
            name=self.name,
            arguments="".join(self.arguments),
            extra=self.extra,
        )

    @property
    def is_closed(self) -> bool:
        """Whether the arguments are an object or a list with all of its brackets."""
        return not self.is_open and self._opened

    @property
    def is_open(self) -> bool:
        """Whether a bracket or a text of the arguments is not closed. Each piece is read once."""
        for piece in self.arguments[self._read :]:
            text = self._escape + piece
            signs = _SIGN.findall(text)
            for sign in signs:
                if sign == '"':
                    self._in_text = not self._in_text
                elif len(sign) == 1 and not self._in_text:
                    self._opened = True
                    self._depth += 1 if sign in "{[" else -1
            # A backslash at the end belongs to the next piece's first character.
            slashes = len(text) - len(text.rstrip("\\"))
            self._escape = "\\" if slashes % 2 else ""
        self._read = len(self.arguments)
        return self._depth > 0 or self._in_text


class AnswerReader(ABC):
    """Reads one answer of a format: feed it every event, then take `end`.

    An event that cannot be read is ModelAnswerMalformed, one that contradicts the others
    ModelStreamBroken. Calls get ids that are unique in the conversation: some servers number calls
    from 0 in every answer, repeat an id or send none; others refuse histories with such ids, and an
    answer could be taken for that of an earlier call.
    """

    def __init__(
        self, provider: str, messages: Sequence[llm.Message] = (), *, origin: str = ""
    ) -> None:
        self.provider = provider
        self.origin = origin or provider
        self.extra: dict[str, Any] = {}
        """What has to go back with the answer, beside its text and calls."""
        self.refusal: list[str] = []
        self.made: list[llm.Chunk] = []
        """What the event that is being read brings."""
        self._taken = {
            call.id
            for message in messages
            if isinstance(message, llm.AssistantMessage)
            for call in message.tool_calls
        }
        self._calls: list[_Growing] = []
        self._has_text = False

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the answer is whole: what fails from here on does not matter."""

    @abstractmethod
    def read(self, event: Fields) -> None:
        """Take an event in. Raises: Unreadable, ModelError."""

    @abstractmethod
    def usage(self) -> llm.UsageReport | None:
        """Return the tokens of the request. Raises: Unreadable."""

    @abstractmethod
    def reason(self) -> llm.FinishReason:
        """Return why the answer ended. Raises: ModelError where it is not whole or no answer."""

    def set_aside(self) -> list[llm.ToolCall]:
        """Return the calls that arrived and are no part of the answer."""
        return []

    def feed(self, event: object) -> list[llm.Chunk]:
        """Return what an event, or an answer that was not streamed, brings. Raises: ModelError."""
        self.made = []
        try:
            self.read(Fields(event))
        except Unreadable as exc:
            raise self.malformed(str(exc)) from exc
        return self.made

    def counted(self) -> list[llm.Chunk]:
        """Return what is paid for beside the answer itself: the tokens, and calls that
        are set aside.
        """
        made: list[llm.Chunk] = []
        with suppress(Unreadable):  # an answer is worth more than its count
            usage = self.usage()
            made += [] if usage is None else [usage]
        return [*made, *(llm.ToolCallSetAside(call=call) for call in self.set_aside())]

    def end(self) -> list[llm.Chunk]:
        """Return the calls and the end, after `counted`. Raises: ModelError where no
        answer is whole.
        """
        self.made = []
        try:
            reason = self.reason()
        except Unreadable as exc:
            raise self.malformed(str(exc)) from exc
        if self.refusal and not self._has_text:
            raise ModelContentFiltered(provider=self.provider, reason="".join(self.refusal))
        for call in self._calls:
            self._announce(call)
            made = call.made
            is_whole = llm.is_json(made.arguments) or (reason != "length" and not call.is_open)
            kind = llm.ToolCallReady if is_whole and call.name else llm.ToolCallCut
            self.made.append(kind(index=call.number, call=made))
        if self.extra or any(call.extra for call in self._calls):
            self.made.append(llm.MessageExtra(origin=self.origin, fields=_clean(self.extra)))
        self.made.append(
            llm.Finished(reason="tool_calls" if self._calls and reason == "stop" else reason)
        )
        return self.made

    def text(self, text: str) -> None:
        """Add a piece of the answer, where there is one."""
        if text:
            self._has_text = True
            self.made.append(llm.TextDelta(text=text))

    def thinking(self, text: str) -> None:
        """Add a piece of the model's thinking, where there is one."""
        if text:
            self.made.append(llm.ReasoningDelta(text=text))

    def call(
        self,
        index: int | None,
        *,
        call_id: str = "",
        name: str = "",
        arguments: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Take a fragment of a call, which is announced once its id and name are known.

        A fragment with a name and another id than the call at its index begins another call
        (servers that give every call index 0). One without a name continues a call: that of its
        id or index, else the last one that is not whole (servers that count an index or make an
        id for every fragment).
        """
        call = self._call_of(index, call_id, name, arguments)
        call.sent_id = call.sent_id or call_id
        if name != call.name:
            call.name += name
        if call.size <= MAX_CHARS:
            call.arguments.append(arguments)
            call.size += len(arguments)
        call.extra = joined(call.extra, extra or {})
        if call.sent_id and call.name:
            self._announce(call)

    def _announce(self, call: _Growing) -> None:
        if not call.id:
            is_free = call.sent_id and call.sent_id not in self._taken
            call.id = call.sent_id if is_free else f"call_{uuid.uuid4().hex[:24]}"
            self._taken.add(call.id)
            self.made.append(llm.ToolCallStarted(index=call.number, id=call.id, name=call.name))

    def _call_of(self, index: int | None, call_id: str, name: str, arguments: str) -> _Growing:
        known = self._known(index, call_id, name)
        if known is None and (unfinished := self._unfinished(name, arguments)) is not None:
            known = unfinished
            known.indexes |= {index} if index is not None else set()
        if known is None:
            known = _Growing(number=len(self._calls), indexes=set() if index is None else {index})
            self._calls.append(known)
        return known

    def _known(self, index: int | None, call_id: str, name: str) -> _Growing | None:
        """Return the call that a fragment belongs to by its index or id."""
        if index is None:
            known = next((c for c in self._calls if call_id and c.sent_id == call_id), None)
            if known is None and self._calls and not (call_id or name):
                known = self._calls[-1]
            # A call that is whole may be followed by another of its id.
            return None if known is not None and name and known.is_closed else known
        there = [call for call in reversed(self._calls) if index in call.indexes]
        known = next(
            (call for call in there if call.sent_id == call_id), there[0] if there else None
        )
        if known is None or not call_id or not known.sent_id or call_id == known.sent_id:
            return known
        # Another id: the same call where it is not whole and named alike, else another call.
        return known if name and name == known.name and not known.is_closed else None

    def _unfinished(self, name: str, arguments: str) -> _Growing | None:
        """Return the call that is not whole which a fragment with a new index or id continues, if
        it does: it has no name, or the same name and arguments that begin nothing.
        """
        if name and (not arguments.strip() or arguments.lstrip()[0] in "{["):
            return None
        found = (
            call for call in reversed(self._calls) if not call.is_closed and name in ("", call.name)
        )
        return next(found, None)

    @property
    def gathered(self) -> list[llm.ToolCall]:
        """The calls as far as they have come."""
        return [call.made for call in self._calls]

    @property
    def is_empty(self) -> bool:
        """Whether neither text nor a call came."""
        return not self._has_text and not self._calls

    def malformed(self, reason: str) -> ModelAnswerMalformed:
        return ModelAnswerMalformed(provider=self.provider, reason=reason)

    def broken(self, reason: str) -> ModelStreamBroken:
        return ModelStreamBroken(provider=self.provider, reason=reason)
