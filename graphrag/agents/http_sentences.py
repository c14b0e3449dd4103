"""Says in the agent's language why a request of a document gave nothing that can be used."""

from __future__ import annotations

from graphrag.i18n import LANGUAGES, Language, text


def http_sentence(code: str, language: str, fact: str) -> str:
    """Return the sentence of an error. `language`: `fr-CA` is French, an unknown one English."""
    found: list[Language] = [known for known in LANGUAGES if language.casefold().startswith(known)]
    return text(f"http_{code}", found[0] if found else "en", fact=fact)
