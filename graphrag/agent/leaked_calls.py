"""Takes tool calls that a model wrote into its text out of the stream, however the pieces are cut.

A marker and what follows, to its closing mark, is left out; without a closing mark, all the rest is.
What may be a call without a marker is held back until that is known, at the beginning of a line.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from string import ascii_lowercase, ascii_uppercase

from graphrag.agent.written_calls import HELD_CHARS, WrittenCall, may_be_call, read_calls

MARKERS = (
    *("<｜DSML｜", "<|DSML|", "<function_calls>", "<function_call>", "<tool_call>"),
    *("<|python_tag|>", "[TOOL_CALLS]"),
)
_TO_THE_END = ("<|python_tag|>", "[tool_calls]")
"""Markers without a closing mark."""

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
"""Changes no length, as `str.lower` may."""
_FOLDED = tuple(marker.translate(_LOWER) for marker in MARKERS)
_OPENING = re.compile("|".join(re.escape(marker) for marker in _FOLDED))
_LONGEST = max(map(len, MARKERS))
_NAME = re.compile(r"[a-z_]{0,40}")


class LeakFilter:
    """Lets text through piece by piece. `calls` are what was written of calls of `tools`; `leaked` says
    whether something else was taken out."""

    def __init__(self, tools: Collection[str] = ()) -> None:
        self.leaked = False
        self.calls: list[WrittenCall] = []
        self._tools = tools
        self._lines = _Lines(tools)
        self._body: list[str] = []
        self._body_size = 0
        self._held = ""
        self._marker: str | None = None
        self._closing: str | None = None
        self._recent = ""

    def feed(self, text: str) -> str:
        """Take a piece and return what may be shown by now."""
        self._held += text
        shown: list[str] = []
        while self._step(shown):
            pass
        return self._lines.feed("".join(shown))

    def finish(self) -> str:
        """Return what was held back as the possible beginning of a call and is none."""
        held, self._held = self._held, ""
        if self._marker:
            self._take(held)
            self._close()
            held = ""
        shown = self._lines.feed(held) + self._lines.finish()
        self.leaked = self.leaked or self._lines.leaked
        self.calls += self._lines.calls
        return shown

    def _take(self, text: str) -> None:
        """Keep what stands between marks, as far as it may be a call."""
        self._body_size += len(text)
        if self._body_size <= HELD_CHARS:
            self._body.append(text)

    def _close(self) -> None:
        found = read_calls("".join(self._body), self._tools)
        self.calls += found
        self.leaked = self.leaked or not found
        self._body.clear()
        self._body_size = 0

    def _step(self, shown: list[str]) -> bool:
        """Deal with what is held up to the next change of state; False: more text is needed."""
        if self._marker is None:
            return self._outside(shown)
        if self._closing is None:
            return self._name()
        folded = self._held.translate(_LOWER)
        end = folded.find(self._closing)
        if end < 0:
            keep = len(self._held) - (len(self._closing) - 1)
            self._take(self._held[: max(0, keep)])
            self._held = self._held[max(0, keep) :]
            return False
        self._take(self._held[:end])
        self._close()
        self._held = self._held[end + len(self._closing) :]
        self._marker = self._closing = None
        return True

    def _outside(self, shown: list[str]) -> bool:
        folded = self._held.translate(_LOWER)
        found = _OPENING.search(folded)
        if found is None:
            keep = _possible_beginning(folded)
            cut = len(self._held) - keep
            self._show(self._held[:cut], shown)
            self._held = self._held[cut:]
            return False
        self._show(self._held[: found.start()], shown)
        if _possible_beginning(self._recent):
            self._show(" ", shown)  # "<tool", a call and "_call>" must not join into a marker
        self._held = self._held[found.end() :]
        self._marker = found.group()
        if self._marker in _TO_THE_END:
            self._closing = "\0"
        elif self._marker.endswith(">"):
            self._closing = "</" + self._marker[1:]
        return True

    def _show(self, text: str, shown: list[str]) -> None:
        shown.append(text)
        self._recent = (self._recent + text.translate(_LOWER))[-_LONGEST:]

    def _name(self) -> bool:
        """Read the element's name after a DSML marker; its closing mark repeats it."""
        found = _NAME.match(self._held.translate(_LOWER))
        name = found.group() if found else ""
        if len(name) == len(self._held):
            return False
        self._closing = f"</{(self._marker or '<')[1:]}{name}>"
        return True


def _possible_beginning(folded: str) -> int:
    """Return how many characters at the end may be the beginning of a marker."""
    place = max(folded.rfind("<"), folded.rfind("["))
    tail = folded[place:] if place >= 0 else ""
    return len(tail) if tail and any(marker.startswith(tail) for marker in _FOLDED) else 0


class _Lines:
    """Lets lines through; from where a call may begin, what comes is held until that is known."""

    def __init__(self, tools: Collection[str]) -> None:
        self.leaked = False
        self.calls: list[WrittenCall] = []
        self._tools = tools
        self._held: list[str] = []
        self._size = 0
        self._is_call = False
        self._is_line_start = True
        self._shown = False

    def feed(self, text: str) -> str:
        if not text or not self._tools:
            return text
        self._size += len(text)
        self._held.append(text)
        if self._is_call:
            if self._size > HELD_CHARS:
                self._held.clear()
                self.leaked = True
            return ""
        held, shown = "".join(self._held), ""
        while held:
            verdict = may_be_call(held, self._tools) if self._is_line_start else False
            if verdict is not False:
                self._is_call = bool(verdict)
                break
            line, end, held = held.partition("\n")
            shown += line + end
            self._is_line_start = bool(end)
        self._held, self._size = [held] if held else [], len(held)
        self._shown = self._shown or bool(shown.strip())
        return shown

    def finish(self) -> str:
        """Return what was held and is no call: JSON in the middle of an answer is meant to be seen."""
        held = "".join(self._held)
        if not self._is_call or self.leaked:
            return "" if self.leaked else held
        self.calls = read_calls(held, self._tools)
        if self.calls:
            return ""
        self.leaked = not self._shown
        return held if self._shown else ""
