"""Base of the readers of streamed answers, and typed access to the fields of an event.

Fields are checked even where the client packages declare a type: servers send other types, and the
packages do not validate.
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

# Longest arguments that are kept. Longer ones are cut, so they are not valid JSON and are refused.
MAX_CHARS = 1_000_000

_WHOLE = re.compile(r"-?\d{1,15}(?:\.0)?")
_SIGN = re.compile(r'\\.|["{}\[\]]', re.DOTALL)

# Fields of reasoning whose pieces are concatenated. Any other field is replaced by its last value.
_GROWING = frozenset(
    ("reasoning_content", "reasoning", "reasoning_text", "text", "summary", "thinking", "data")
)


class Unreadable(Exception):
    """Raised when a field has another type than its format defines."""


class Fields:
    """The fields of a JSON object or of an object of a client package. A missing field is the same
    as null.

    Raises, in all methods: Unreadable, with the name of the field.
    """

    __slots__ = ("_name", "_raw")

    def __init__(self, raw: object, name: str = "an event") -> None:
        if not isinstance(raw, dict | BaseModel):
            raise Unreadable(f"{name}: it is no object")
        self._raw = cast(Any, raw)
        self._name = name

    def any(self, name: str) -> Any:
        """Returns a field as it is."""
        if isinstance(self._raw, dict):
            return cast(dict[str, Any], self._raw).get(name)
        value = self._raw.__dict__.get(name)
        extra = self._raw.model_extra if value is None else None
        return extra.get(name) if extra else value

    def text(self, name: str) -> str:
        """Returns a text field; empty if it is missing."""
        value = self.any(name)
        if value is not None and not isinstance(value, str):
            raise Unreadable(f"{name}: it is no text")
        return value or ""

    def json(self, name: str) -> str:
        """Returns a text field, or the JSON of an object or list that some servers send instead."""
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
        """Returns a number that is not negative; 0 if it is missing."""
        value = self.number(name) or 0
        if value < 0:
            raise Unreadable(f"{name}: it is negative")
        return value

    def has(self, name: str) -> bool:
        return self.any(name) is not None

    def part(self, name: str) -> Fields:
        """Returns an object field; an object without fields if it is missing."""
        value = self.any(name)
        return Fields({} if value is None else value, name)

    def others(self, except_for: Container[str]) -> dict[str, Any]:
        """Returns the fields that are not in `except_for` and not null, as JSON. Empty texts are
        included.
        """
        if isinstance(self._raw, dict):
            fields = cast(dict[str, Any], self._raw)
        else:
            fields: dict[str, Any] = {**self._raw.__dict__, **(self._raw.model_extra or {})}
        return {
            name: plain(v) for name, v in fields.items() if name not in except_for and v is not None
        }

    def parts(self, name: str) -> list[Fields]:
        """Returns a list of objects; empty if it is missing."""
        value = self.any(name)
        if value is not None and not isinstance(value, list):
            raise Unreadable(f"{name}: it is no list")
        return [Fields(item, name) for item in cast(list[object], value or ())]


def plain(value: Any) -> Any:
    """Returns a value of a client package as JSON data."""
    return (
        value.model_dump(mode="json", exclude_unset=True) if isinstance(value, BaseModel) else value
    )


def _clean(value: Any) -> Any:
    """Returns a JSON value whose texts can be stored and sent (see `base.clean`)."""
    if isinstance(value, str):
        return llm.clean(value)
    if isinstance(value, Mapping):
        return {llm.clean(name): _clean(v) for name, v in cast(Mapping[str, Any], value).items()}
    return [_clean(item) for item in cast(list[Any], value)] if isinstance(value, list) else value


def joined(before: Any, more: Any, name: str = "") -> Any:
    """Returns the value of the field `name` after its next piece, `more`, has arrived."""
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
    """Returns the index and type of an item of a list; pieces of one item have the same."""
    if not isinstance(item, Mapping):
        return None
    fields = cast(Mapping[str, Any], item)
    return (fields["index"], fields.get("type")) if "index" in fields else None


@dataclass(slots=True)
class _PartialCall:
    """A call whose pieces are being collected.

    `indexes`: those that its pieces were sent with. `sent_id`: the id that the server gave it.
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
    def call(self) -> llm.ToolCall:
        return llm.ToolCall(
            id=self.id or self.sent_id,
            name=self.name,
            arguments="".join(self.arguments),
            extra=self.extra,
        )

    @property
    def is_closed(self) -> bool:
        """Whether the arguments are an object or a list that is complete."""
        return not self.is_open and self._opened

    @property
    def is_open(self) -> bool:
        """Whether a bracket or a string of the arguments is not closed. Reads each piece once."""
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
    """Reads one answer in a provider's format. Call `feed` with each event, then `counted` and
    `end`.

    Raises ModelAnswerMalformed for an event that cannot be read, and ModelStreamBroken for one that
    contradicts the others. Gives calls ids that are unique in the conversation: some servers number
    calls from 0 in each answer, repeat an id or send none. Others refuse histories with repeated
    ids, and a result could be matched to an earlier call.
    """

    def __init__(
        self, provider: str, messages: Sequence[llm.Message] = (), *, origin: str = ""
    ) -> None:
        self.provider = provider
        self.origin = origin or provider
        # Fields that are sent back with the answer in later requests.
        self.extra: dict[str, Any] = {}
        self.refusal: list[str] = []
        # Chunks of the current event.
        self.chunks: list[llm.Chunk] = []
        self._taken = {
            call.id
            for message in messages
            if isinstance(message, llm.AssistantMessage)
            for call in message.tool_calls
        }
        self._calls: list[_PartialCall] = []
        self._has_text = False

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the answer is complete. Errors after that are ignored."""

    @abstractmethod
    def read(self, event: Fields) -> None:
        """Reads an event. Raises: Unreadable, ModelError."""

    @abstractmethod
    def usage(self) -> llm.UsageReport | None:
        """Returns the tokens of the request. Raises: Unreadable."""

    @abstractmethod
    def reason(self) -> llm.FinishReason:
        """Returns why the answer ended. Raises: ModelError if it is incomplete or not an answer."""

    def set_aside(self) -> list[llm.ToolCall]:
        """Returns the calls that were received but are not part of the answer."""
        return []

    def feed(self, event: object) -> list[llm.Chunk]:
        """Returns the chunks of an event, or of an answer that was not streamed. Raises:
        ModelError.
        """
        self.chunks = []
        try:
            self.read(Fields(event))
        except Unreadable as exc:
            raise self.malformed(str(exc)) from exc
        return self.chunks

    def counted(self) -> list[llm.Chunk]:
        """Returns the token counts, and the calls that are billed but not part of the answer."""
        counts: list[llm.Chunk] = []
        with suppress(Unreadable):  # the answer is kept if its counts cannot be read
            usage = self.usage()
            counts += [] if usage is None else [usage]
        return [*counts, *(llm.ToolCallSetAside(call=call) for call in self.set_aside())]

    def end(self) -> list[llm.Chunk]:
        """Returns the calls and the end of the answer; call it after `counted`.

        Raises: ModelError if the answer is incomplete.
        """
        self.chunks = []
        try:
            reason = self.reason()
        except Unreadable as exc:
            raise self.malformed(str(exc)) from exc
        if self.refusal and not self._has_text:
            raise ModelContentFiltered(provider=self.provider, reason="".join(self.refusal))
        for partial in self._calls:
            self._announce(partial)
            call = partial.call
            is_whole = llm.is_json(call.arguments) or (reason != "length" and not partial.is_open)
            kind = llm.ToolCallReady if is_whole and call.name else llm.ToolCallCut
            self.chunks.append(kind(index=partial.number, call=call))
        if self.extra or any(call.extra for call in self._calls):
            self.chunks.append(llm.MessageExtra(origin=self.origin, fields=_clean(self.extra)))
        self.chunks.append(
            llm.Finished(reason="tool_calls" if self._calls and reason == "stop" else reason)
        )
        return self.chunks

    def text(self, text: str) -> None:
        """Adds a piece of the answer, if it is not empty."""
        if text:
            self._has_text = True
            self.chunks.append(llm.TextDelta(text=text))

    def thinking(self, text: str) -> None:
        """Adds a piece of the model's thinking, if it is not empty."""
        if text:
            self.chunks.append(llm.ReasoningDelta(text=text))

    def call(
        self,
        index: int | None,
        *,
        call_id: str = "",
        name: str = "",
        arguments: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Adds a fragment of a call. The call is announced once its id and name are known.

        A fragment with a name and another id than the call at its index begins a new call, since
        some servers give each call index 0. A fragment without a name continues the call with its
        id or index, or else the last incomplete call, since some servers give each fragment a new
        index or id.
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

    def _announce(self, call: _PartialCall) -> None:
        if not call.id:
            is_free = call.sent_id and call.sent_id not in self._taken
            call.id = call.sent_id if is_free else f"call_{uuid.uuid4().hex[:24]}"
            self._taken.add(call.id)
            self.chunks.append(llm.ToolCallStarted(index=call.number, id=call.id, name=call.name))

    def _call_of(self, index: int | None, call_id: str, name: str, arguments: str) -> _PartialCall:
        call = self._matching_call(index, call_id, name)
        if call is None and (incomplete := self._incomplete_call(name, arguments)) is not None:
            call = incomplete
            call.indexes |= {index} if index is not None else set()
        if call is None:
            call = _PartialCall(
                number=len(self._calls), indexes=set() if index is None else {index}
            )
            self._calls.append(call)
        return call

    def _matching_call(self, index: int | None, call_id: str, name: str) -> _PartialCall | None:
        """Returns the call that a fragment belongs to by its index or id."""
        if index is None:
            call = next((c for c in self._calls if call_id and c.sent_id == call_id), None)
            if call is None and self._calls and not (call_id or name):
                call = self._calls[-1]
            # A complete call may be followed by another one with the same id.
            return None if call is not None and name and call.is_closed else call
        with_index = [call for call in reversed(self._calls) if index in call.indexes]
        call = next(
            (call for call in with_index if call.sent_id == call_id),
            with_index[0] if with_index else None,
        )
        if call is None or not call_id or not call.sent_id or call_id == call.sent_id:
            return call
        # Another id: the same call if it is incomplete and has the same name, else a new call.
        return call if name and name == call.name and not call.is_closed else None

    def _incomplete_call(self, name: str, arguments: str) -> _PartialCall | None:
        """Returns the incomplete call that a fragment with a new index or id continues, or None.

        The fragment continues a call if it has no name, or the same name and arguments that do not
        begin a new object.
        """
        if name and (not arguments.strip() or arguments.lstrip()[0] in "{["):
            return None
        candidates = (
            call for call in reversed(self._calls) if not call.is_closed and name in ("", call.name)
        )
        return next(candidates, None)

    @property
    def gathered(self) -> list[llm.ToolCall]:
        """The calls received so far."""
        return [partial.call for partial in self._calls]

    @property
    def is_empty(self) -> bool:
        """Whether the answer has neither text nor calls."""
        return not self._has_text and not self._calls

    def malformed(self, reason: str) -> ModelAnswerMalformed:
        return ModelAnswerMalformed(provider=self.provider, reason=reason)

    def broken(self, reason: str) -> ModelStreamBroken:
        return ModelStreamBroken(provider=self.provider, reason=reason)
