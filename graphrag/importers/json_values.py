"""Reads values of JSON with an unknown structure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import orjson

Json = dict[str, Any]

# Positions and sizes beyond this are errors; no canvas is that large.
MAX_COORDINATE = 1e9


def as_dict(value: Any) -> Json | None:
    """Returns the value if it is a JSON object, otherwise None."""
    return cast(Json, value) if isinstance(value, dict) else None


def as_list(value: Any) -> list[Any] | None:
    """Returns the value if it is a JSON array, otherwise None."""
    return cast(list[Any], value) if isinstance(value, list) else None


def as_text(value: Any) -> str | None:
    """Returns the value if it is a string with more than white space; otherwise None."""
    return value if isinstance(value, str) and value.strip() else None


def as_id(value: Any) -> str | None:
    """Returns an identifier as text, otherwise None. Some exporters write integers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return as_text(value)


def as_number(value: Any) -> int | float | None:
    """Returns the value if it is a finite number of at most MAX_COORDINATE, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and abs(value) <= MAX_COORDINATE else None


def as_extent(value: Any, default: int) -> int | float:
    """Returns a width or height if it is a positive number, otherwise the default."""
    number = as_number(value)
    return default if number is None or number <= 0 else number


def as_index(value: Any) -> int | None:
    """Returns the value if it is an integer from 0 to 9,999, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 10_000 else None


def rest(document: Mapping[str, Any], known: frozenset[str] | set[str]) -> Json:
    """Returns the fields that are not known, in their order."""
    return {name: value for name, value in document.items() if name not in known}


def without_empty(**fields: Any) -> Json:
    """Returns the fields that are not None and no empty text, list or object."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", [], {})
    }


def set_or_remove(fields: Json, name: str, value: Any) -> None:
    """Sets a field, or removes it if the value is None or an empty object."""
    if value is None or value == {}:
        fields.pop(name, None)
    else:
        fields[name] = value


def pieces(
    value: Any, *, indent: bool = False, depth: int = 2, margin: bytes = b"\n"
) -> Iterator[bytes]:
    """Yields a value as JSON. Objects and arrays of the upper `depth` levels are written part by
    part.

    Many megabytes in one step would block the interpreter, and with it the event loop, for too
    long.
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
