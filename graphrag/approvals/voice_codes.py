"""Codes that people say to name a proposal: two words and two digits, as "amber river 42"."""

from __future__ import annotations

import json
import re
import secrets
from functools import cache
from pathlib import Path

from graphrag.i18n import Language

CODE_CHARS = 60


def new_code(language: Language) -> str:
    """Return a code; among those that wait at one time each should be there once."""
    first, second = _words()[language]
    return f"{secrets.choice(first)} {secrets.choice(second)} {secrets.randbelow(90) + 10}"


def normal(text: str) -> str:
    """Return a code as it is stored, however somebody wrote it."""
    return " ".join(re.findall(r"\w+", text[:CODE_CHARS].casefold()))


@cache
def _words() -> dict[Language, tuple[list[str], list[str]]]:
    found = json.loads((Path(__file__).parent / "code_words.json").read_text(encoding="utf-8"))
    return {language: tuple(lists) for language, lists in found.items()}
