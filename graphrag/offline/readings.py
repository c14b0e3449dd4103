"""Reads what a tool answered: TOON tables, fields and sentences, also when the end was cut off.

A row of a table stands on one line whatever is written in the graph, so nothing in a node's text
can begin a table, a field or a sentence here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tools.toon import ToonError, decode

Row = Mapping[str, Any]

_HEADER = re.compile(r"^(?P<name>[A-Za-z_]\w*)?\[(?P<count>\d+)\](?P<columns>\{.*\}):$")
_EMPTY = re.compile(r"^(?P<name>[A-Za-z_]\w*)?(?:: \[\]|\[0\]:)$")
_FIELD = re.compile(r"^[A-Za-z_]\w*: ")
_TRUNCATED_FIELD = re.compile(r'^(?P<name>[A-Za-z_]\w*): "(?P<text>.*)$', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of a table. `total` is how many it said it has: more than there are when it was cut."""

    rows: tuple[Row, ...]
    total: int

    @property
    def is_whole(self) -> bool:
        return len(self.rows) == self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a tool answered, taken apart. `notes` are its sentences; `asked` says if there was an answer."""

    text: str = ""
    is_error: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tables: Mapping[str, Table] = field(default_factory=dict[str, Table])
    notes: tuple[str, ...] = ()

    def rows(self, name: str) -> tuple[Row, ...]:
        """Return the rows of a table; none where there is no such table."""
        found = self.tables.get(name)
        return found.rows if found else ()

    def is_whole(self, name: str) -> bool:
        """Return whether all rows that a table announced were read."""
        found = self.tables.get(name)
        return found is None or found.is_whole

    def number(self, name: str) -> int | None:
        """Return a field that is a whole number."""
        value = self.fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text_of(self, name: str) -> str:
        """Return a field as text; empty where there is none."""
        return cell(self.fields.get(name))


def cell(value: Any) -> str:
    """Return a cell of a table as text; a null is empty."""
    return "" if value is None else str(value)


def read_answer(text: str, *, is_error: bool = False) -> Reading:
    """Take a tool's answer apart. Never raises: what cannot be read is left out."""
    fields: dict[str, Any] = {}
    tables: dict[str, Table] = {}
    notes: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        header = _HEADER.match(line)
        empty = _EMPTY.match(line)
        if header is not None:
            end = at
            while end < len(lines) and lines[end].startswith("  "):
                end += 1
            tables.setdefault(header["name"] or "", _table(header, lines[at:end]))
            at = end
        elif empty is not None:
            tables.setdefault(empty["name"] or "", Table(rows=(), total=0))
        elif _FIELD.match(line):
            _read_field(line, fields)
        elif line.strip():
            notes.append(line)
    return Reading(
        text=text,
        is_error=is_error or text.startswith("ERROR "),
        fields=fields,
        tables=tables,
        notes=tuple(notes),
    )


def _table(header: re.Match[str], lines: list[str]) -> Table:
    total = int(header["count"])
    lines = lines[:total]
    rows = _rows(header["columns"], lines)
    if rows is None:  # a broken row spoils the whole: read them one by one
        each = (_rows(header["columns"], [line]) for line in lines)
        rows = [row for found in each if found for row in found]
    return Table(rows=tuple(rows), total=max(total, len(rows)))


def _rows(columns: str, lines: list[str]) -> list[Row] | None:
    if not lines:
        return []
    try:
        value = decode("\n".join([f"[{len(lines)}]{columns}:", *lines]))
    except ToonError:
        return None
    if not isinstance(value, list):
        return None
    return [cast(Row, row) for row in cast(list[Any], value) if isinstance(row, dict)]


def _read_field(line: str, fields: dict[str, Any]) -> None:
    try:
        value = decode(line)
    except ToonError:
        cut = _TRUNCATED_FIELD.match(line)
        value = {cut["name"]: _unquoted(cut["text"])} if cut else None
    if isinstance(value, dict):
        for name, item in cast(dict[str, Any], value).items():
            fields.setdefault(name, item)


def _unquoted(text: str) -> str:
    plain = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda m: plain.get(m.group(1), m.group(1)), text)
