"""Reads values of unknown JSON without trusting their shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import orjson

Json = dict[str, Any]

MAX_COORDINATE = 1e9
"""Positions and sizes beyond this come from a fault, not from a canvas."""


def as_dict(value: Any) -> Json | None:
    """Return the value if it is a JSON object."""
    return cast(Json, value) if isinstance(value, dict) else None


def as_list(value: Any) -> list[Any] | None:
    """Return the value if it is a JSON array."""
    return cast(list[Any], value) if isinstance(value, list) else None


def as_text(value: Any) -> str | None:
    """Return a string that has something in it besides white space, as it is."""
    return value if isinstance(value, str) and value.strip() else None


def as_id(value: Any) -> str | None:
    """Return an identifier as text; some exporters write numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return as_text(value)


def as_number(value: Any) -> int | float | None:
    """Return a finite number of a canvas's order of size."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and abs(value) <= MAX_COORDINATE else None


def as_extent(value: Any, default: int) -> int | float:
    """Return a width or height, the default where there is none that can be drawn."""
    number = as_number(value)
    return default if number is None or number <= 0 else number


def as_index(value: Any) -> int | None:
    """Return a place in a list."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 10_000 else None


def rest(document: Mapping[str, Any], known: frozenset[str] | set[str]) -> Json:
    """Return the fields that are not among the known ones, in their order."""
    return {name: value for name, value in document.items() if name not in known}


def without_empty(**fields: Any) -> Json:
    """Return the fields that say something: not None, not an empty text, list or object."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", [], {})
    }


def set_or_remove(fields: Json, name: str, value: Any) -> None:
    """Set a field; None and an empty object remove it."""
    if value is None or value == {}:
        fields.pop(name, None)
    else:
        fields[name] = value


def pieces(
    value: Any, *, indent: bool = False, depth: int = 2, margin: bytes = b"\n"
) -> Iterator[bytes]:
    """Yield a value as JSON: orjson's, but an object or array of the upper levels is written
    part by part.

    Many megabytes at one go would keep the interpreter, and with it the event loop, for too long.
    """
    is_object = isinstance(value, dict)
    if not value or not depth or not (is_object or isinstance(value, list)):
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None)
        yield text.replace(b"\n", margin) if indent else text
        return
    fields = cast(Json, value) if is_object else None
    inner = margin + b"  "
    colon = b": " if indent else b":"
    mark = b"{" if is_object else b"["
    for item in cast(list[Any], value) if fields is None else fields.items():
        yield mark + inner if indent else mark
        mark = b","
        if fields is not None:
            name, item = item
            yield orjson.dumps(name) + colon
        yield from pieces(item, indent=indent, depth=depth - 1, margin=inner)
    yield (margin if indent else b"") + (b"}" if is_object else b"]")
