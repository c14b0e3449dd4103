"""Names, docstrings and comments are written in the field's terms: a list of words is kept out of them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.support.each_row import each_row

ROOT = Path(__file__).parents[1]
ROOMS = ("cli", "datasources", "graphrag", "nodius_graphrag", "server", "tests", "tools")
_BANNED = """
    absorb absorbs anew aught bare_words borne deed deeds desk desks door doors hears hence journey
    journeys judge judged judgement judges judging judgment keeper keepers lend lends lent lest naught
    permits placings settle settled settles settling shun shunned shuns slip slips spoken telling
    tellings therein thereof told unlent unto whence whereof whoever wish wished wishes
"""
BANNED = frozenset(re.findall(r"\w+", _BANNED))
PHRASES = ("by and by", "is no more", "looks after", "look after", "looks on", "as one likes", "makes real")
OLD_NAMES = frozenset(
    [
        *("RANKS", "as_it_stands", "catch_up", "is_dead_here", "model_step", "one_trip"),
        *("taken_over", "Asker", "Kept", "Mention", "Through", "TurnHold", "Wanted", "Wording"),
    ]
)
"""Names of before, each of a thing that has another name now."""


def _words(name: str) -> set[str]:
    return {part.lower() for part in re.split(r"_+|(?<=[a-z0-9])(?=[A-Z])", name)}


def _docstring_lines(source: str) -> set[int]:
    lines = set[int]()
    for node in ast.walk(ast.parse(source)):
        for statement in getattr(node, "body", None) if isinstance(getattr(node, "body", None), list) else ():
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant):
                lines.add(value.lineno)
    return lines


def _found(source: str) -> Iterator[tuple[int, str]]:
    names = set(re.findall(r"\w+", source))
    parts = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", " ".join(names)).lower()))
    lower = source.lower()
    if (
        parts.isdisjoint(BANNED)
        and "bare_words" not in lower
        and names.isdisjoint(OLD_NAMES)
        and not any(phrase in lower for phrase in PHRASES)
    ):
        return
    docstrings = _docstring_lines(source)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        words, text = set[str](), ""
        if token.type == tokenize.NAME:
            words = _words(token.string)
            if token.string in OLD_NAMES:
                yield token.start[0], token.string
        elif token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.start[0] in docstrings
        ):
            text = token.string.lower()
            words = set(re.findall(r"\w+", text))
        for word in sorted(words & BANNED) + [phrase for phrase in PHRASES if phrase in text]:
            yield token.start[0], word


@each_row("room", *ROOMS)
def test_no_image_and_no_archaic_word_stands_in_a_name_a_docstring_or_a_comment(room: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {word}"
        for file in sorted((ROOT / room).rglob("*.py"))
        if file != Path(__file__)
        for line, word in _found(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_no_image_and_no_archaic_word_stands_in_a_document() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {word}"
        for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        for word in re.findall(r"[a-z]+", line.lower())
        if word in BANNED
    ]
    assert found == []


def test_a_banned_word_is_found_wherever_a_reader_meets_it() -> None:
    source = (
        '"""Told of it."""\nclass IndexKeeper:\n    desk_of = 1  # by and by\n    text = "told"\nRANKS = 1\n'
    )
    expected = [(1, "told"), (2, "keeper"), (3, "desk"), (3, "by and by"), (5, "RANKS")]
    assert list(_found(source)) == expected
