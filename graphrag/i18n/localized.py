"""Errors that people are told in their language: the text stands in the catalogue under a code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphrag.i18n import Language, message


class LocalizedError(Exception):
    """Base of them. `code` names the text; an instance may have another than its class."""

    code = "internal"

    def facts(self) -> Mapping[str, Any]:
        """Return what stands in the text's places."""
        return {}

    def text(self, language: Language) -> str:
        """Return what to tell a person."""
        return message(self.code, language).format(**self.facts())

    def __str__(self) -> str:
        return self.text("en")
