"""Asks the model once: lets its text through to the person and gathers what it wants to call."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from graphrag.agent.events import Event, PromptRead, Token, ToolStarted
from graphrag.agent.leaked_calls import LeakFilter
from graphrag.agent.links import LinkFilter, LinkTargets
from graphrag.agent.tool_calls import Requested
from graphrag.llm.base import (
    AssistantMessage,
    FinishReason,
    LLMProvider,
    Message,
    ModelOptions,
    PromptProgress,
    ProviderToolUsed,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallCut,
    ToolCallReady,
    ToolCallSetAside,
    ToolCallStarted,
    ToolSchema,
    UsageReport,
)

MAX_ANSWER_CHARS = 400_000
"""What a model writes beyond is not read."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reply:
    """What a model answers, as far as it has come. `text` is what was shown: without leaked calls
    and links to nothing. `taken` are the call ids of the conversation before."""

    taken: Collection[str] = ()
    text: str = ""
    reasoning: str = ""
    leaked: bool = False
    finish: FinishReason = "unstated"
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    repeated: set[str] = field(default_factory=set[str])
    cut: set[str] = field(default_factory=set[str])
    _ids: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def requested(self) -> Requested:
        return Requested(calls=tuple(self.calls), repeated=self.repeated, cut=self.cut)

    @property
    def message(self) -> AssistantMessage:
        return AssistantMessage(
            content=self.text, tool_calls=tuple(self.calls), reasoning=self.reasoning if self.calls else ""
        )

    def started(self, index: int, call_id: str) -> tuple[str, bool]:
        """Return the id that a call goes by here, and whether it is new."""
        if index in self._ids:
            return self._ids[index], False
        given, again = call_id or "call", 1
        while given in self.taken or given in self._ids.values():
            again += 1
            given = f"{call_id or 'call'}_{again}"
        if given != call_id and call_id:
            self.repeated.add(given)
        self._ids[index] = given
        return given, True


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a model is asked, and by whom its links are checked. Calls of `known_tools` count also as text."""

    messages: Sequence[Message]
    tools: Sequence[ToolSchema]
    options: ModelOptions
    targets: LinkTargets
    known_tools: frozenset[str] = frozenset()


async def ask(provider: LLMProvider, request: Request, reply: Reply) -> AsyncGenerator[Event]:
    """Yield tokens and announced calls as they come, and fill `reply`.

    Raises: ModelError; then `reply` holds what was shown so far.
    """
    leaks, links = LeakFilter(request.known_tools), LinkFilter(request.targets)
    written = 0
    stream = provider.stream(request.messages, request.tools, request.options)
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            match chunk:
                case TextDelta():
                    shown = await links.feed(leaks.feed(chunk.text))
                    if shown:
                        reply.text += shown
                        yield Token(text=shown)
                    written += len(chunk.text)
                case ReasoningDelta():
                    reply.reasoning += chunk.text
                    written += len(chunk.text)
                case ToolCallStarted():
                    call_id, is_new = reply.started(chunk.index, chunk.id)
                    if is_new:
                        yield ToolStarted(call_id=call_id, name=chunk.name)
                case ToolCallReady() | ToolCallCut():
                    call_id, is_new = reply.started(chunk.index, chunk.call.id)
                    if is_new:
                        yield ToolStarted(call_id=call_id, name=chunk.call.name)
                    reply.calls.append(replace(chunk.call, id=call_id))
                    if isinstance(chunk, ToolCallCut):
                        reply.cut.add(call_id)
                case ToolCallSetAside():
                    log.info("tool_call_set_aside", extra={"chars": len(chunk.call.arguments)})
                case PromptProgress():
                    yield PromptRead(done=chunk.done, total=chunk.total)
                case UsageReport() | ProviderToolUsed():
                    pass
                case _:
                    reply.finish = chunk.reason
            if written > MAX_ANSWER_CHARS:
                reply.finish = "length"
                break
    rest = await links.feed(leaks.finish()) + await links.finish()
    reply.leaked = leaks.leaked
    if rest:
        reply.text += rest
        yield Token(text=rest)
    for number, written in enumerate(leaks.calls):
        call_id, _ = reply.started(-1 - number, f"call_{uuid.uuid4().hex[:24]}")
        yield ToolStarted(call_id=call_id, name=written.name)
        reply.calls.append(ToolCall(id=call_id, name=written.name, arguments=written.arguments))
