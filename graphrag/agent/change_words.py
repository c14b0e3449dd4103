"""Recognises by their words requests for a change, and claims that a change was made.

The words are those of all languages: topic `changes` of `languages/*/words.toml`.
"""

from __future__ import annotations

import re

from datasources.text import fold
from languages.reading import alternatives

_LOOKED_AT_CHARS = 2_000


def _words(name: str) -> str:
    return alternatives("changes", name)


_CHANGES = re.compile(rf"\b{_words('verbs')}")
_READS = re.compile(rf"(?:\S+ ){{0,3}}?{_words('reads')}\b")
_QUESTION = re.compile(
    rf"(?:{_words('prepositions')} )?{_words('question_begins')}\b[^.!;?\n]*\?\s*"
)
_REQUEST = re.compile(rf"\b{_words('polite')}\b")
_BEGINNING = rf"\W*(?:{_words('before_command')}\b[\s,:!-]*)*"
_IMPERATIVE = rf"(?!(?!{_words('imperatives')}\b)\w*{_words('no_imperative')}\b)"
_COMMAND = re.compile(
    rf"{_BEGINNING}(?:{_words('command_begins')}|(?=\w){_IMPERATIVE}{_CHANGES.pattern})"
)
_NEVER = re.compile(rf"\W*{_words('never')}")
_ASKS = re.compile(rf"\?|^\W*{_words('asks_first')}\b|\b{_words('asks')}\b")
_CLAIMS = re.compile(_words("claims"))
_CLAIMS_WHEN_ASKED = re.compile(_words("claims_when_asked"))


def asks_for_change(text: str) -> bool:
    """Returns False only for what is plainly a question."""
    plain = fold(text[:_LOOKED_AT_CHARS])
    if len(text) <= _LOOKED_AT_CHARS and _QUESTION.fullmatch(plain) and not _REQUEST.search(plain):
        return False
    return bool(_CHANGES.search(plain)) or len(text) > _LOOKED_AT_CHARS or not _READS.match(plain)


def requests_change(text: str) -> bool:
    """Returns True only for what is plainly a request for a change.

    How a change would be made, whether it should be and what it would do are questions.
    """
    plain = fold(text[:_LOOKED_AT_CHARS])
    if _NEVER.match(plain) or not asks_for_change(text):
        return False
    return _COMMAND.match(plain) is not None or _ASKS.search(plain) is None


def claims_change(answer: str, asked: str) -> bool:
    """Returns whether an answer says that something was changed just now."""
    plain = fold(answer[:_LOOKED_AT_CHARS])
    return bool(
        _CLAIMS.search(plain) or (_CLAIMS_WHEN_ASKED.search(plain) and asks_for_change(asked))
    )
