"""Converts values for templates: their text form, and the filters of placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

_INTEGER = re.compile(r"-?[0-9]{1,400}")
_NUMBER = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")


class TemplateFailed(Exception):
    """Raised when a template cannot be rendered with the given values.

    `code` is `template_error`, or `missing_value` if a value in the path of a URL is empty
    (`path` names the value).
    """

    def __init__(self, code: str, what: str, *, path: str = "") -> None:
        self.code = code
        self.what = what
        self.path = path
        super().__init__(what)


def as_text(value: Any) -> str:
    """Returns a value as text: a string unchanged, null as "", others as JSON."""
    return value if isinstance(value, str) else "" if value is None else compact(value)


def compact(value: Any) -> str:
    """Returns compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def percent_encoded(value: Any) -> str:
    """Returns a value as text with all reserved characters percent-encoded, including `/`.

    Raises: TemplateFailed.
    """
    try:
        return quote(as_text(value), safe="")
    except UnicodeEncodeError as error:
        raise TemplateFailed("template_error", "a value of the address is no valid text") from error


def _integer(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    raise TemplateFailed("template_error", f"{_short(value)} is no integer")


def _float(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        if number - number == 0:  # false for an infinity and for NaN
            return number
    raise TemplateFailed("template_error", f"{_short(value)} is no number")


def _short(value: Any) -> str:
    text = compact(value)
    return text if len(text) <= 40 else text[:40] + "…"


FILTERS: Mapping[str, Callable[[Any], Any]] = {
    "json": compact,
    "int": _integer,
    "float": _float,
    "string": as_text,
}
"""The filters without arguments. They raise TemplateFailed."""
