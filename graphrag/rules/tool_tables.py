"""Parses what a tool answered: TOON tables, fields and sentences, also when the end was cut off.

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
_FIELD = re.compile(r"^[A-Za-z_]\w*: ")
_CUT_FIELD = re.compile(r'^(?P<name>[A-Za-z_]\w*): "(?P<text>.*)$', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTables:
    """What a tool answered. `totals` are the rows that each table announced; `notes` are sentences."""

    text: str = ""
    is_error: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tables: Mapping[str, tuple[Row, ...]] = field(default_factory=dict[str, tuple[Row, ...]])
    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()

    def rows(self, name: str) -> tuple[Row, ...]:
        """Return the rows of a table; none where there is no such table."""
        return self.tables.get(name, ())

    def is_whole(self, name: str) -> bool:
        """Return whether all rows that a table announced were read."""
        return len(self.rows(name)) == self.totals.get(name, 0)

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


def key_of(row: Row) -> str:
    """Return the key of a node, edge or other row that has one."""
    return cell(row.get("_key"))


def parse_answer(text: str, *, is_error: bool = False) -> ToolTables:
    """Parse a tool's answer. Never raises: what cannot be read is left out."""
    fields: dict[str, Any] = {}
    tables: dict[str, tuple[Row, ...]] = {}
    totals: dict[str, int] = {}
    notes: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        header = _HEADER.match(line)
        if header is not None:
            end = at
            while end < len(lines) and lines[end].startswith("  "):
                end += 1
            name, total = header["name"] or "", int(header["count"])
            tables.setdefault(name, _rows(header["columns"], lines[at:end][:total]))
            totals.setdefault(name, total)
            at = end
        elif _FIELD.match(line):
            _add_field(line, fields)
        elif line.strip():
            notes.append(line)
    is_error = is_error or text.startswith("ERROR ")
    return ToolTables(
        text=text, is_error=is_error, fields=fields, tables=tables, totals=totals, notes=tuple(notes)
    )


def _rows(columns: str, lines: list[str]) -> tuple[Row, ...]:
    whole = _decoded(columns, lines)
    if whole is None:  # a broken row spoils the whole: read them one by one
        whole = [row for line in lines for row in _decoded(columns, [line]) or []]
    return tuple(whole)


def _decoded(columns: str, lines: list[str]) -> list[Row] | None:
    try:
        value: Any = decode("\n".join([f"[{len(lines)}]{columns}:", *lines])) if lines else []
    except ToonError:
        return None
    if not isinstance(value, list):
        return None
    return [cast(Row, row) for row in cast(list[Any], value) if isinstance(row, dict)]


def _add_field(line: str, fields: dict[str, Any]) -> None:
    try:
        value = decode(line)
    except ToonError:
        cut = _CUT_FIELD.match(line)
        value = {cut["name"]: _unescaped(cut["text"])} if cut else None
    if isinstance(value, dict):
        for name, item in cast(dict[str, Any], value).items():
            fields.setdefault(name, item)


def _unescaped(text: str) -> str:
    plain = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda m: plain.get(m.group(1), m.group(1)), text)
