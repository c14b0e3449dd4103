"""Reads the fields of what a server sent, which may be of any shape.

The client packages let any shape through: an attribute that they declare as text may be a number.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from pydantic import BaseModel

_WHOLE = re.compile(r"-?\d{1,15}(?:\.0)?")


class Unreadable(Exception):
    """A field is of another type than its format says."""


class Fields:
    """The fields of an object, a package's or a JSON one. None stands for what is missing or null.

    Raises, all over: Unreadable, with the name of the field.
    """

    __slots__ = ("_name", "_raw")

    def __init__(self, raw: object, name: str = "an event") -> None:
        if not isinstance(raw, dict | BaseModel):
            raise Unreadable(f"{name}: it is no object")
        self._raw, self._name = cast(Any, raw), name

    def any(self, name: str) -> Any:
        """Return a field as it is."""
        if isinstance(self._raw, dict):
            return cast(dict[str, Any], self._raw).get(name)
        found = self._raw.__dict__.get(name)
        extra = self._raw.model_extra if found is None else None
        return extra.get(name) if extra else found

    def text(self, name: str) -> str | None:
        value = self.any(name)
        if value is not None and not isinstance(value, str):
            raise Unreadable(f"{name}: it is no text")
        return value

    def json(self, name: str) -> str | None:
        """Return a text, or the JSON of an object or a list that some servers send in its place."""
        value = self.any(name)
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else self.text(name)

    def number(self, name: str) -> int | None:
        value = self.any(name)
        if isinstance(value, str | float):
            value = int(float(value)) if _WHOLE.fullmatch(str(value)) else value
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise Unreadable(f"{name}: it is no whole number")
        return value

    def count(self, name: str) -> int:
        """Return a number that is not negative; 0 where it is missing."""
        value = self.number(name) or 0
        if value < 0:
            raise Unreadable(f"{name}: it is negative")
        return value

    def part(self, name: str) -> Fields | None:
        value = self.any(name)
        return None if value is None else Fields(value, name)

    def parts(self, name: str) -> list[Fields] | None:
        value = self.any(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise Unreadable(f"{name}: it is no list")
        return [Fields(item, name) for item in cast(list[object], value)]
