"""Finds tool calls that a model wrote into its text in place of making them.

Two kinds. What stands between marks that only calls have (`<tool_call>`) is never shown. What may be
an ordinary answer (an object, a block of code, a heading `Function call:`) is held back only while it
may still be a call of a tool by name, and shown otherwise: so JSON that a person asked to see is seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tools import lenient_json

HELD_CHARS = 200_000
"""A longer text is no call; as no tool takes longer arguments."""
_UNSURE_CHARS = 4_000
"""So much is held of an object whose name is still to come."""

_NAMES = ("name", "tool", "tool_name", "function_name", "function", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "kwargs", "params")
_BEFORE = ("type", "id", "index", "tool_call_id")

_HEADING = re.compile(r"[*#_\s]*(?:function|tool)[ _]calls?\b[*_]*[ \t]*:?[*_]*\s*", re.IGNORECASE)
_FENCE = re.compile(r"\s*```[ \t]*([a-z_]*)[ \t]*\n?", re.IGNORECASE)
_FENCED = ("", "json", "tool_call", "tool_code", "tool", "function", "xml", "python")
_OPEN = re.compile(r"\s*<tools>\s*", re.IGNORECASE)
_FIELD = re.compile(r"""\s*(?:\[\s*)?(?:\{\s*)?["'](\w{1,40})["']\s*:\s*""")
_VALUE = re.compile(r"""(?:"([^"\\]{0,200})"|'([^'\\]{0,200})'|(\d+|null))\s*(,\s*)?""")
_CALLED = re.compile(r"\s*([A-Za-z_]\w{0,80})(?:\.call|\[ARGS\])?\s*(?=[({])")
_NAMED = re.compile(r"""["'](?:name|tool|tool_name|function|function_name|action)["']\s*:\s*["'](\w+)["']""")
_PARTIAL = re.compile(r"""[\s\[{]*(?:["']\w*["']?\s*:?\s*)?""")
_MARKS = re.compile(r"</tools>|<\|e\w+_id\|>|\[ARGS\]", re.IGNORECASE)
_LABELS = ("function call", "tool call", "function_call", "tool_call", "<tools>", "```")


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """`arguments`: the JSON that a model wrote, as of any call."""

    name: str
    arguments: str


def may_be_call(text: str, tools: Collection[str]) -> bool | None:
    """Return whether a text that has begun is a call of one of the tools; None: more of it is needed."""
    rest, place = text, 0
    while True:
        for pattern in (_HEADING, _OPEN):
            if found := pattern.match(rest, place):
                place = found.end()
        fence = _FENCE.match(rest, place)
        if fence is None or fence.group(1).lower() not in _FENCED:
            break
        place = fence.end()
    body = rest[place:].lstrip()
    if not body:
        return None
    if body[0] in "{[":
        return _object_may_be_call(body, tools)
    if body[0] in "`*#_<fFtT" and len(body) < 40 and _begins(body):
        return None
    called = _CALLED.match(body)
    if called is not None:
        return called.group(1) in tools
    word = re.match(r"\w*", body)
    return None if word and word.end() == len(body) and _starts(word.group(), tools) else False


def _begins(body: str) -> bool:
    """Return whether a short text may become a heading, a fence or a mark."""
    plain = body.strip("*#_ ").casefold()
    return any(label.startswith(plain) or plain.startswith(label) for label in _LABELS)


def _starts(word: str, tools: Collection[str]) -> bool:
    return bool(word) and any(name.startswith(word) for name in tools)


def _object_may_be_call(body: str, tools: Collection[str]) -> bool | None:
    place = 0
    while True:
        field = _FIELD.match(body, place)
        if field is None:
            return None if len(body) - place < 60 and _PARTIAL.fullmatch(body, place) else False
        name, place = field.group(1), field.end()
        if name in _ARGUMENTS:
            named = [found.group(1) in tools for found in _NAMED.finditer(body)]
            return True if any(named) else None if len(body) < _UNSURE_CHARS else False
        if name not in _NAMES and name not in _BEFORE:
            return False
        if name == "function" and body[place : place + 1] in ("{", ""):
            if not body[place:]:
                return None
            place += 1
            continue
        value = _VALUE.match(body, place)
        if value is None:
            begun = body[place + 1 :]
            return None if not begun or name in _BEFORE or _starts(begun, tools) else False
        text = value.group(1) or value.group(2) or ""
        if name in _NAMES and not (name == "function" and text == "function"):
            return text.removeprefix("functions.") in tools
        if name == "type" and text not in ("function", "tool_use", "tool_call", "function_call"):
            return False
        if value.group(4) is None:
            return None if value.end() == len(body) else False
        place = value.end()


def read_calls(text: str, tools: Collection[str]) -> list[WrittenCall]:
    """Return the calls that a text consists of; none where it is anything else besides."""
    found: list[WrittenCall] = []
    rest = text
    while rest := _without_marks(rest):
        called = _CALLED.match(rest)
        name = called.group(1) if called and called.group(1) in tools else None
        rest = rest[called.end() :] if called and name else rest
        if name and rest.startswith("("):
            rest = rest[1:]
            if not rest.lstrip().startswith("{"):
                inside, _, rest = rest.partition(")")
                found.append(WrittenCall(name, _keywords(inside)))
                continue
        value, rest = _first_value(rest)
        rest = rest.lstrip().removeprefix(")") if name else rest
        made = [WrittenCall(name, _text_of(value))] if name else list(_calls_in(value, tools))
        if not made:
            return []
        found += made
    return found


def _without_marks(text: str) -> str:
    """Take headings, fences and marks off the beginning."""
    while True:
        text = text.lstrip().lstrip(",;")
        for pattern in (_HEADING, _FENCE, _OPEN, _MARKS):
            if found := pattern.match(text):
                text = text[found.end() :]
                break
        else:
            return text


def _first_value(text: str) -> tuple[Any, str]:
    """Return the JSON value that a text begins with, small mistakes in it repaired, and the rest."""
    try:
        value, end = json.JSONDecoder().raw_decode(text)
        return value, text[end:]
    except (ValueError, RecursionError):
        body = re.split(r"\n?\s*(?:```|</tools>)", text, maxsplit=1)
        try:
            return _plain(lenient_json.read(body[0])), body[1] if len(body) > 1 else ""
        except (ValueError, RecursionError):
            return None, ""


def _plain(value: Any) -> Any:
    if isinstance(value, lenient_json.Pairs):
        return {str(name): _plain(inner) for name, inner in value}
    return [_plain(inner) for inner in cast(list[Any], value)] if isinstance(value, list) else value


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


def _keywords(text: str) -> str:
    """Return `query="x", limit=3` as JSON, as far as it is that plain."""
    return "{" + re.sub(r"(?:^|(?<=,))\s*(\w+)\s*=", r'"\1":', text) + "}"
