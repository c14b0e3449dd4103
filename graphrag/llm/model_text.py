"""Converts a provider's chunks into clean text, thinking and calls.

Joins halves of surrogate pairs, separates thinking in tags and channels, removes the marks of chat
templates, and turns calls written as text into calls. Every stream of a provider is read through
this module before it is shown, stored or sent back.
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
    """A provider that knows whether its service sends thinking apart from the answer."""

    @property
    def separates_thinking(self) -> bool: ...


class ThinkingMemory:
    """Remembers which models begin their answers with thinking but omit the opening tag.

    Chat templates may put the opening tag into the prompt. For a provider's own service this is
    known; for a model of another server, the first answer shows it. If the client cannot be told
    later that text was thinking, that first answer is held back until it is complete; a terminal
    shows it at once.
    """

    def __init__(self) -> None:
        self._begins: dict[tuple[str, str], bool] = {}

    def may_begin(self, provider: llm.LLMProvider, *, can_take_back: bool) -> bool:
        """Returns whether the answer must be held back because it may begin with thinking."""
        remembered = self._begins.get((provider.name, provider.model))
        if remembered is not None or can_take_back:
            return bool(remembered)
        return isinstance(provider, SeparatesThinking) and not provider.separates_thinking

    def note(self, provider: llm.LLMProvider, answer: ModelText) -> None:
        """Records how an answer began."""
        key = (provider.name, provider.model)
        if answer.began_in_thinking or (answer.has_text and key not in self._begins):
            self._begins[key] = answer.began_in_thinking


class ModelText:
    """Reads one answer. `tools`: names of the tools whose calls are also recognized in the text.

    `holds_beginning`: holds text back until it is known whether the answer begins with thinking
    without an opening tag. `leaked`: text that looked like a call was removed, but it is not a
    valid call.
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
        """Reads a provider's chunk and returns the chunks that are final."""
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
        """Returns the text held back, the calls written as text, and the end of the answer.

        A call that is still open is cut, not executed, if the answer was cut off.
        """
        self._is_cut = is_cut or (self._finished is not None and self._finished.reason == "length")
        chunks = self._read(self._text.rest(), final=True)
        if thought := self._thinking.rest():
            chunks.append(llm.ReasoningDelta(text=thought))
        chunks += self._release()
        text, calls, is_leak = self._lines.finish()
        chunks += self._shown(text)
        self._calls += [(call, self._is_cut) for call in calls]
        self.leaked = self.leaked or is_leak
        for number, (written, cut) in enumerate(self._calls):
            call = llm.ToolCall(
                id=f"call_{uuid.uuid4().hex[:24]}", name=written.name, arguments=written.arguments
            )
            index = -1 - number
            chunks.append(llm.ToolCallStarted(index=index, id=call.id, name=call.name))
            chunks.append((llm.ToolCallCut if cut else llm.ToolCallReady)(index=index, call=call))
        self._calls = []
        return [*chunks, *([] if self._finished is None else [self._finished])]

    def _read(self, text: str, *, final: bool = False) -> list[llm.Chunk]:
        chunks: list[llm.Chunk] = []
        for kind, part in _merged(self._marks.feed(text, final=final)):
            match kind:
                case "text":
                    if self._held is None:
                        chunks += self._let_through(part)
                    else:
                        self._held.append(part)
                case "thinking":
                    if self._held is not None and not "".join(self._held).strip():
                        chunks += self._release()
                    self._is_bare = self._is_bare or not self.has_text
                    chunks.append(llm.ReasoningDelta(text=part))
                case "call":
                    self._take_call(part, is_open=final)
                case "unthink":
                    chunks += self._was_thinking()
        return chunks

    def _take_call(self, text: str, *, is_open: bool) -> None:
        """Reads the text between the marks of a call, or after a mark that is never closed."""
        calls = read_calls(text, self._tools) if len(text) <= CALL_TEXT_LIMITS.call_chars else []
        self._calls += [(call, is_open and self._is_cut) for call in calls]
        self.leaked = self.leaked or not calls

    def _was_thinking(self) -> Iterator[llm.Chunk]:
        """Yields the text so far as thinking whose opening tag is missing, without the
        calls in it.
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
    """Yields the parts, with consecutive parts of text joined."""
    for kind, group in groupby(parts, key=itemgetter(0)):
        if kind == "text":
            yield kind, "".join(text for _, text in group)
        else:
            yield from group


class _TextPieces:
    """Joins halves of surrogate pairs across pieces; a half without its partner becomes U+FFFD."""

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
    """Passes lines on until one may begin a call without marks: an object, a block of code, a
    heading.

    The rest is held back to the end. It is a call if nothing else follows, and shown otherwise, so
    that JSON which a person asked for is displayed.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._lines = list[str]()
        self._size = 0
        self._is_call = self._is_dropped = self._has_shown = False
        self._is_line_start = True

    def feed(self, text: str) -> str:
        """Reads a piece and returns the complete lines before a possible call."""
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
        """Returns the held text that is not a call, the calls, and whether there was an invalid
        call.

        JSON in the middle of an answer is shown as text.
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
        """Text that may still become a call."""
        return "".join(self._lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The text and the calls of a complete answer."""

    text: str
    tool_calls: tuple[llm.ToolCall, ...]


async def complete(
    provider: llm.LLMProvider,
    messages: Sequence[llm.Message],
    tools: Sequence[llm.ToolSchema] = (),
    options: llm.ModelOptions = llm.DEFAULT_OPTIONS,
    on_chunk: Callable[[llm.Chunk], None] | None = None,
) -> Completion:
    """Returns the complete answer. `on_chunk` is called with each chunk. Raises: ModelError."""
    answer = ModelText([str(tool["function"]["name"]) for tool in tools])
    chunks: list[llm.Chunk] = []
    async with aclosing(provider.stream(messages, tools, options)) as stream:
        async for chunk in stream:
            if on_chunk is not None:
                on_chunk(chunk)
            chunks += answer.feed(chunk)
    chunks += answer.end()
    text: list[str] = []
    for chunk in chunks:
        if isinstance(chunk, llm.TextDelta):
            text.append(chunk.text)
        elif isinstance(chunk, llm.TextWasThinking):
            text.clear()
    calls = tuple(chunk.call for chunk in chunks if isinstance(chunk, llm.ToolCallReady))
    return Completion(text="".join(text), tool_calls=calls)
