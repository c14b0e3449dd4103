"""Chooses the handles of a new edge: an `out` and an `in` that accept the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from graphrag.offline.readings import Reading, cell
from graphrag.offline.wording import letters

_POINT = re.compile(
    r"(?P<side>[TDRL0]):(?P<id>[^,;<> ]+)(?:<(?P<accept>[^<>]*)>)?(?: (?P<label>'(?:[^']|'')*'|[^,;]+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    id: str
    accept: str = "any"
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handles:
    """The connection points of a node or a type, in order."""

    inputs: tuple[Handle, ...] = ()
    outputs: tuple[Handle, ...] = ()


def handles_of_node(detail: Reading) -> Handles:
    """Return the handles that `read_node_detail` shows."""
    sides: dict[str, list[Handle]] = {"in": [], "out": []}
    for row in detail.rows("handles"):
        handle = Handle(
            id=cell(row.get("handle")),
            accept=cell(row.get("accept")) or "any",
            label=cell(row.get("display")),
        )
        sides.get(cell(row.get("direction")), []).append(handle)
    return Handles(inputs=tuple(sides["in"]), outputs=tuple(sides["out"]))


def handles_of_type(config: Reading) -> Handles:
    """Return the handles that `read_node_config` shows, as `in L:0; out R:0 success,R:1<number>`."""
    text = config.text_of("handles")
    found: dict[str, tuple[Handle, ...]] = {}
    for direction, part in re.findall(r"(?:^|; )(in|out) ((?:'(?:[^']|'')*'|[^;'])*)", text):
        found[direction] = tuple(
            Handle(id=point["id"], accept=point["accept"] or "any", label=(point["label"] or "").strip("'"))
            for point in _POINT.finditer(part)
        )
    return Handles(inputs=found.get("in", ()), outputs=found.get("out", ()))


def fitting_pair(
    outputs: Sequence[Handle], inputs: Sequence[Handle], wanted: str | None = None
) -> tuple[Handle, Handle] | None:
    """Return the first output and input that accept the same; `wanted` names the output."""
    if wanted is not None:
        outputs = named(outputs, wanted)
    return next((pair for pair in product(outputs, inputs) if fits(*pair)), None)


def named(handles: Sequence[Handle], name: str) -> list[Handle]:
    """Return the handles of an id or a label."""
    low = letters(name)
    return [h for h in handles if h.id == name] or [h for h in handles if low and letters(h.label) == low]


def fits(output: Handle, input_: Handle) -> bool:
    return "any" in (output.accept, input_.accept) or output.accept == input_.accept
