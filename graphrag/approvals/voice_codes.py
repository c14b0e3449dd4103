"""Codes that people say to name a proposal: two words and two digits, as "amber river 42"."""

from __future__ import annotations

import re
import secrets

from graphrag.i18n import Language
from languages.reading import entry

CODE_CHARS = 60


def new_code(language: Language) -> str:
    """Returns a new code. Pending proposals should have different codes."""
    first, second = (entry(language, "codes", name).split() for name in ("first", "second"))
    return f"{secrets.choice(first)} {secrets.choice(second)} {secrets.randbelow(90) + 10}"


def normal(text: str) -> str:
    """Returns a code in its stored form, from any spelling."""
    return " ".join(re.findall(r"\w+", text[:CODE_CHARS].casefold()))
