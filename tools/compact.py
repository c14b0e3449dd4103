"""Writes data, handles and long text in few tokens, for a model to read.

Data is written as YAML's flow style is, with raw text between single quotes: inside a quoted TOON
cell it needs far fewer escapes than JSON. It is for reading; exact JSON is `toon.compact_json`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from datasources.types import HandlePoint, Handles

MAX_DEPTH = 40
ELLIPSIS = "…"

_PLAIN = re.compile(r"[^\s,{}\[\]'\"](?:[^\n\r\t,{}\[\]']*[^\s,{}\[\]'])?")
_LITERAL = re.compile(r"(?:true|false|null|[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)")


def compact_value(value: Any) -> str:
    """Return a JSON-like value in flow style, without the outer braces of an object."""
    if isinstance(value, Mapping):
        return _pairs(cast(Mapping[Any, Any], value), 0)
    return value if isinstance(value, str) else _flow(value, 0)


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
    return ",".join(f"{_name(str(key))}:{_flow(item, depth + 1)}" for key, item in mapping.items())


def _name(key: str) -> str:
    return _string(key) if ":" not in key else _quoted(key)


def _string(text: str) -> str:
    if _PLAIN.fullmatch(text) and not _LITERAL.fullmatch(text):
        return text
    return _quoted(text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def compact_handles(handles: Handles) -> str:
    """Return handles as `in L:0; out R:0 success,R:1<number>`: side, point id, label, accepted type.

    `any` is not written as an accepted type.
    """
    parts: list[str] = []
    for direction in ("in", "out"):
        points = [_point(s, p) for s, group in handles.items() for p in group.point if p.type == direction]
        if points:
            parts.append(f"{direction} {','.join(points)}")
    return "; ".join(parts)


def _point(side: str, point: HandlePoint) -> str:
    accept = "" if point.accept == "any" else f"<{point.accept}>"
    display = f" {_string(point.display)}" if point.display else ""
    return f"{side}:{point.id}{accept}{display}"


def cut(text: str, limit: int) -> str:
    """Return the text, or its first `limit` characters and how many are missing: `abc…+1200 chars`."""
    missing = len(text) - limit
    if missing <= 0:
        return text
    mark = f"{ELLIPSIS}+{missing} chars"
    return text if len(mark) >= missing else text[:limit] + mark


def cut_name(text: str, limit: int) -> str:
    """Return a name on one line, at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + ELLIPSIS
