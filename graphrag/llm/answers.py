"""Reads answers piece by piece: what the readers of all formats share, and how tool calls are gathered."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from graphrag.llm.base import (
    AssistantMessage,
    Chunk,
    Finished,
    FinishReason,
    Message,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallCut,
    ToolCallReady,
    ToolCallSetAside,
    ToolCallStarted,
    UsageReport,
)
from graphrag.llm.errors import ModelAnswerMalformed, ModelContentFiltered, ModelEmptyReply, ModelStreamBroken
from graphrag.llm.fields import Fields, Unreadable
from graphrag.llm.message_text import is_json

MAX_CHARS = 1_000_000
"""Arguments are not read further; what is left of them is no JSON, and refused."""


class CallIds:
    """Gives ids that are unique in a conversation.

    Some servers number calls from 0 in every answer, repeat an id, or send none; histories with
    such ids are refused by others, and an answer could be taken for that of an earlier call.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._taken = {
            call.id
            for message in messages
            if isinstance(message, AssistantMessage)
            for call in message.tool_calls
        }

    def unique(self, wanted: str | None) -> str:
        chosen = wanted if wanted and wanted not in self._taken else f"call_{uuid.uuid4().hex[:24]}"
        self._taken.add(chosen)
        return chosen


@dataclass(slots=True)
class _Growing:
    number: int
    index: int | None
    sent_id: str = ""
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    size: int = 0
    started: bool = False

    @property
    def made(self) -> ToolCall:
        return ToolCall(id=self.id, name=self.name, arguments="".join(self.arguments))


class CallGatherer:
    """Collects fragments by the index they carry.

    A fragment that brings another id to an index in use begins another call (servers that give
    every call index 0); one that repeats id or name continues the call it repeats; one without
    index belongs to the call of its id, else to the last call.
    """

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._calls: list[_Growing] = []
        self._by_index: dict[int, _Growing] = {}

    def add(
        self, *, index: int | None, call_id: str | None, name: str | None, arguments: str | None
    ) -> Iterator[ToolCallStarted]:
        """Take one fragment; yields the announcement of its call once id and name are known."""
        call = self._call_of(index, call_id or "", name or "")
        call.sent_id = call.sent_id or call_id or ""
        if name and name != call.name:
            call.name += name
        if arguments and call.size <= MAX_CHARS:
            call.arguments.append(arguments)
            call.size += len(arguments)
        if call.sent_id and call.name:
            yield from self._start(call)

    def end(
        self, reason: FinishReason, *, whole: Container[int | None] = ()
    ) -> Iterator[ToolCallStarted | ToolCallReady | ToolCallCut]:
        """Yield every call, in the order they began.

        In an answer cut for its length, a call that is no JSON is cut, unless its index is in `whole`.
        """
        for call in self._calls:
            yield from self._start(call)
            made = call.made
            cut = reason == "length" and call.index not in whole and not is_json(made.arguments)
            yield (ToolCallCut if cut else ToolCallReady)(index=call.number, call=made)

    def arrived(self) -> Iterator[ToolCallSetAside]:
        """Yield what came of every call, for an answer that none of them is part of."""
        for call in self._calls:
            if not call.started:
                call.id = call.sent_id
            yield ToolCallSetAside(call=call.made)

    @property
    def any(self) -> bool:
        return bool(self._calls)

    @property
    def nameless(self) -> bool:
        """Whether some call never got a name."""
        return any(not call.name for call in self._calls)

    def _start(self, call: _Growing) -> Iterator[ToolCallStarted]:
        if not call.started:
            call.started = True
            call.id = self._ids.unique(call.sent_id)
            yield ToolCallStarted(index=call.number, id=call.id, name=call.name)

    def _call_of(self, index: int | None, call_id: str, name: str) -> _Growing:
        if index is None:
            known = next((c for c in self._calls if call_id and c.sent_id == call_id), None)
            if known is None and self._calls and not (call_id or name):
                known = self._calls[-1]
            if known is None or (
                name and is_json("".join(known.arguments))
            ):  # a whole call, then its id again
                return self._new(None)
            return known
        call = self._by_index.get(index)
        if call is None or (call_id and call.sent_id and call_id != call.sent_id):
            return self._new(index)
        return call

    def _new(self, index: int | None) -> _Growing:
        call = _Growing(number=len(self._calls), index=index)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call


class AnswerReader(ABC):
    """Reads one answer of a format: feed it every event, then take `end`.

    An event that cannot be read is ModelAnswerMalformed, one that contradicts the others ModelStreamBroken.
    """

    def __init__(self, provider: str, ids: CallIds) -> None:
        self.provider = provider
        self.calls = CallGatherer(ids)
        self.refusal: list[str] = []
        self._has_text = False

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the answer is whole: what fails from here on does not matter."""

    def feed(self, event: object) -> Iterator[Chunk]:
        """Yield what an event, or an answer that was not streamed, brings. Raises: ModelError."""
        try:
            yield from self.read(Fields(event))
        except Unreadable as exc:
            raise self.malformed(str(exc)) from exc

    @abstractmethod
    def read(self, event: Fields) -> Iterator[Chunk]:
        """Yield what an event brings. Raises: Unreadable, ModelError."""

    @abstractmethod
    def usage(self) -> UsageReport | None:
        """Return the tokens of the request. Raises: Unreadable."""

    @abstractmethod
    def reason(self) -> FinishReason:
        """Return why the answer ended. Raises: ModelError where it is not whole or no answer."""

    def set_aside(self) -> Iterator[Chunk]:
        """Yield the calls that arrived and are no part of the answer."""
        yield from ()

    def ended_calls(self) -> Container[int | None]:
        """Return the indexes of calls that are whole also in an answer that was cut off."""
        return ()

    def end(self) -> Iterator[Chunk]:
        """Yield the tokens, the calls and the end. Raises: ModelError where there is no whole answer."""
        with suppress(Unreadable):  # an answer is worth more than its count
            if (usage := self.usage()) is not None:
                yield usage
        yield from self.set_aside()
        reason = self.reason()
        if self.refusal and not self._has_text:
            raise ModelContentFiltered(provider=self.provider, reason="".join(self.refusal))
        if self.calls.nameless:
            raise self.malformed("a tool call without a name")
        if self.calls.any:
            yield from self.calls.end(reason, whole=self.ended_calls())
            reason = "tool_calls" if reason == "stop" else reason
        elif not self._has_text and reason != "length":
            raise ModelEmptyReply(provider=self.provider, reason="neither text nor a tool call")
        yield Finished(reason=reason)

    def text(self, text: str | None) -> Iterator[Chunk]:
        """Yield a piece of the answer, where there is one."""
        if text:
            self._has_text = True
            yield TextDelta(text=text)

    @property
    def is_empty(self) -> bool:
        """Whether neither text nor a call came."""
        return not self._has_text and not self.calls.any

    def malformed(self, reason: str) -> ModelAnswerMalformed:
        return ModelAnswerMalformed(provider=self.provider, reason=reason)

    def broken(self, reason: str) -> ModelStreamBroken:
        return ModelStreamBroken(provider=self.provider, reason=reason)


def thinking(text: str | None) -> Iterator[Chunk]:
    """Yield a piece of the model's thinking, where there is one."""
    if text:
        yield ReasoningDelta(text=text)
