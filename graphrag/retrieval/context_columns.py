"""The columns of the tables in a context."""

from __future__ import annotations

from typing import Literal

Section = Literal["nodes", "notes", "others", "types"]

ALWAYS: dict[Section, tuple[str, ...]] = {
    "nodes": ("_key", "type", "sheet", "process"),
    "notes": ("_key", "says"),
    "others": ("_key",),
    "types": ("type", "name", "description", "handles"),
}
WHEN_PRESENT: dict[Section, tuple[str, ...]] = {
    "nodes": ("name", "data", "handles", "why"),
    "notes": ("around",),
    "others": ("name", "type", "does"),
    "types": ("process",),
}
