"""Takes tool calls that a model wrote into its text out of the stream, however the pieces are cut.

A marker and what follows, to its closing mark, is left out; without a closing mark, all the rest is.
What may be a call without a marker (an object, a block of code, a heading) is held back at the
beginning of a line while it may still be a call of a tool by name, and shown otherwise: so JSON that a person
asked to see is seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import Any, cast

from tools import lenient_json

HELD_CHARS = 200_000
"""A longer text is no call; as no tool takes longer arguments."""
_UNSURE_CHARS = 4_000
"""So much is held of an object whose name is still to come."""

_NAMES = ("name", "tool", "tool_name", "function_name", "function", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "kwargs", "params")
_BEFORE = ("type", "id", "index", "tool_call_id")
_TYPES = ("function", "tool_use", "tool_call", "function_call")

_OPENING_MARK = r"""[*#_\s]*(?:function|tool)[ _]calls?\b[*_]*[ \t]*:?[*_]*\s*  # a heading
    |\s*```[ \t]*(?:json|tool_call|tool_code|tool|function|xml|python)?[ \t]*(?:\n|$|(?=[{\[<]))
    |\s*<tools>"""
_OPENINGS = re.compile(rf"(?:{_OPENING_MARK})*\s*", re.IGNORECASE | re.VERBOSE)
_MARKS = re.compile(
    rf"(?:[\s,;]++|{_OPENING_MARK}|</tools>|<\|e\w+_id\|>|\[ARGS\]|```)*", re.IGNORECASE | re.VERBOSE
)
_FIELD = re.compile(r"""[\s\[{]*["'](\w{1,40})["']\s*:\s*(?:["'](\w*)["'])?""")
_PARTIAL_FIELD = re.compile(r"""[\s\[{]*(?:["']\w*["']?\s*:?\s*)?""")
_CALLED = re.compile(r"\s*([A-Za-z_]\w{0,80})(?:\.call|\[ARGS\])?\s*(?=[({])")
_NAMED = re.compile(rf"""["'](?:{"|".join(_NAMES)})["']\s*:\s*["'](?:functions\.)?(\w+)["']""")
_LABELS = ("function call", "tool call", "function_call", "tool_call", "<tools>", "```")


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """`arguments`: the JSON that a model wrote, as of any call."""

    name: str
    arguments: str


def may_be_call(text: str, tools: Collection[str]) -> bool | None:
    """Return whether a text that has begun is a call of one of the tools; None: more of it is needed."""
    opening = _OPENINGS.match(text)
    body = text[opening.end() :] if opening else text
    if not body:
        return None
    if body[0] in "{[":
        return _object_may_be_call(body, tools)
    plain = body.strip("*#_ ").casefold()
    if len(body) < 40 and any(label.startswith(plain) or plain.startswith(label) for label in _LABELS):
        return None
    called = _CALLED.match(body)
    if called is not None:
        return called.group(1) in tools
    return None if re.fullmatch(r"\w+", body) and any(name.startswith(body) for name in tools) else False


def _object_may_be_call(body: str, tools: Collection[str]) -> bool | None:
    """Say it by the first field, where that is none of a call or names it, else by any name in the object."""
    field = _FIELD.match(body)
    if field is None:
        return None if len(body) < 60 and _PARTIAL_FIELD.fullmatch(body) else False
    first, value = field.groups()
    if first not in (*_NAMES, *_ARGUMENTS, *_BEFORE) or (first == "type" and value not in (None, *_TYPES)):
        return False
    names: list[str] = [name for name in _NAMED.findall(body) if name != "function"]
    if first in _ARGUMENTS or not names:
        return True if set(names) & set(tools) else None if len(body) < _UNSURE_CHARS else False
    return names[0] in tools


def read_calls(text: str, tools: Collection[str]) -> list[WrittenCall]:
    """Return the calls that a text consists of; none where it is anything else besides."""
    found: list[WrittenCall] = []
    rest = text
    while rest := _MARKS.sub("", rest, count=1):
        called = _CALLED.match(rest)
        name = called.group(1) if called and called.group(1) in tools else None
        rest = rest[called.end() :] if called and name else rest
        if name and rest.startswith("("):
            rest = rest[1:]
            if not rest.lstrip().startswith("{"):
                inside, _, rest = rest.partition(")")
                # `query="x", limit=3` becomes JSON, as far as it is that plain
                fields = re.sub(r"(?:^|(?<=,))\s*(\w+)\s*=", r'"\1":', inside)
                found.append(WrittenCall(name, f"{{{fields}}}"))
                continue
        value, rest = _first_value(rest)
        rest = rest.lstrip().removeprefix(")") if name else rest
        made = [WrittenCall(name, _text_of(value))] if name else list(_calls_in(value, tools))
        if not made:
            return []
        found += made
    return found


def _first_value(text: str) -> tuple[Any, str]:
    """Return the JSON value that a text begins with, small mistakes in it repaired, and the rest."""
    try:
        value, end = json.JSONDecoder().raw_decode(text)
        return value, text[end:]
    except (ValueError, RecursionError):
        body = re.split(r"\n?\s*(?:```|</tools>)", text, maxsplit=1)
        try:
            return lenient_json.read(body[0]), body[1] if len(body) > 1 else ""
        except (ValueError, RecursionError):
            return None, ""


def _calls_in(value: Any, tools: Collection[str]) -> Iterator[WrittenCall]:
    if isinstance(value, list):
        for item in cast(list[Any], value):
            yield from _calls_in(item, tools)
    if not isinstance(value, Mapping):
        return
    found = cast(Mapping[str, Any], value)
    inner = found.get("tool_calls") or found.get("function")
    if isinstance(inner, Mapping | list):
        yield from _calls_in(cast(Any, inner), tools)
        return
    names = (str(found[key]).removeprefix("functions.") for key in _NAMES if key in found)
    name = next((name for name in names if name != "function"), "")
    given = [key for key in _ARGUMENTS if key in found]
    others = found.keys() - set(_NAMES) - set(_ARGUMENTS) - set(_BEFORE)
    if name in tools and not others:
        yield WrittenCall(name, _text_of(found[given[0]] if given else {}))


def _text_of(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)


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
    whether something else was taken out.

    First what stands between marks is taken out. Of the rest lines are let through; from where a call may
    begin, what comes is held until that is known.
    """

    def __init__(self, tools: Collection[str] = ()) -> None:
        self.leaked = False
        self.calls: list[WrittenCall] = []
        self._tools = tools
        self._held = self._recent = ""
        self._closing: str | None = None
        self._body, self._body_size = list[str](), 0
        self._lines, self._lines_size = list[str](), 0
        self._is_call = self._is_dropped = self._has_shown = False
        self._is_line_start = True

    def feed(self, text: str) -> str:
        """Take a piece and return what may be shown by now."""
        self._held += text
        shown: list[str] = []
        while self._outside(shown) if self._closing is None else self._inside(self._closing):
            pass
        return self._let_through("".join(shown))

    def finish(self) -> str:
        """Return what was held back as the possible beginning of a call and is none."""
        held, self._held = self._held, ""
        if self._closing is not None or _OPENING.match(held.translate(_LOWER)):
            self._close(held)
            held = ""
        return self._let_through(held) + self._finish_lines()

    def _outside(self, shown: list[str]) -> bool:
        """Show what stands before the next mark; False: more text is needed."""
        if "<" not in self._held and "[" not in self._held:
            self._show(self._held, shown)
            self._held = ""
            return False
        folded = self._held.translate(_LOWER)
        found = _OPENING.search(folded)
        keep = found.start() if found else len(folded) - _possible_beginning(folded)
        self._show(self._held[:keep], shown)
        self._held = self._held[keep:]
        if found is None:
            return False
        marker, after = found.group(), found.end()
        closing = "\0" if marker in _TO_THE_END else f"</{marker[1:]}"
        if not marker.endswith((">", "]")):  # an element's name follows, which its closing mark repeats
            name = _NAME.match(folded, after)
            after = name.end() if name else after
            if after == len(folded):
                return False
            closing += f"{folded[found.end() : after]}>"
        if _possible_beginning(self._recent.translate(_LOWER)):
            self._show(" ", shown)  # "<tool", a call and "_call>" must not join into a marker
        self._held, self._closing = self._held[after - keep :], closing
        return True

    def _show(self, text: str, shown: list[str]) -> None:
        shown.append(text)
        self._recent = (self._recent + text)[-_LONGEST:]

    def _inside(self, closing: str) -> bool:
        """Keep what stands before the closing mark; False: more text is needed."""
        end = self._held.translate(_LOWER).find(closing)
        if end >= 0:
            self._close(self._held[:end])
            self._held, self._closing = self._held[end + len(closing) :], None
            return True
        keep = max(0, len(self._held) - (len(closing) - 1))
        self._take(self._held[:keep])
        self._held = self._held[keep:]
        return False

    def _take(self, text: str) -> None:
        """Keep what stands between marks, as far as it may be a call."""
        self._body_size += len(text)
        if self._body_size <= HELD_CHARS:
            self._body.append(text)

    def _close(self, text: str) -> None:
        self._take(text)
        found = read_calls("".join(self._body), self._tools)
        self.calls += found
        self.leaked = self.leaked or not found
        self._body, self._body_size = [], 0

    def _let_through(self, text: str) -> str:
        """Return whole lines, up to where a call may begin."""
        if not text or not self._tools:
            return text
        self._lines_size += len(text)
        self._lines.append(text)
        if self._is_call:
            if self._lines_size > HELD_CHARS:
                self._lines.clear()
                self._is_dropped = True
            return ""
        held, shown = "".join(self._lines), ""
        while held:
            verdict = may_be_call(held, self._tools) if self._is_line_start else False
            if verdict is not False:
                self._is_call = bool(verdict)
                break
            line, end, held = held.partition("\n")
            shown += line + end
            self._is_line_start = bool(end)
        self._lines, self._lines_size = [held] if held else [], len(held)
        self._has_shown = self._has_shown or bool(shown.strip())
        return shown

    def _finish_lines(self) -> str:
        """Return what was held and is no call: JSON in the middle of an answer is meant to be seen."""
        held = "".join(self._lines)
        if not self._is_call:
            return held
        found = [] if self._is_dropped else read_calls(held, self._tools)
        self.calls += found
        is_leak = self._is_dropped or not (found or self._has_shown)
        self.leaked = self.leaked or is_leak
        return "" if found or is_leak else held


def _possible_beginning(folded: str) -> int:
    """Return how many characters at the end may be the beginning of a marker."""
    place = max(folded.rfind("<"), folded.rfind("["))
    tail = folded[place:] if place >= 0 else ""
    return len(tail) if tail and any(marker.startswith(tail) for marker in _FOLDED) else 0
