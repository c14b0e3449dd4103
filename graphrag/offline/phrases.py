"""What the offline answerer says, in French and English. Facts stand in braces."""

from __future__ import annotations

from typing import Any

from graphrag.messages import Language
from graphrag.offline.phrases_changes import CHANGES
from graphrag.offline.phrases_reading import READING

PHRASES: dict[str, dict[Language, str]] = {**READING, **CHANGES}


def say(phrase: str, language: Language, /, **facts: Any) -> str:
    """Return a phrase with its facts put in; an unknown name is a fault of the program."""
    return PHRASES[phrase][language].format(**facts)
