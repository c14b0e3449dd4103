"""Parses JSON as tools write it: with a byte order mark, in UTF-16, with halves of characters."""

from __future__ import annotations

import re
from typing import Any

import orjson

from graphrag.importers.report import Tally

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_ESCAPE = re.compile(
    r"\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""An escaped character, a pair of surrogates, or half of a pair, which is the group."""


def parse_json(raw: bytes, tally: Tally) -> Any:
    """Return the value of a JSON text; half a character is read as U+FFFD, and counted as repaired.

    Raises: orjson.JSONDecodeError.
    """
    if raw[:2] not in _UTF16_MARKS:
        raw = raw.removeprefix(_UTF8_MARK)
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            text = _decoded(raw)
            whole = _with_whole_characters(text)
            if whole == text and text.encode() == raw:
                raise
    else:
        text = raw.decode("utf-16", "replace")
        whole = _with_whole_characters(text)
    document = orjson.loads(whole)
    count = whole.count("\ufffd") + whole.count("\\ufffd")
    if count:
        tally.repair("character", "half of it was in the file; it is read as U+FFFD", count=count)
    return document


def _decoded(raw: bytes) -> str:
    """Return UTF-8 as text; surrogates that were encoded one by one are joined."""
    try:
        pairs = raw.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass")
        return pairs.decode("utf-16", "replace")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _with_whole_characters(text: str) -> str:
    return _ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], text)
