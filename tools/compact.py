"""Writes data, handles and long texts for a model in few tokens.

The notation is similar to YAML's flow style, with single quotes, collapsed white space and
`a.b:1` for `a:{b:1}`. Inside a quoted TOON cell it needs far fewer escapes than JSON. It cannot be
parsed back, and secrets in texts are redacted; use `toon.compact_json` for exact JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from datasources.types import Graph, HandlePoint, Handles, Node, other_values
from tools.secret_texts import redacted

MAX_DEPTH = 40
ELLIPSIS = "…"

_WITH_A_CELL = frozenset(("type", "sheet", "handles", "data", "process"))
_PLAIN = re.compile(r"[^\s,{}\[\]'\"][^,]*")
_BRACKETS = re.compile(r"[{}\[\]]")
_LITERAL = re.compile(r"(?:true|false|null|[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)")


def compact_value(value: Any) -> str:
    """Returns a JSON-like value in flow style, without the outer braces of an object."""
    if isinstance(value, Mapping):
        return _pairs(cast(Mapping[Any, Any], value), 0)
    return squeeze(redacted(value).text) if isinstance(value, str) else _flow(value, 0)


def without_empty(value: Any, depth: int = 0) -> Any:
    """Returns a JSON-like value without nulls and empty strings, lists and objects; None if
    nothing remains.
    """
    if depth > MAX_DEPTH:
        return ELLIPSIS
    if isinstance(value, Mapping):
        pairs = cast(Mapping[Any, Any], value).items()
        kept = {
            key: left for key, item in pairs if (left := without_empty(item, depth + 1)) is not None
        }
        return kept or None
    if isinstance(value, list | tuple):
        items = [without_empty(item, depth + 1) for item in cast(Sequence[Any], value)]
        return [item for item in items if item is not None] or None
    return None if value == "" else value


def _flow(value: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        return ELLIPSIS
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + _pairs(cast(Mapping[Any, Any], value), depth) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_flow(item, depth + 1) for item in cast(Sequence[Any], value)) + "]"
    return str(value)


def _pairs(mapping: Mapping[Any, Any], depth: int) -> str:
    return ",".join(_pair(str(key), item, depth) for key, item in mapping.items())


def _pair(key: str, value: Any, depth: int) -> str:
    name = _name(key)
    while (
        isinstance(value, Mapping)
        and len(cast(Mapping[Any, Any], value)) == 1
        and depth < MAX_DEPTH
    ):
        inner, value = next(iter(cast(Mapping[Any, Any], value).items()))
        name = f"{name}.{_name(str(inner))}"
        depth = depth + 1
    return f"{name}:{_flow(value, depth + 1)}"


def _name(key: str) -> str:
    return _string(key) if ":" not in key else _quoted(squeeze(key))


def other_cells(node: Node, limit: int) -> dict[str, str]:
    """Returns the fields that `Node` declares as shown and that node tables have no column for."""
    others = other_values(node, "shown", _WITH_A_CELL)
    return {name: cut(compact_value(value), limit) for name, value in others.items()}


def squeeze(text: str) -> str:
    """Returns the text with every run of white space replaced by one blank."""
    return " ".join(text.split())


def _string(text: str) -> str:
    text = squeeze(redacted(text).text)
    if _PLAIN.fullmatch(text) and _is_closed(text) and not _LITERAL.fullmatch(text):
        return text
    return _quoted(text)


def _is_closed(text: str) -> bool:
    """Returns whether the brackets in a text are balanced, so that it needs no quotes."""
    open_brackets: list[str] = []
    for char in _BRACKETS.findall(text):
        if char in "{[":
            open_brackets.append("}" if char == "{" else "]")
        elif not open_brackets or open_brackets.pop() != char:
            return False
    return not open_brackets


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def compact_handles(handles: Handles) -> str:
    """Returns handles as `in L:0; out R:0 success,R:1<number>`: side, id, label, accepted type.

    The accepted type `any` is omitted.
    """
    parts: list[str] = []
    for direction in ("in", "out"):
        points = [
            _point(s, p) for s, group in handles.items() for p in group.point if p.type == direction
        ]
        if points:
            parts.append(f"{direction} {','.join(points)}")
    return "; ".join(parts)


def _point(side: str, point: HandlePoint) -> str:
    accept = "" if point.accept == "any" else f"<{point.accept}>"
    display = f" {_string(point.display)}" if point.display else ""
    return f"{side}:{point.id}{accept}{display}"


def cut(text: str, limit: int) -> str:
    """Returns the text, or its first `limit` characters and the number of missing ones:
    `abc…+1200 chars`.
    """
    missing = len(text) - limit
    if missing <= 0:
        return text
    mark = f"{ELLIPSIS}+{missing} chars"
    return text if len(mark) >= missing else text[:limit] + mark


def cut_name(text: str, limit: int) -> str:
    """Returns a name on one line, at most `limit` characters."""
    line = squeeze(text)
    return line if len(line) <= limit else line[: limit - 1] + ELLIPSIS


def sheet_label(graph: Graph, sheet: str) -> str:
    """Returns a sheet's id and name, as `0 main`."""
    return f"{cut_name(sheet, 40)} {cut_name(graph.sheets_list.get(sheet, ''), 40)}".strip()
