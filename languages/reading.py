"""Reads the files in the folders of languages. Every cache here holds packaged files only.

In `words.toml` a table is a topic; its entries are lists of words or regular expressions. In an
expression `{name}` stands for another entry of the topic, and `(…)` groups without capturing.
Code that has no need to know the language of a text uses the entries of all languages together.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from languages import LANGUAGES

FOLDER: Final = Path(__file__).parent
_SPECIAL = re.compile(r"\{([a-z_]+)\}|(?<!\?P)<(\w+)>|\((?!\?)|\\.|\[[^]]*\]")
_NEVER: Final = r"(?!)"


class LanguageIncomplete(Exception):
    """Raised where the folder of a language lacks a file or an entry."""

    def __init__(self, *, language: str, missing: str) -> None:
        self.language = language
        self.missing = missing
        super().__init__(f"languages/{language} has no {missing}")


def read_text(language: str, name: str) -> str:
    """Returns the text of a file in a language's folder. Raises: LanguageIncomplete."""
    try:
        return (FOLDER / language / name).read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        raise LanguageIncomplete(language=language, missing=name) from exc


def read_tables(language: str, name: str) -> dict[str, Any]:
    """Returns the content of a TOML file in a language's folder. Raises: LanguageIncomplete."""
    return tomllib.loads(read_text(language, name))


@cache
def folders() -> tuple[str, ...]:
    """Returns the codes of all languages of which there are words, English first."""
    found = sorted(file.parent.name for file in FOLDER.glob("*/words.toml"))
    return tuple(sorted(found, key=lambda language: language != "en"))


@cache
def topic(language: str, name: str) -> Mapping[str, str]:
    """Returns the entries of a topic in `words.toml`. Raises: LanguageIncomplete."""
    entries = _tables(language).get(name)
    if entries is None:
        raise LanguageIncomplete(language=language, missing=f"[{name}] in words.toml")
    return entries


def entry(language: str, topic_name: str, name: str) -> str:
    """Returns an entry as it is written. Raises: LanguageIncomplete."""
    entries = topic(language, topic_name)
    if name not in entries:
        missing = f"{name} of [{topic_name}] in words.toml"
        raise LanguageIncomplete(language=language, missing=missing)
    return entries[name]


def all_words(topic_name: str, name: str) -> frozenset[str]:
    """Returns the words of an entry in every language. Raises: LanguageIncomplete."""
    return frozenset(
        word for language in LANGUAGES for word in entry(language, topic_name, name).split()
    )


def alternatives(topic_name: str, name: str) -> str:
    """Returns one regular expression for an entry in every language; "" matches nothing.

    Raises: LanguageIncomplete.
    """
    parts = [_pattern(language, topic_name, name) for language in LANGUAGES]
    return f"(?:{'|'.join(part for part in parts if part) or _NEVER})"


def _pattern(language: str, topic_name: str, name: str) -> str:
    text = "".join(entry(language, topic_name, name).splitlines())

    def named(other: str) -> str:
        return _pattern(language, topic_name, other)

    return expanded(text, named)


def expanded(text: str, named: Callable[[str], str], slots: Mapping[str, str] | None = None) -> str:
    """Returns a pattern as a regular expression: `{name}` and `(…)` as this module describes.

    `<slot>` becomes a named group, which holds any text unless `slots` has an expression for it.
    """

    def replaced(special: re.Match[str]) -> str:
        if special[1]:
            return f"(?:{named(special[1])})"
        if special[2]:
            return f"(?P<{special[2]}>{(slots or {}).get(special[2], '.+?')})"
        return "(?:" if special[0] == "(" else special[0]

    return _SPECIAL.sub(replaced, text)


@cache
def _tables(language: str) -> dict[str, dict[str, str]]:
    return read_tables(language, "words.toml")
