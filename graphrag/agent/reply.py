"""Gathers one answer of a model: the text that may be shown, and what it wants to call."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection
from dataclasses import replace

from graphrag.agent.events import Event, PromptRead, Token, ToolStarted
from graphrag.agent.history import free_id
from graphrag.agent.leaked_calls import LeakFilter
from graphrag.agent.links import GraphTargets, LinkFilter
from graphrag.agent.requested_calls import Requested
from graphrag.llm.base import (
    AssistantMessage,
    Chunk,
    Finished,
    FinishReason,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallCut,
    ToolCallReady,
    ToolCallSetAside,
    ToolCallStarted,
)

MAX_ANSWER_CHARS = 400_000
"""What a model writes beyond is not read."""

log = logging.getLogger(__name__)


class Reply:
    """What a model answers, as far as it has come. `text` is what was shown: without leaked calls and
    links to nothing. `leaked`: something that looked like a call was taken out of the text.

    `taken` are the call ids of the conversation before; calls of `known_tools` count also as text.
    """

    def __init__(
        self, targets: GraphTargets, *, known_tools: Collection[str] = (), taken: Collection[str] = ()
    ) -> None:
        self.text = self.reasoning = ""
        self.finish: FinishReason = "unstated"
        self.calls: list[ToolCall] = []
        self._leaks, self._links = LeakFilter(known_tools), LinkFilter(targets)
        self._taken, self._ids = taken, dict[int, str]()
        self._repeated, self._cut = set[str](), set[str]()
        self._written = 0

    @property
    def leaked(self) -> bool:
        return self._leaks.leaked

    @property
    def is_full(self) -> bool:
        """Whether the model has written all that is read of it."""
        return self._written > MAX_ANSWER_CHARS

    @property
    def requested(self) -> Requested:
        return Requested(calls=tuple(self.calls), repeated=self._repeated, cut=self._cut)

    @property
    def message(self) -> AssistantMessage:
        return AssistantMessage(
            content=self.text, tool_calls=tuple(self.calls), reasoning=self.reasoning if self.calls else ""
        )

    async def feed(self, chunk: Chunk) -> list[Event]:
        """Take a chunk and return what is to be shown of it."""
        match chunk:
            case TextDelta():
                self._written += len(chunk.text)
                return self._shown(await self._links.feed(self._leaks.feed(chunk.text)))
            case ReasoningDelta():
                self._written += len(chunk.text)
                self.reasoning += chunk.text
            case ToolCallStarted():
                return self._started(chunk.index, chunk.id, chunk.name)
            case ToolCallReady() | ToolCallCut():
                started = self._started(chunk.index, chunk.call.id, chunk.call.name)
                call_id = self._ids[chunk.index]
                self.calls.append(replace(chunk.call, id=call_id))
                if isinstance(chunk, ToolCallCut):
                    self._cut.add(call_id)
                return started
            case ToolCallSetAside():
                log.info("tool_call_set_aside", extra={"chars": len(chunk.call.arguments)})
            case PromptProgress():
                return [PromptRead(done=chunk.done, total=chunk.total)]
            case Finished():
                self.finish = chunk.reason
            case _:
                pass  # tokens, and tools that the provider ran
        return []

    async def end(self) -> list[Event]:
        """Return what was held back, and the calls that were written as text."""
        if self.is_full:
            self.finish = "length"
        rest = await self._links.feed(self._leaks.finish()) + await self._links.finish()
        events = self._shown(rest)
        for number, written in enumerate(self._leaks.calls):
            index = -1 - number
            events += self._started(index, f"call_{uuid.uuid4().hex[:24]}", written.name)
            self.calls.append(ToolCall(id=self._ids[index], name=written.name, arguments=written.arguments))
        return events

    def _shown(self, text: str) -> list[Event]:
        self.text += text
        return [Token(text=text)] if text else []

    def _started(self, index: int, call_id: str, name: str) -> list[Event]:
        """Give a call the id that it goes by here, and announce it where it is new."""
        if index in self._ids:
            return []
        given = free_id(call_id, {*self._taken, *self._ids.values()})
        if given != call_id and call_id:
            self._repeated.add(given)
        self._ids[index] = given
        return [ToolStarted(call_id=given, name=name)]
