"""Parses JSON with the typical mistakes of models, if the meaning is unambiguous.

Repairs missing or single quotes, `True` and `None`, a trailing comma, a missing comma before a
quoted name, a backslash that is not an escape, and closing brackets missing at the end. The text
is read in one pass, so no input makes it slow.

Decision: our own parser instead of a library that repairs JSON. Such libraries guess the meaning,
so a proposal could contain something that no model wrote, and the one we tried takes quadratic
time in the length of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 32  # maximum nesting of repaired JSON; valid JSON may be nested deeper

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<mark>[{}\[\]:,])
    | (?P<word>[^\s{}\[\]:,"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LIKE_NUMBER = re.compile(r"[-+]?\.?[0-9].*|[-+]?(?:nan|inf|infinity)", re.IGNORECASE | re.DOTALL)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')


class _NotPlain(ValueError):
    """Raised when the text cannot be repaired unambiguously."""


@dataclass(frozen=True, slots=True)
class _JsonToken:
    """`kind` is the bracket, colon or comma itself, or `string`, `word`, `literal`, `end`."""

    kind: str
    value: Any = None


def read(text: str, object_of: Callable[[Sequence[tuple[str, Any]]], Any] = dict) -> Any:
    """Returns the value of a JSON text with mistakes.

    `object_of` creates an object from its fields; it receives them in their order, including
    repeated names. Raises: ValueError if the text is ambiguous, and errors of `object_of`.
    """
    reader = _Reader(text, object_of)
    value = reader.value(0)
    if reader.next().kind != "end":
        raise _NotPlain
    return value


class _Reader:
    def __init__(self, text: str, object_of: Callable[[Sequence[tuple[str, Any]]], Any]) -> None:
        self._tokens = _tokens_of(text)
        self._object_of = object_of
        self._ahead: _JsonToken | None = None
        self._last = _JsonToken("end")

    def next(self) -> _JsonToken:
        token = self._ahead or next(self._tokens)
        self._ahead = None
        if token.kind != "end":
            self._last = token
        return token

    def peek(self) -> _JsonToken:
        if self._ahead is None:
            self._ahead = next(self._tokens)
        return self._ahead

    def value(self, depth: int) -> Any:
        token = self.next()
        if token.kind in ("string", "word", "literal"):
            return token.value
        if depth >= MAX_DEPTH or token.kind not in ("{", "["):
            raise _NotPlain
        return self._object(depth + 1) if token.kind == "{" else self._array(depth + 1)

    def _array(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._ends("]"):
            if items:
                self._take(",")
                if self._closes("]"):
                    break
            items.append(self.value(depth))
        return items

    def _object(self, depth: int) -> Any:
        fields: list[tuple[str, Any]] = []
        while not self._ends("}"):
            if fields and not (self.peek().kind == "string" and self._last.kind != "word"):
                self._take(",")
                if self._closes("}"):
                    break
            name = self.next()
            if name.kind not in ("string", "word"):
                raise _NotPlain
            self._take(":")
            fields.append((name.value, self.value(depth)))
        return self._object_of(fields)

    def _ends(self, bracket: str) -> bool:
        """Returns whether the list or object ends here.

        At the end of the text the closing bracket may be missing, unless the last token could be
        cut off (a number or a bare word) or be followed by another. Raises: ValueError then.
        """
        if self.peek().kind == "end":
            last = self._last
            is_number = isinstance(last.value, int | float) and not isinstance(last.value, bool)
            if is_number or last.kind in ("word", ",", ":", "{", "["):
                raise _NotPlain
            return True
        return self._closes(bracket)

    def _closes(self, bracket: str) -> bool:
        if self.peek().kind != bracket:
            return False
        self.next()
        return True

    def _take(self, mark: str) -> None:
        if self.next().kind != mark:
            raise _NotPlain


def _tokens_of(text: str) -> Iterator[_JsonToken]:
    place = 0
    end = len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            raise _NotPlain
        place = match.end()
        if match["mark"]:
            yield _JsonToken(match["mark"])
        elif match["string"]:
            yield _JsonToken("string", _unescaped(match["string"]))
        else:
            yield _word(match["word"])
    while True:
        yield _JsonToken("end")


def _word(word: str) -> _JsonToken:
    if word in _WORDS:
        return _JsonToken("literal", _WORDS[word])
    if _NUMBER.fullmatch(word):
        return _JsonToken("literal", json.loads(word))
    if _LIKE_NUMBER.fullmatch(word) or "\\" in word:
        raise _NotPlain
    return _JsonToken("word", word)


def _unescaped(token: str) -> str:
    inner = token[1:-1]
    if token[0] == "'":
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    try:
        return json.loads(f'"{inner}"', strict=False)
    except json.JSONDecodeError:
        if _ESCAPE.search(inner):
            raise _NotPlain from None  # some backslashes are escapes, some are not
        return inner
