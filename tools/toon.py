"""Writes and parses TOON, a compact notation for models. The only module that uses `toon_format`.

Adds three things to `toon_format`: a lone surrogate, which TOON cannot represent, becomes U+FFFD;
characters that some readers treat as a line end or that change the text direction (U+0085, U+2028,
bidirectional controls…) are written as `\\uXXXX`, so that a row is one line for every reader; and a
list or object in a cell is written as JSON, so that the table remains a table.

Source: TOON specification, https://github.com/toon-format/spec
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import toon_format

_SURROGATE = re.compile("[\ud800-\udfff]")

# C1 controls and DEL, line and paragraph separators, direction marks and overrides, BOM.
_TO_ESCAPE = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_NEEDS_ESCAPE = re.compile(f"[{_TO_ESCAPE}]")
_MARKED = re.compile(f"[\x00{_TO_ESCAPE}]")
_WRITTEN_MARK = re.compile(r"\\\\|\\u0000([0-9a-f]{4})")


class ToonError(ValueError):
    """Raised when a value cannot be written as TOON, or a text is not valid TOON."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(f"TOON: {reason}")


def encode(value: Any) -> str:
    """Returns a JSON-like value as TOON. `decode` is the inverse.

    Raises: ToonError if JSON cannot represent the value either, or if it is nested too deeply.
    """
    try:
        clean = _clean(value, marked=False)
        written = toon_format.encode(clean)
        if not _NEEDS_ESCAPE.search(written):
            return written
        return _WRITTEN_MARK.sub(_write_escape, toon_format.encode(_clean(value, marked=True)))
    except RecursionError as exc:
        raise ToonError(reason="the value nests too deeply") from exc
    except (TypeError, ValueError) as exc:
        raise ToonError(reason=str(exc)) from exc


def encode_table(
    name: str | None, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> str:
    """Returns rows as the table `name[N]{columns}:` with one line for each row. A missing cell is
    null.

    Without a name the table is a complete document: `[N]{columns}:`.
    """
    table = [{column: _cell(row.get(column)) for column in columns} for row in rows]
    return encode(table if name is None else {name: table})


def decode(text: str) -> Any:
    """Returns the value of a TOON text. Raises: ToonError."""
    try:
        return toon_format.decode(text)
    except ValueError as exc:
        raise ToonError(reason=str(exc)) from exc


def compact_json(value: Any) -> str:
    """Returns a value as JSON without white space; values of other types become strings."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _cell(value: Any) -> Any:
    if isinstance(value, Mapping | list | tuple):
        return compact_json(
            dict(cast(Mapping[str, Any], value)) if isinstance(value, Mapping) else value
        )
    return value


def _clean(value: Any, *, marked: bool) -> Any:
    if isinstance(value, str):
        text = _SURROGATE.sub("\ufffd", value)
        return _MARKED.sub(_mark, text) if marked else text
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {_key(key, marked): _clean(item, marked=marked) for key, item in items}
    if isinstance(value, list | tuple):
        return [_clean(item, marked=marked) for item in cast(Sequence[Any], value)]
    return value


def _key(key: Any, marked: bool) -> Any:
    return _clean(key, marked=marked) if isinstance(key, str) else key


# To escape a character, a NUL and the character's code in hexadecimal are put in its place. The
# encoder quotes the string and writes NUL as \u0000; then one pass over the result replaces
# \u0000 and the code by the escape. A NUL in the original text is marked in the same way and a
# backslash is written doubled, so neither is mistaken for a mark.
def _mark(match: re.Match[str]) -> str:
    return f"\x00{ord(match.group()):04x}"


def _write_escape(match: re.Match[str]) -> str:
    return f"\\u{match.group(1)}" if match.group(1) else match.group()
