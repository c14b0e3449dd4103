"""Reads answers piece by piece: what the readers of all formats share, and how tool calls are gathered.

What a server sent may be of any shape: the client packages let an attribute that they declare as text be
a number.
"""

from __future__ import annotations

import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import BaseModel

from graphrag.llm import base as llm
from graphrag.llm.errors import ModelAnswerMalformed, ModelContentFiltered, ModelEmptyReply, ModelStreamBroken

MAX_CHARS = 1_000_000
"""Arguments are not read further; what is left of them is no JSON, and refused."""

_WHOLE = re.compile(r"-?\d{1,15}(?:\.0)?")


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
        self._raw, self._name = cast(Any, raw), name

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
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else self.text(name)

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

    def parts(self, name: str) -> list[Fields]:
        """Return a list of objects; empty where it is missing."""
        value = self.any(name)
        if value is not None and not isinstance(value, list):
            raise Unreadable(f"{name}: it is no list")
        return [Fields(item, name) for item in cast(list[object], value or ())]


@dataclass(slots=True)
class _Growing:
    """A call that is being gathered. `index` is the one it was sent with, `sent_id` the id."""

    number: int
    index: int | None
    sent_id: str = ""
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    size: int = 0

    @property
    def made(self) -> llm.ToolCall:
        return llm.ToolCall(id=self.id or self.sent_id, name=self.name, arguments="".join(self.arguments))


class AnswerReader(ABC):
    """Reads one answer of a format: feed it every event, then take `end`.

    An event that cannot be read is ModelAnswerMalformed, one that contradicts the others ModelStreamBroken.
    Calls get ids that are unique in the conversation: some servers number calls from 0 in every answer,
    repeat an id or send none; others refuse histories with such ids, and an answer could be taken for that
    of an earlier call.
    """

    def __init__(self, provider: str, messages: Sequence[llm.Message] = ()) -> None:
        self.provider = provider
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
        """Return what is paid for beside the answer itself: the tokens, and calls that are set aside."""
        made: list[llm.Chunk] = []
        with suppress(Unreadable):  # an answer is worth more than its count
            usage = self.usage()
            made += [] if usage is None else [usage]
        return [*made, *(llm.ToolCallSetAside(call=call) for call in self.set_aside())]

    def end(self) -> list[llm.Chunk]:
        """Return the calls and the end, after `counted`. Raises: ModelError where no answer is whole."""
        self.made = []
        try:
            reason = self.reason()
        except Unreadable as exc:
            raise self.malformed(str(exc)) from exc
        if self.refusal and not self._has_text:
            raise ModelContentFiltered(provider=self.provider, reason="".join(self.refusal))
        if any(not call.name for call in self._calls):
            raise self.malformed("a tool call without a name")
        for call in self._calls:
            self._announce(call)
            made = call.made
            cut = reason == "length" and not llm.is_json(made.arguments)
            self.made.append((llm.ToolCallCut if cut else llm.ToolCallReady)(index=call.number, call=made))
        if self.is_empty and reason != "length":
            raise ModelEmptyReply(provider=self.provider, reason="neither text nor a tool call")
        self.made.append(llm.Finished(reason="tool_calls" if self._calls and reason == "stop" else reason))
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

    def call(self, index: int | None, *, call_id: str = "", name: str = "", arguments: str = "") -> None:
        """Take a fragment of a call, which is announced once its id and name are known.

        A fragment that brings another id to an index in use begins another call (servers that give
        every call index 0); one that repeats id or name continues the call it repeats; one without
        index belongs to the call of its id, else to the last call.
        """
        call = self._call_of(index, call_id, name)
        call.sent_id = call.sent_id or call_id
        if name != call.name:
            call.name += name
        if call.size <= MAX_CHARS:
            call.arguments.append(arguments)
            call.size += len(arguments)
        if call.sent_id and call.name:
            self._announce(call)

    def _announce(self, call: _Growing) -> None:
        if not call.id:
            is_free = call.sent_id and call.sent_id not in self._taken
            call.id = call.sent_id if is_free else f"call_{uuid.uuid4().hex[:24]}"
            self._taken.add(call.id)
            self.made.append(llm.ToolCallStarted(index=call.number, id=call.id, name=call.name))

    def _call_of(self, index: int | None, call_id: str, name: str) -> _Growing:
        if index is None:
            known = next((c for c in self._calls if call_id and c.sent_id == call_id), None)
            if known is None and self._calls and not (call_id or name):
                known = self._calls[-1]
            # A call that is whole may be followed by another of its id.
            begins = known is None or (name and llm.is_json("".join(known.arguments)))
        else:
            known = next((call for call in reversed(self._calls) if call.index == index), None)
            begins = known is None or (call_id and known.sent_id and call_id != known.sent_id)
        if known is None or begins:
            known = _Growing(number=len(self._calls), index=index)
            self._calls.append(known)
        return known

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
