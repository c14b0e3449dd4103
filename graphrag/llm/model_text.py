"""The one way of a model's words: what a provider yields becomes answer, thinking and calls.

Halves of surrogate pairs are joined over pieces, thinking between tags and in channels is thinking,
the marks of chat templates are dropped, and calls that were written as text are calls. Every reader
of a provider's stream reads it through this, before anybody sees, stores or resends it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Protocol, runtime_checkable

from graphrag.llm import base as llm
from graphrag.llm.text_marks import CALL_TEXT_LIMITS, Kind, MarkReader
from graphrag.llm.written_calls import WrittenCall, may_be_call, read_calls, read_unknown_calls


@runtime_checkable
class SeparatesThinking(Protocol):
    """A provider that knows whether its service keeps thinking apart from answers."""

    @property
    def separates_thinking(self) -> bool: ...


class ThinkingHabits:
    """Remembers which models begin their answers with thinking and leave its opening tag out.

    Chat templates may put the opening tag into the prompt. A provider's own service knows that; of
    another server's model the first answer shows it. Where a client cannot be told that text was
    thinking after all, that answer is held until it is whole; a terminal shows it as it comes.
    """

    def __init__(self) -> None:
        self._begins: dict[tuple[str, str], bool] = {}

    def may_begin(self, provider: llm.LLMProvider, *, can_take_back: bool) -> bool:
        """Returns whether an answer of the model is to be held, as it may begin with thinking."""
        seen = self._begins.get((provider.name, provider.model))
        if seen is not None or can_take_back:
            return bool(seen)
        return isinstance(provider, SeparatesThinking) and not provider.separates_thinking

    def note(self, provider: llm.LLMProvider, words: ModelText) -> None:
        """Remembers how an answer began."""
        key = (provider.name, provider.model)
        if words.began_in_thinking or (words.has_text and key not in self._begins):
            self._begins[key] = words.began_in_thinking


class ModelText:
    """Reads one answer. `tools` are those whose calls count also as text.

    With `holds_beginning` no text is given before it is known whether the answer begins with
    thinking whose opening tag is missing. `leaked`: something that looked like a call was taken out
    and is none.
    """

    def __init__(self, tools: Collection[str] = (), *, holds_beginning: bool = False) -> None:
        self.leaked = self.began_in_thinking = self.has_text = False
        self._tools = tools
        self._text, self._thinking = _TextPieces(), _TextPieces()
        self._marks, self._lines = MarkReader(), _CallLines(tools)
        self._calls: list[tuple[WrittenCall, bool]] = []
        self._held: list[str] | None = [] if holds_beginning else None
        self._is_bare = False  # thinking was read, and nothing but white space since
        self._finished: llm.Finished | None = None
        self._is_cut = False

    def feed(self, chunk: llm.Chunk) -> list[llm.Chunk]:
        """Takes a chunk of a provider and returns what is sure by now."""
        match chunk:
            case llm.TextDelta():
                return self._read(self._text.joined(chunk.text))
            case llm.ReasoningDelta():
                released = self._release() if self._held == [] else []
                text = self._thinking.joined(chunk.text)
                return [*released, llm.ReasoningDelta(text=text)] if text else released
            case llm.ToolCallStarted():
                return [replace(chunk, id=llm.clean(chunk.id), name=llm.clean(chunk.name))]
            case llm.ToolCallReady() | llm.ToolCallCut():
                call = chunk.call
                whole = {"id": llm.clean(call.id), "name": llm.clean(call.name)}
                return [
                    replace(chunk, call=replace(call, **whole, arguments=llm.clean(call.arguments)))
                ]
            case llm.Finished():
                self._finished = chunk
                return []
            case _:
                return [chunk]

    def end(self, *, is_cut: bool = False) -> list[llm.Chunk]:
        """Returns what was held, the calls that were written as text, and the end of the answer.

        A call that the end leaves open never runs where the answer was cut off.
        """
        self._is_cut = is_cut or (self._finished is not None and self._finished.reason == "length")
        made = self._read(self._text.rest(), final=True)
        if thought := self._thinking.rest():
            made.append(llm.ReasoningDelta(text=thought))
        made += self._release()
        text, calls, is_leak = self._lines.finish()
        made += self._shown(text)
        self._calls += [(call, self._is_cut) for call in calls]
        self.leaked = self.leaked or is_leak
        for number, (written, cut) in enumerate(self._calls):
            call = llm.ToolCall(
                id=f"call_{uuid.uuid4().hex[:24]}", name=written.name, arguments=written.arguments
            )
            index = -1 - number
            made.append(llm.ToolCallStarted(index=index, id=call.id, name=call.name))
            made.append((llm.ToolCallCut if cut else llm.ToolCallReady)(index=index, call=call))
        self._calls = []
        return [*made, *([] if self._finished is None else [self._finished])]

    def _read(self, text: str, *, final: bool = False) -> list[llm.Chunk]:
        made: list[llm.Chunk] = []
        for kind, part in _merged(self._marks.feed(text, final=final)):
            match kind:
                case "text":
                    if self._held is None:
                        made += self._let_through(part)
                    else:
                        self._held.append(part)
                case "thinking":
                    if self._held is not None and not "".join(self._held).strip():
                        made += self._release()
                    self._is_bare = self._is_bare or not self.has_text
                    made.append(llm.ReasoningDelta(text=part))
                case "call":
                    self._take_call(part, is_open=final)
                case "unthink":
                    made += self._was_thinking()
        return made

    def _take_call(self, text: str, *, is_open: bool) -> None:
        """Takes what stands between marks, or after one that nothing closes."""
        calls = read_calls(text, self._tools) if len(text) <= CALL_TEXT_LIMITS.call_chars else []
        self._calls += [(call, is_open and self._is_cut) for call in calls]
        self.leaked = self.leaked or not calls

    def _was_thinking(self) -> Iterator[llm.Chunk]:
        """Yields the text so far as thinking, whose opening tag is missing; no call
        within it counts.
        """
        held = "".join(self._held or ()) + self._lines.held
        self._lines = _CallLines(self._tools)
        if self.has_text:
            yield llm.TextWasThinking()
        if held:
            yield llm.ReasoningDelta(text=held)
        self._held = None
        self._calls = []
        self.leaked, self.has_text = False, False
        self.began_in_thinking = self._is_bare = True

    def _release(self) -> list[llm.Chunk]:
        held = self._held
        self._held = None
        return self._let_through("".join(held)) if held else []

    def _let_through(self, text: str) -> list[llm.Chunk]:
        if self._is_bare:
            text = text.lstrip()
            self._is_bare = not text
        return self._shown(self._lines.feed(text)) if text else []

    def _shown(self, text: str) -> list[llm.Chunk]:
        self.has_text = self.has_text or bool(text.strip())
        return [llm.TextDelta(text=text)] if text else []


def _merged(parts: list[tuple[Kind, str]]) -> Iterator[tuple[Kind, str]]:
    """Yields parts, those of text that follow one another as one."""
    for kind, group in groupby(parts, key=itemgetter(0)):
        if kind == "text":
            yield kind, "".join(text for _, text in group)
        else:
            yield from group


class _TextPieces:
    """Joins halves of surrogate pairs that come in two pieces; a half alone becomes U+FFFD."""

    def __init__(self) -> None:
        self._half = ""

    def joined(self, text: str) -> str:
        text = self._half + text
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return llm.clean(text)

    def rest(self) -> str:
        half = self._half
        self._half = ""
        return llm.clean(half)


class _CallLines:
    """Lets lines through, up to where one begins that may be a call without marks: an object, a
    block of code, a heading. Held to the end, it is a call where nothing else follows, and shown
    otherwise: so JSON that a person asked to see is seen.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._lines = list[str]()
        self._size = 0
        self._is_call = self._is_dropped = self._has_shown = False
        self._is_line_start = True

    def feed(self, text: str) -> str:
        """Takes a piece and returns whole lines, up to where a call may begin."""
        if not text or not self._tools:
            return text
        self._size += len(text)
        self._lines.append(text)
        if self._is_call:
            if self._size > CALL_TEXT_LIMITS.call_chars:
                self._lines.clear()
                self._is_dropped = True
            return ""
        held = "".join(self._lines)
        shown = ""
        if self._size > CALL_TEXT_LIMITS.blank_chars and not held.strip():
            held, shown = "", held
        while held:
            is_whole = not (self._has_shown or shown.strip())
            verdict = (
                may_be_call(held, self._tools, is_whole=is_whole) if self._is_line_start else False
            )
            if verdict or (verdict is None and len(held) <= CALL_TEXT_LIMITS.unsure_chars):
                self._is_call = bool(verdict)
                break
            line, end, held = held.partition("\n")
            shown += line + end
            self._is_line_start = bool(end)
        self._lines, self._size = [held] if held else [], len(held)
        self._has_shown = self._has_shown or bool(shown.strip())
        return shown

    def finish(self) -> tuple[str, list[WrittenCall], bool]:
        """Returns what was held and is no call, the calls, and whether something was neither.

        JSON in the middle of an answer is meant to be seen.
        """
        held = self.held
        if not self._is_call:
            unknown = [] if self._has_shown or not self._tools else read_unknown_calls(held)
            return ("" if unknown else held), unknown, False
        calls = [] if self._is_dropped else read_calls(held, self._tools)
        if not (calls or self._is_dropped or self._has_shown):
            calls = read_unknown_calls(held)
        is_leak = self._is_dropped or not (calls or self._has_shown)
        return ("" if calls or is_leak else held), calls, is_leak

    @property
    def held(self) -> str:
        """What may still be a call."""
        return "".join(self._lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a whole answer says and calls."""

    text: str
    tool_calls: tuple[llm.ToolCall, ...]


async def complete(
    provider: llm.LLMProvider,
    messages: Sequence[llm.Message],
    tools: Sequence[llm.ToolSchema] = (),
    options: llm.ModelOptions = llm.DEFAULT_OPTIONS,
    on_chunk: Callable[[llm.Chunk], None] | None = None,
) -> Completion:
    """Returns the whole answer at once; `on_chunk` is given what the provider
    yields. Raises: ModelError.
    """
    words = ModelText([str(tool["function"]["name"]) for tool in tools])
    chunks: list[llm.Chunk] = []
    async with aclosing(provider.stream(messages, tools, options)) as stream:
        async for chunk in stream:
            if on_chunk is not None:
                on_chunk(chunk)
            chunks += words.feed(chunk)
    chunks += words.end()
    text: list[str] = []
    for chunk in chunks:
        if isinstance(chunk, llm.TextDelta):
            text.append(chunk.text)
        elif isinstance(chunk, llm.TextWasThinking):
            text.clear()
    calls = tuple(chunk.call for chunk in chunks if isinstance(chunk, llm.ToolCallReady))
    return Completion(text="".join(text), tool_calls=calls)
