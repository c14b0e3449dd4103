"""Writes facts as text: on one line, or within a length limit with the passages that match a
question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from datasources.text import tokenize
from tools.compact import ELLIPSIS, squeeze
from tools.node_meaning.fact import DETAIL, ESSENTIAL, NodeFact

LINE_CHARS = 90
LONG_CHARS = 240  # a value that does not fit is cut to this length

BETWEEN = "; "
_WORD = re.compile(r"\w+")
NO_WORDS: frozenset[str] = frozenset()


def line_of(facts: Sequence[NodeFact], limit: int = LINE_CHARS) -> str | None:
    """Returns the essential facts (or else the settings) on one line of at most `limit`
    characters; None if there are none.
    """
    first = [fact.text for fact in facts if fact.rank == ESSENTIAL] or [
        f.text for f in facts if f.rank < DETAIL
    ]
    if not first:
        return None
    line = first[0]
    for more in first[1:]:
        if len(line) + len(more) + 2 > limit:
            break
        line = f"{line}; {more}"
    return line if len(line) <= limit else line[: limit - 1].rstrip() + ELLIPSIS


def write_facts(
    facts: Sequence[NodeFact], limit: int, words: frozenset[str] = NO_WORDS
) -> str | None:
    """Returns facts as one text of about `limit` characters; None if there are none.

    A cut value ends with the number of missing characters (`…+300 chars`), and the text ends
    with the number of facts that did not fit (`…+4 values`). `words` are the stems of a
    question: a cut value shows the passage with most of them.
    """
    if not facts:
        return None
    kept: list[str] = []
    left = limit
    missing = 0
    for fact in facts:
        text = fact.text
        if len(text) > left:
            label = f"{fact.label}: " if fact.label else ""
            text = label + shorten(fact.value, min(LONG_CHARS, left - len(label)), words)
        if len(text) > left and kept:
            missing += 1
            continue
        kept.append(text)
        left -= len(text) + len(BETWEEN)
    return BETWEEN.join(kept) + (f"{BETWEEN}{ELLIPSIS}+{missing} values" if missing else "")


def by_relevance(facts: Sequence[NodeFact], words: frozenset[str]) -> list[NodeFact]:
    """Returns the facts sorted: details last, then by the number of `words` (stems) they
    contain, then by rank.
    """
    return sorted(
        facts, key=lambda fact: (fact.rank == DETAIL, -_shared(fact.text, words), fact.rank)
    )


def shorten(text: str, limit: int, words: frozenset[str] = NO_WORDS) -> str:
    """Returns a text on one line, cut to about `limit` characters.

    A cut text is its beginning, the passage with most of `words`, and the number of missing
    characters.
    """
    line = squeeze(text)
    limit = max(limit, 0)
    if len(line) <= limit:
        return line
    head = _at_blank(line, limit)
    if words:
        place = _passage(line, limit // 2, words)
        if place > limit // 2:
            head = f"{_at_blank(line, limit // 3)} {ELLIPSIS} {_at_blank(line[place:], limit // 2)}"
    return f"{head}{ELLIPSIS}+{len(line) - len(head)} chars"


def _at_blank(line: str, limit: int) -> str:
    """Returns the beginning of a line, cut at the last blank if it is in the last third."""
    part = line[:limit]
    blank = part.rfind(" ")
    return part[:blank] if len(line) > limit and blank > limit * 2 // 3 else part


def _passage(line: str, width: int, words: frozenset[str]) -> int:
    """Returns the offset of the passage of `width` characters with most of `words`; it begins
    at the first of these words.
    """
    best = _shared(line[:width], words)
    place = 0
    for start in range(0, len(line), max(width // 2, 1)):
        shared = _shared(line[start : start + width], words)
        if shared > best:
            best = shared
            place = start
    if place == 0:
        return 0
    first = line.rfind(" ", 0, place + 1) + 1
    begins = (match.start() for match in _WORD.finditer(line, first) if _shared(match[0], words))
    return next(begins, first)


def _shared(text: str, words: Iterable[str]) -> int:
    wanted = frozenset(words)
    return len(wanted.intersection(tokenize(text))) if wanted else 0
