"""Secrets by name: their values leave in headers only, and are masked in every text
that comes back.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, cast
from urllib.parse import quote, quote_plus

MASKED_FROM = 8
"""Values shorter than this stand in texts by chance: they are not masked. Unit: characters."""


class Secrets:
    """The configured secrets of a service. Values are never shown: `repr` and errors
    hold names only.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name: value for name, value in values.items() if value}
        forms = {
            form: name
            for name, value in self._values.items()
            if len(value) >= MASKED_FROM
            for form in _forms(value)
        }
        self._probes = {json.dumps(form, ensure_ascii=False)[1:-1] for form in forms}
        self._numbers = any(form.lstrip("-").replace(".", "", 1).isdigit() for form in forms)
        self._forms = sorted(forms.items(), key=lambda pair: len(pair[0]), reverse=True)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self._values)})"

    def only_masking(self) -> Secrets:
        """Return what masks the same texts and gives no value: for who may not send them."""
        made = copy(self)
        made._values = {}
        return made

    def values(self, names: Iterable[str]) -> dict[str, str]:
        """Return the values of some secrets, for headers."""
        return {name: self._values[name] for name in names if name in self._values}

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names that have no value."""
        return [name for name in names if name not in self._values]

    def present(self, text: str) -> bool:
        """Return whether a text is the value of a secret."""
        return text in self._values.values()

    def mask(self, text: str) -> str:
        """Return a text with `[secret NAME]` in place of each value, also where it is encoded."""
        for form, name in self._forms:
            if form in text:
                text = text.replace(form, f"[secret {name}]")
        return text

    def mask_value(self, value: Any) -> Any:
        """Return a JSON value with every text, name and number in it masked. Depth: that
        of an answer.
        """
        whole = json.dumps(value, ensure_ascii=False) if self._forms else ""
        return self._masked(value) if any(probe in whole for probe in self._probes) else value

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask(value) if len(value) >= MASKED_FROM else value
        if isinstance(value, list):
            return [self._masked(inner) for inner in cast(list[Any], value)]
        if isinstance(value, dict):
            pairs = cast(dict[str, Any], value).items()
            return {self.mask(name): self._masked(inner) for name, inner in pairs}
        if self._numbers and isinstance(value, int | float) and not isinstance(value, bool):
            masked = self.mask(text := json.dumps(value))
            return value if masked == text else masked
        return value


def _forms(value: str) -> set[str]:
    """Return how a value may be written by those who send it back: escaped, or inside of base64."""
    forms = {value, quote(value, safe=""), quote(value), quote_plus(value)}
    forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    for shift, begin in enumerate((0, 2, 3)):  # what stands before it moves its bits
        raw = b"\0" * shift + value.encode()
        inside = b64encode(raw).decode()[begin : len(raw) * 8 // 6]
        if len(inside) >= MASKED_FROM:
            forms |= {inside, inside.replace("+", "-").replace("/", "_")}
    return forms
