"""What the offline answerer says, in French and English."""

from __future__ import annotations

from typing import Any

from graphrag.messages import Language

PHRASES: dict[str, dict[Language, str]] = {}


def say(name: str, language: Language, **facts: Any) -> str:
    """Return a phrase with its facts put in."""
    return PHRASES[name][language].format(**facts)
