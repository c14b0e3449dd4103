"""The connection points of nodes and types, as the tools show them, and which of them fit together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from graphrag.rules.normalized_text import letters
from graphrag.rules.tool_tables import ToolTables, cell

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
    return [Handle(id=i, direction=d, accept=accept or "any", label=label) for i, d, accept, label in cells]


def handles_of_type(config: ToolTables) -> list[Handle]:
    """Return the handles that `read_node_config` shows, as `in L:0; out R:0 success,R:1<number>`."""
    sides = re.findall(r"(?:^|; )(in|out) ((?:'(?:[^']|'')*'|[^;'])*)", config.text_of("handles"))
    return [
        Handle(
            id=p["id"], direction=direction, accept=p["accept"] or "any", label=(p["label"] or "").strip("'")
        )
        for direction, part in sides
        for p in _POINT.finditer(part)
    ]


def of_direction(handles: Sequence[Handle], direction: str) -> list[Handle]:
    return [handle for handle in handles if handle.direction == direction]


def named_handles(handles: Sequence[Handle], name: str) -> list[Handle]:
    """Return the handles of an id or a label."""
    low = letters(name)
    return [h for h in handles if h.id == name] or [h for h in handles if low and letters(h.label) == low]


def fitting_pair(source: Sequence[Handle], target: Sequence[Handle]) -> tuple[Handle, Handle] | None:
    """Return the first output of one node and input of the other that accept the same."""
    for pair in product(of_direction(source, "out"), of_direction(target, "in")):
        if pair[0].accept == pair[1].accept or "any" in (pair[0].accept, pair[1].accept):
            return pair
    return None
