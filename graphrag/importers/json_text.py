"""Parses JSON as real tools write it: with a byte order mark, in UTF-16, or with unpaired
surrogates.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from graphrag.importers.report import Tally

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# Matches an escaped character, an escaped surrogate pair, or an unpaired surrogate (group 1).
_ESCAPE = re.compile(
    r"\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def parse_json(raw: bytes, tally: Tally) -> Any:
    """Returns the value of a JSON text. Unpaired surrogates become U+FFFD and are counted as
    repaired.

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
        tally.repair("character", "it was incomplete; replaced by U+FFFD", count=count)
    return document


def _decoded(raw: bytes) -> str:
    """Decodes UTF-8. Surrogates that were encoded one by one are joined to characters."""
    try:
        pairs = raw.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass")
        return pairs.decode("utf-16", "replace")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _with_whole_characters(text: str) -> str:
    return _ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], text)
