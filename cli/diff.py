"""Prints the changes of a proposal from its stored preview."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from cli import render
from tools.toon import compact_json

ADDED, REMOVED, CHANGED, CODE = "green", "red", "yellow", "dim"
_VALUE_CHARS = 200
_NAME_CHARS = 80

Line = tuple[str, str | None]


def print_preview(preview: Mapping[str, Any], indent: str = "  ") -> None:
    """Prints a preview, with added lines green and removed ones red."""
    for text, style in preview_lines(preview):
        render.line(indent + text, style)


def preview_lines(preview: Mapping[str, Any]) -> Iterator[Line]:
    """Yields the lines of a stored preview, each with its style."""
    for sign, style, part in (("-", REMOVED, "Removed"), ("+", ADDED, "Added")):
        for node in preview.get(f"nodes{part}", ()):
            yield f"{sign} node {node['_key']}{_named(node.get('data'))} ({node['type']})", style
            if sign == "+":
                yield from _content(node)
        for edge in preview.get(f"edges{part}", ()):
            yield f"{sign} edge {edge['_key']}: {_ends(edge)}", style
        for config in preview.get(f"types{part}", ()):
            yield f"{sign} type {config['node']['type']} “{_short(config['displayName'])}”", style
    for noun in ("nodes", "edges", "types", "graph"):
        for change in preview.get(f"{noun}Changed", ()):
            yield from _changed(noun.removesuffix("s"), change)
    for change in preview.get("nodesMoved", ()):
        before, after = (_place(change["fields"], when) for when in ("before", "after"))
        yield f"> node {change['key']}{_quoted(change)} moves from {before} to {after}", CHANGED
    for broken in preview.get("referencesBroken", ()):
        path = ".".join(broken["path"])
        name = _short(broken["to"])
        yield (
            f"! node {broken['key']}{_quoted(broken)}: {path} refers to “{name}”, which goes",
            REMOVED,
        )


def _changed(noun: str, change: Mapping[str, Any]) -> Iterator[Line]:
    yield f"~ {noun} {change['key']}{_quoted(change)}", CHANGED
    for field in change["fields"]:
        path = ".".join(field["path"])
        if field.get("diff"):
            yield f"    {path}:", None
            for line in field["diff"].split("\n")[2:]:
                style = {"+": ADDED, "-": REMOVED}.get(line[:1], CODE)
                yield f"      {line}", style
            continue
        start = _first_difference(field.get("before"), field.get("after"))
        if "before" in field:
            yield f"  - {path}: {_value(field['before'], start)}", REMOVED
        if "after" in field:
            yield f"  + {path}: {_value(field['after'], start)}", ADDED


def _content(node: Mapping[str, Any]) -> Iterator[Line]:
    """Yields the data of a new node and all of its code, because that is what will run."""
    if node.get("data") not in (None, {}):
        yield f"  + data: {_value(node['data'])}", ADDED
    if node.get("process"):
        for line in node["process"].split("\n"):
            yield f"      +{line}", ADDED


def _place(fields: Sequence[Mapping[str, Any]], when: str) -> str:
    """Returns a position, with whole numbers as such: 1300, which is stored as 1300.0."""
    shown: list[str] = []
    for field in fields:
        at = field.get(when)
        text = f"{at:.10g}" if isinstance(at, int | float) else _value(at)
        shown.append(f"{'x' if field['path'][0] == 'posX' else 'y'} {text}")
    return ", ".join(shown)


def _ends(edge: Mapping[str, Any]) -> str:
    label = f" “{_short(edge['label'])}”" if edge.get("label") else ""
    source = f"{edge['source']}[{edge.get('sourceHandle', '0')}]"
    return f"{source} -> {edge['target']}[{edge.get('targetHandle', '0')}]{label}"


def _named(data: Any) -> str:
    name = cast(Mapping[str, Any], data).get("name") if isinstance(data, Mapping) else None
    return f" “{_short(name)}”" if isinstance(name, str) else ""


def _quoted(change: Mapping[str, Any]) -> str:
    return f" “{_short(change['name'])}”" if change["name"] != change["key"] else ""


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else f"{name[:_NAME_CHARS]}…"


def _first_difference(one: Any, other: Any) -> int:
    """Returns where two long texts begin to differ, so that a cut does not hide it."""
    before = compact_json(one)
    after = compact_json(other)
    return next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)


def _value(value: Any, shown: int = 0) -> str:
    text = compact_json(value)
    if len(text) <= _VALUE_CHARS:
        return text
    start = 0 if shown < _VALUE_CHARS // 2 else shown - _VALUE_CHARS // 4
    cut = text[start : start + _VALUE_CHARS]
    return f"{'…' if start else ''}{cut}… ({len(text)} characters)"
