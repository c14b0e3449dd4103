"""Secrets by name. Their values are sent only in headers, and masked in all answers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, cast
from urllib.parse import quote, quote_plus

MASKED_FROM = 8
"""Minimum length in characters of a masked value: shorter ones occur in texts by chance."""


class Secrets:
    """The configured secrets of a service. `repr` and errors contain only their names."""

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
        """Returns an object that masks the same values but does not give access to them."""
        masking = copy(self)
        masking._values = {}
        return masking

    def values(self, names: Iterable[str]) -> dict[str, str]:
        """Returns the values of the named secrets, for headers. Leaves out unknown names."""
        return {name: self._values[name] for name in names if name in self._values}

    def missing(self, names: Iterable[str]) -> list[str]:
        """Returns the names of secrets without a value."""
        return [name for name in names if name not in self._values]

    def present(self, text: str) -> bool:
        """Returns whether a text is the value of a secret."""
        return text in self._values.values()

    def mask(self, text: str) -> str:
        """Returns a text with each secret, also in encoded form, replaced by `[secret NAME]`."""
        for form, name in self._forms:
            if form in text:
                text = text.replace(form, f"[secret {name}]")
        return text

    def mask_value(self, value: Any) -> Any:
        """Returns a JSON value with every text, name and number in it masked. Depth: that
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
    """Returns the forms in which a server may send a value back: escaped, or as part of base64."""
    forms = {value, quote(value, safe=""), quote(value), quote_plus(value)}
    forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    for shift, begin in enumerate((0, 2, 3)):  # base64 depends on the number of bytes before it
        raw = b"\0" * shift + value.encode()
        inside = b64encode(raw).decode()[begin : len(raw) * 8 // 6]
        if len(inside) >= MASKED_FROM:
            forms |= {inside, inside.replace("+", "-").replace("/", "_")}
    return forms
