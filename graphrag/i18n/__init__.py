"""The texts that people read: one catalogue a language, `languages/*/texts.json`.

A catalogue has three parts: `page` (read by the browser), `service` (read by the server and the
command line) and `both`. Facts stand in braces. A text with a plural has a form for each kind of
number, chosen by the fact `n`. A text under the name of an exception class says what that error is.

Decision: catalogues are JSON, because the server, the command line and the page read the same
files, and a translator needs to know neither Python nor JavaScript.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from languages import LANGUAGES, Language
from languages.reading import entry, read_text

__all__ = [
    "LANGUAGES",
    "Language",
    "LocalizedError",
    "Text",
    "catalogue",
    "page_texts",
    "places",
    "text",
]

Text = str | Mapping[str, str]

_PLACE = re.compile(r"\{(\w+)\}")


def text(key: str, language: Language, /, **facts: Any) -> str:
    """Return a text with its facts filled in.

    Raises: KeyError for a text that is not in the catalogue, or a fact that is not given.
    """
    found = catalogue(language)[key]
    if not isinstance(found, str):
        found = found["one" if facts["n"] in _singular(language) else "other"]
    return _PLACE.sub(lambda place: _written(facts[place[1]]), found)


def page_texts(language: Language) -> dict[str, Text]:
    """Return the part of a catalogue that the page reads."""
    parts = _parts(language)
    return {**parts["both"], **parts["page"]}


@cache
def catalogue(language: Language) -> Mapping[str, Text]:
    """Return all texts of a language by key."""
    return {key: found for part in _parts(language).values() for key, found in part.items()}


def places(found: Text) -> set[str]:
    """Return the names of the facts that a text needs, `n` included where it has a plural."""
    if isinstance(found, str):
        return set(_PLACE.findall(found))
    return {"n", *(place for form in found.values() for place in _PLACE.findall(form))}


class LocalizedError(Exception):
    """Base of the errors whose sentence stands in the catalogue under a code.

    `code` names the text: the name of the class, unless the class or the instance is given another.
    `facts`: what the text needs; of those that are texts, `fact_chars` where a class or its base is
    given a number.
    """

    code = "internal"
    fact_chars: int | None = None

    def __init_subclass__(cls, *, code: str | None = None, fact_chars: int | None = None) -> None:
        cls.code = code or cls.__name__
        cls.fact_chars = fact_chars or cls.fact_chars

    def __init__(self, **facts: Any) -> None:
        most = self.fact_chars
        self.facts: Mapping[str, Any] = {
            name: fact[:most] if isinstance(fact, str) else fact for name, fact in facts.items()
        }
        super().__init__(*self.facts.values())

    def text(self, language: Language) -> str:
        """Return the sentence for a person."""
        return text(self.code, language, **self.facts)

    def details(self, language: Language) -> str:  # noqa: ARG002 - some errors have none in one language
        """Return what cannot be said in the sentence: words of another program, or English ones."""
        return ""

    def __str__(self) -> str:
        return self.text("en")


@cache
def _parts(language: Language) -> dict[str, dict[str, Text]]:
    return cast(dict[str, dict[str, Text]], json.loads(read_text(language, "texts.json")))


@cache
def _singular(language: Language) -> frozenset[int]:
    """Returns the numbers that take the singular."""
    return frozenset(map(int, entry(language, "language", "singular_numbers").split()))


def _written(fact: Any) -> str:
    return f"{fact:g}" if isinstance(fact, float) else str(fact)
