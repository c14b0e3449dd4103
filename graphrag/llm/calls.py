"""Gathers the tool calls of one answer from their fragments; knows no wire format's names."""

from __future__ import annotations

import json
import uuid
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from graphrag.llm.base import (
    AssistantMessage,
    FinishReason,
    Message,
    ToolCall,
    ToolCallCut,
    ToolCallReady,
    ToolCallSetAside,
    ToolCallStarted,
)

MAX_CHARS = 1_000_000
"""Arguments are not read further; what is left of them is no JSON, and refused."""


class CallIds:
    """Hands out ids that are unique in a conversation.

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


def is_json(text: str) -> bool:
    """Return whether a text is one whole JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
