"""The texts for people: one catalogue for each language, `languages/*/texts.json`.

A catalogue has three parts: `page` (read by the browser), `service` (read by the server and the
command line) and `both`. Facts are in braces. A text with a plural has two forms, selected by the
fact `n`. The message of an error is stored under its code, by default the name of its class.

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
    """Returns a text with its facts filled in.

    Raises: KeyError if the text or one of its facts is missing.
    """
    template = catalogue(language)[key]
    if not isinstance(template, str):
        template = template["one" if facts["n"] in _singular(language) else "other"]
    return _PLACE.sub(lambda place: _written(facts[place[1]]), template)


def page_texts(language: Language) -> dict[str, Text]:
    """Returns the texts that the page uses, by key."""
    parts = _parts(language)
    return {**parts["both"], **parts["page"]}


@cache
def catalogue(language: Language) -> Mapping[str, Text]:
    """Returns all texts of a language by key."""
    return {key: template for part in _parts(language).values() for key, template in part.items()}


def places(template: Text) -> set[str]:
    """Returns the names of the facts that a text needs, with `n` if it has a plural."""
    if isinstance(template, str):
        return set(_PLACE.findall(template))
    return {"n", *(place for form in template.values() for place in _PLACE.findall(form))}


class LocalizedError(Exception):
    """Base of the errors whose message is a text of the catalogue.

    `code`: the key of the text, by default the name of the class. `facts`: the facts of the text.
    `fact_chars`: maximum length of facts that are strings; None: no limit. Subclasses inherit it.
    """

    code = "internal"
    fact_chars: int | None = None

    def __init_subclass__(cls, *, code: str | None = None, fact_chars: int | None = None) -> None:
        cls.code = code or cls.__name__
        cls.fact_chars = fact_chars or cls.fact_chars

    def __init__(self, **facts: Any) -> None:
        max_chars = self.fact_chars
        self.facts: Mapping[str, Any] = {
            name: fact[:max_chars] if isinstance(fact, str) else fact
            for name, fact in facts.items()
        }
        super().__init__(*self.facts.values())

    def text(self, language: Language) -> str:
        """Returns the message for people."""
        return text(self.code, language, **self.facts)

    def details(self, language: Language) -> str:  # noqa: ARG002 - some errors have none in one language
        """Returns details that the message lacks: texts of other programs or in English."""
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
