"""Parses the text of a tool result (TOON tables, fields and sentences), even if its end is cut off.

A table row is always one line, whatever text a graph contains, so text of a node cannot be
mistaken for a table, field or sentence.
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
    """A parsed tool result. `notes` are its sentences.

    `outcome` holds the status of a proposal if the result is about one.
    """

    text: str = ""
    is_error: bool = False
    outcome: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tables: Mapping[str, tuple[Row, ...]] = field(default_factory=dict[str, tuple[Row, ...]])
    notes: tuple[str, ...] = ()

    def rows(self, name: str) -> tuple[Row, ...]:
        """Returns the rows of a table; () if there is no such table."""
        return self.tables.get(name, ())

    def text_of(self, name: str) -> str:
        """Returns a field as text; "" if it is missing."""
        return cell(self.fields.get(name))


def cell(value: Any) -> str:
    """Returns a table cell as text; "" for null."""
    return "" if value is None else str(value)


def key_of(row: Row) -> str:
    """Returns the `_key` of a row; "" if it has none."""
    return cell(row.get("_key"))


def parse_answer(
    text: str, *, is_error: bool = False, outcome: Mapping[str, Any] | None = None
) -> ToolTables:
    """Parses a tool result. Never raises: unreadable parts are left out."""
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
    if whole is None and len(lines) > 1:  # one invalid row: parse the rows one by one
        return tuple(row for line in lines for row in _rows(columns, [line]))
    rows = cast(list[Any], whole) if isinstance(whole, list) else []
    return tuple(cast(Row, row) for row in rows if isinstance(row, dict))


def _decoded(text: str) -> Any:
    try:
        return decode(text)
    except ToonError:
        return None


class EdgeEnds(NamedTuple):
    """An edge read from a table."""

    source: str
    source_handle: str
    target: str
    target_handle: str
    label: str
    row: Row


def edges_of(answer: ToolTables, nodes: Collection[str] | None = None) -> list[EdgeEnds]:
    """Returns the edges whose two ends are in `nodes`, by default the nodes of the answer."""
    keys = {key_of(row) for row in answer.rows("nodes")} if nodes is None else nodes
    edges: list[EdgeEnds] = []
    for row in answer.rows("edges"):
        source = _end(cell(row.get("from")), keys)
        target = _end(cell(row.get("to")), keys)
        if source and target:
            edges.append(EdgeEnds(*source, *target, cell(row.get("label")), row))
    return edges


def _end(text: str, keys: Collection[str]) -> tuple[str, str] | None:
    """Splits `key:handle`. Both may contain colons, so the longest prefix in `keys` is the key."""
    at = text.rfind(":")
    while at > 0:
        if text[:at] in keys:
            return text[:at], text[at + 1 :]
        at = text.rfind(":", 0, at)
    return None


_POINT = re.compile(
    r"(?P<side>[TDRL0]):(?P<id>[^,;<> ]+)(?:<(?P<accept>[^<>]*)>)?(?: (?P<label>'(?:[^']|'')*'|[^,;]+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A connection point of a node. `direction` is "in" or "out"."""

    id: str
    direction: str
    accept: str = "any"
    label: str = ""


def handles_of_node(detail: ToolTables) -> list[Handle]:
    """Returns the handles in a result of `read_node_detail`."""
    columns = ("handle", "direction", "accept", "display")
    cells = [[cell(row.get(column)) for column in columns] for row in detail.rows("handles")]
    return [
        Handle(id=i, direction=d, accept=accept or "any", label=label)
        for i, d, accept, label in cells
    ]


def handles_of_type(config: ToolTables) -> list[Handle]:
    """Returns the handles in a result of `read_node_config`, written as
    `in L:0; out R:0 success,R:1<number>`.
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
    """Returns the handles with `name` as their id, or else as their label."""
    low = letters(name)
    return [h for h in handles if h.id == name] or [
        h for h in handles if low and letters(h.label) == low
    ]


def fitting_pair(
    source: Sequence[Handle], target: Sequence[Handle]
) -> tuple[Handle, Handle] | None:
    """Returns the first pair of an output of `source` and an input of `target` with compatible
    types; None if there is none.
    """
    for pair in product(of_direction(source, "out"), of_direction(target, "in")):
        if pair[0].accept == pair[1].accept or "any" in (pair[0].accept, pair[1].accept):
            return pair
    return None
