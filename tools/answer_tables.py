"""Parses what a tool answered: TOON tables, fields and sentences, also when the end was cut off.

A row of a table stands on one line whatever is written in the graph, so nothing in a node's text
can begin a table, a field or a sentence here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, cast

from datasources.text import letters
from tools.toon import ToonError, decode

Row = Mapping[str, Any]

_HEADER = re.compile(r"^(?P<name>[A-Za-z_]\w*)?\[(?P<count>\d+)\](?P<columns>\{.*\}):$")
_FIELD = re.compile(r"^[A-Za-z_]\w*: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTables:
    """What a tool answered; `notes` are sentences.

    `outcome` is what became of a proposal, where the answer is about one.
    """

    text: str = ""
    is_error: bool = False
    outcome: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tables: Mapping[str, tuple[Row, ...]] = field(default_factory=dict[str, tuple[Row, ...]])
    notes: tuple[str, ...] = ()

    def rows(self, name: str) -> tuple[Row, ...]:
        """Return the rows of a table; none where there is no such table."""
        return self.tables.get(name, ())

    def text_of(self, name: str) -> str:
        """Return a field as text; empty where there is none."""
        return cell(self.fields.get(name))


def cell(value: Any) -> str:
    """Return a cell of a table as text; a null is empty."""
    return "" if value is None else str(value)


def key_of(row: Row) -> str:
    """Return the key of a node, edge or other row that has one."""
    return cell(row.get("_key"))


def parse_answer(
    text: str, *, is_error: bool = False, outcome: Mapping[str, Any] | None = None
) -> ToolTables:
    """Parse a tool's answer. Never raises: what cannot be read is left out."""
    fields: dict[str, Any] = {}
    tables: dict[str, tuple[Row, ...]] = {}
    notes: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at = at + 1
        header = _HEADER.match(line)
        if header is not None:
            start = at
            while at < len(lines) and lines[at].startswith("  "):
                at += 1
            rows = _rows(header["columns"], lines[start:at][: int(header["count"])])
            tables.setdefault(header["name"] or "", rows)
        elif _FIELD.match(line):
            value = _decoded(line)
            fields = (
                {**cast(dict[str, Any], value), **fields} if isinstance(value, dict) else fields
            )
        elif line.strip():
            notes.append(line)
    return ToolTables(
        text=text,
        is_error=is_error or text.startswith("ERROR "),
        outcome=outcome or {},
        fields=fields,
        tables=tables,
        notes=tuple(notes),
    )


def _rows(columns: str, lines: list[str]) -> tuple[Row, ...]:
    whole = _decoded("\n".join([f"[{len(lines)}]{columns}:", *lines]))
    if whole is None and len(lines) > 1:  # a broken row spoils the whole: read them one by one
        return tuple(row for line in lines for row in _rows(columns, [line]))
    rows = cast(list[Any], whole) if isinstance(whole, list) else []
    return tuple(cast(Row, row) for row in rows if isinstance(row, dict))


def _decoded(text: str) -> Any:
    try:
        return decode(text)
    except ToonError:
        return None


class EdgeEnds(NamedTuple):
    """An edge as a table shows it."""

    source: str
    source_handle: str
    target: str
    target_handle: str
    label: str
    row: Row


def edges_of(answer: ToolTables, nodes: Collection[str] | None = None) -> list[EdgeEnds]:
    """Return the edges of an answer whose ends are among its nodes, or among those given."""
    keys = {key_of(row) for row in answer.rows("nodes")} if nodes is None else nodes
    found: list[EdgeEnds] = []
    for row in answer.rows("edges"):
        source = _end(cell(row.get("from")), keys)
        target = _end(cell(row.get("to")), keys)
        if source and target:
            found.append(EdgeEnds(*source, *target, cell(row.get("label")), row))
    return found


def _end(text: str, keys: Collection[str]) -> tuple[str, str] | None:
    """Split `key:handle`; keys and handles may hold colons themselves, so the longest
    known key counts.
    """
    at = text.rfind(":")
    while at > 0:
        if text[:at] in keys:
            return text[:at], text[at + 1 :]
        at = text.rfind(":", 0, at)
    return None


# Connection points

_POINT = re.compile(
    r"(?P<side>[TDRL0]):(?P<id>[^,;<> ]+)(?:<(?P<accept>[^<>]*)>)?(?: (?P<label>'(?:[^']|'')*'|[^,;]+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A connection point."""

    id: str
    direction: str
    accept: str = "any"
    label: str = ""


def handles_of_node(detail: ToolTables) -> list[Handle]:
    """Return the handles that `read_node_detail` shows."""
    columns = ("handle", "direction", "accept", "display")
    cells = [[cell(row.get(column)) for column in columns] for row in detail.rows("handles")]
    return [
        Handle(id=i, direction=d, accept=accept or "any", label=label)
        for i, d, accept, label in cells
    ]


def handles_of_type(config: ToolTables) -> list[Handle]:
    """Return the handles that `read_node_config` shows, as `in L:0; out R:0
    success,R:1<number>`.
    """
    sides = re.findall(r"(?:^|; )(in|out) ((?:'(?:[^']|'')*'|[^;'])*)", config.text_of("handles"))
    return [
        Handle(
            id=p["id"],
            direction=direction,
            accept=p["accept"] or "any",
            label=(p["label"] or "").strip("'"),
        )
        for direction, part in sides
        for p in _POINT.finditer(part)
    ]


def of_direction(handles: Sequence[Handle], direction: str) -> list[Handle]:
    return [handle for handle in handles if handle.direction == direction]


def named_handles(handles: Sequence[Handle], name: str) -> list[Handle]:
    """Return the handles of an id or a label."""
    low = letters(name)
    return [h for h in handles if h.id == name] or [
        h for h in handles if low and letters(h.label) == low
    ]


def fitting_pair(
    source: Sequence[Handle], target: Sequence[Handle]
) -> tuple[Handle, Handle] | None:
    """Return the first output of one node and input of the other that accept the same."""
    for pair in product(of_direction(source, "out"), of_direction(target, "in")):
        if pair[0].accept == pair[1].accept or "any" in (pair[0].accept, pair[1].accept):
            return pair
    return None
