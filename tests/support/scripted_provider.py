"""A language model that plays a script; a call nobody scripted, and a step nobody asked for, fail.

A step is a text, a `Says`, an exception (raised before anything is said), or a function from the
request to one of these. What each call was sent is kept in `requests`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from graphrag.llm.base import (
    DEFAULT_OPTIONS,
    Chunk,
    Finished,
    FinishReason,
    Message,
    ModelOptions,
    PromptRead,
    TextDelta,
    ToolCall,
    ToolCallCut,
    ToolCallReady,
    ToolCallStarted,
    ToolSchema,
    UsageReport,
)
from tests.support.valid_history import check_valid

_numbers = itertools.count(1)


def call(name: str, arguments: Any = None, *, call_id: str | None = None) -> ToolCall:
    """A tool call; `arguments` as an object, or as the text a model wrote."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ToolCall(id=call_id or f"call_{next(_numbers)}", name=name, arguments=raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Says:
    """One answer. `then` is raised at its end in place of finishing; `held` waits there until it is
    set, after `reading` (tokens read, of how many) right then.
    """

    text: str = ""
    calls: Sequence[ToolCall] = ()
    cut: Sequence[ToolCall] = ()
    finish: FinishReason = "stop"
    pieces: Sequence[str] = ()
    usage: UsageReport | None = field(
        default_factory=lambda: UsageReport(prompt=100, completion=10)
    )
    then: BaseException | None = None
    held: asyncio.Event | None = None
    reading: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...]
    options: ModelOptions


class FixedModel:
    """Implements LLMProvider by what `answer` makes of a conversation, for processes that
    play no script.
    """

    name, model, context_window = "scripted", "script-1", 128_000

    def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Chunk]:
        raise NotImplementedError

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        return self.answer(messages)

    async def aclose(self) -> None:
        return None


def calls_chunks(*calls: ToolCall) -> Iterator[Chunk]:
    """Yield the pieces of calls side by side."""
    for index, call in enumerate(calls):
        yield ToolCallStarted(index=index, id=call.id, name=call.name)
        yield ToolCallReady(index=index, call=call)


Step = str | Says | BaseException | Callable[[Asked], "Step"]


class ScriptedProvider:
    """Implements LLMProvider from a script. Each request must be a valid conversation."""

    def __init__(self, *steps: Step, context_window: int = 128_000) -> None:
        self.name = "scripted"
        self.model = "script-1"
        self.context_window = context_window
        self.requests: list[Asked] = []
        self.closed_early = 0
        self._steps = deque(steps)
        self._unexpected = 0

    def play(self, *steps: Step) -> None:
        self._steps.extend(steps)

    def play_instead(self, *steps: Step) -> None:
        """Forget what is left of the script and play this."""
        self._steps.clear()
        self.play(*steps)

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        check_valid(messages)
        asked = Asked(messages=tuple(messages), tools=tuple(tools), options=options)
        self.requests.append(asked)
        if not self._steps:
            self._unexpected += 1
            raise AssertionError("the model was asked once more than scripted")
        step = self._steps.popleft()
        while callable(step):
            step = step(asked)
        if isinstance(step, BaseException):
            raise step
        says = Says(text=step) if isinstance(step, str) else step
        try:
            if says.reading is not None:
                yield PromptRead(done=says.reading[0], total=says.reading[1])
                if says.held is not None:
                    await says.held.wait()
            for chunk in _chunks(says):
                yield chunk
            if says.held is not None:
                await says.held.wait()
            if says.then is not None:
                raise says.then
            yield Finished(
                reason="tool_calls" if says.calls and says.finish == "stop" else says.finish
            )
        except (GeneratorExit, asyncio.CancelledError):
            self.closed_early += 1
            raise

    async def aclose(self) -> None:
        return None

    def check(self) -> None:
        """Fail if the script was not played to its end, or beyond."""
        assert not self._steps, f"{len(self._steps)} scripted steps were never asked for"
        assert not self._unexpected, "the model was asked more often than scripted"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.check()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exc: Any) -> None:
        self.__exit__(*exc)


def _chunks(says: Says) -> list[Chunk]:
    made: list[Chunk] = [
        TextDelta(text=piece) for piece in (says.pieces or ([says.text] if says.text else []))
    ]
    whole = [
        *((call, ToolCallReady) for call in says.calls),
        *((call, ToolCallCut) for call in says.cut),
    ]
    made += [
        ToolCallStarted(index=i, id=call.id, name=call.name) for i, (call, _) in enumerate(whole)
    ]
    if says.usage is not None:
        made.append(says.usage)
    if says.then is None:
        made += [kind(index=i, call=call) for i, (call, kind) in enumerate(whole)]
    return made
