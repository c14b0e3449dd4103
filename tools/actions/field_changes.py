"""Changes of a node by path, as instructions and as the node that they lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import orjson

from datasources.errors import ForbiddenPath
from datasources.instructions import IDENTITY_FIELDS, Instruction, Op, apply_instruction
from datasources.types import Document, Node, node_fields, parse_document

_MAX_PATHS = 2_000  # of a node's data that are compared with the name of a field
_MISSING: Any = object()
_NODE_FIELDS = frozenset(node_fields("proposable", Node).values())


def path_of(name: str) -> tuple[str, ...]:
    """Return `data.a.b` as a path."""
    return tuple(name.split("."))


def instructions_for(
    document: Mapping[str, Any] | None, changes: Mapping[str, Any]
) -> list[Instruction]:
    """Return a SET for each change; what must stand around a new value is set with it.

    Without the document the path is taken to exist. Raises: InstructionError.
    """
    found: list[Instruction] = []
    current: Any = None if document is None else dict(document)
    for name, value in changes.items():
        path = path_of(name)
        if current is not None:
            path, value = _rooted(current, path, value)
        instruction = Instruction(o=int(Op.SET), p=path, v=value)
        if current is not None:
            current = apply_instruction(current, instruction, protected=IDENTITY_FIELDS)
        elif path[0] in IDENTITY_FIELDS:
            raise ForbiddenPath(op=Op.SET.name, path=path, reason=f"{path[0]!r} may not be written")
        found.append(instruction)
    return found


def _rooted(document: Any, path: tuple[str, ...], value: Any) -> tuple[tuple[str, ...], Any]:
    """Shorten the path to the first part that is missing or null, and wrap the value
    in the rest.
    """
    holder = document
    for depth, part in enumerate(path[:-1], 1):
        # Of what is neither an object nor a fitting list the instruction will say what is wrong.
        holder = child(holder, part, None if isinstance(holder, dict) else holder)
        if holder is None:
            for key in reversed(path[depth:]):
                value = {key: value}
            return path[:depth], value
    return path, value


def child(holder: Any, part: str, missing: Any = None) -> Any:
    """Return a field of an object, or an item of a list by its number; `missing` where
    there is none.
    """
    if isinstance(holder, dict):
        return cast(dict[str, Any], holder).get(part, missing)
    items: list[Any] = cast(list[Any], holder) if isinstance(holder, list) else []
    if part.isascii() and part.isdigit() and len(part) < 10 and int(part) < len(items):
        return items[int(part)]
    return missing


def value_at(document: Any, path: Sequence[str], missing: Any = None) -> Any:
    """Return the value at a path, `missing` where there is none."""
    value = document
    for part in path:
        value = child(value, part, missing)
    return value


def meant_path(document: Mapping[str, Any], name: str, value: Any) -> str:
    """Returns the path of the field that a change of a node names, where it names it
    in a shorter way.

    A path may leave out `data`; in data of another tool, with `parameters` in it, it may be the end
    of the one path that ends so. A text for a resource locator becomes its value. Any other stays.
    """
    data, (head, *rest) = document.get("data"), path_of(name)
    if not isinstance(data, dict) or (
        head != "data" and (head in document or head in _NODE_FIELDS)
    ):
        return name
    fields = cast(dict[str, Any], data)
    parts = tuple(rest) if head == "data" else (head, *rest)
    if value_at(fields, parts, _MISSING) is _MISSING:
        is_nested = isinstance(fields.get("parameters"), dict)
        ends = (
            [path for path in _paths(fields) if path[-len(parts) :] == parts] if is_nested else []
        )
        if not parts or len(ends) != 1:
            return name
        parts = ends[0]
    old: Any = value_at(fields, parts)
    is_locator = isinstance(old, dict) and "__rl" in old and not isinstance(value, dict)
    return ".".join(("data", *parts, *(("value",) if is_locator else ())))


def _paths(fields: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields the paths of all fields, those of lists left out, the first _MAX_PATHS of them."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), fields)]
    for path, value in islice(waiting, _MAX_PATHS):
        if path:
            yield path
        if isinstance(value, dict):
            inner = cast(dict[str, Any], value)
            waiting += [((*path, key), item) for key, item in inner.items() if "." not in key]


def json_document(document: Document) -> dict[str, Any]:
    """Return a document as JSON has it: instructions know arrays, not tuples."""
    return orjson.loads(document.to_json())


def changed_node(node: Node, changes: Mapping[str, Any]) -> Node:
    """Return the node after its changes. Raises: InstructionError, BadDocument."""
    document: Any = json_document(node)
    for instruction in instructions_for(document, changes):
        document = apply_instruction(document, instruction, protected=IDENTITY_FIELDS)
    return parse_document(Node, document, "nodes")


def fault_of_change(node: Node, name: str) -> str | None:
    """Return why a field must not be written, or None."""
    head = name.partition(".")[0]
    if head in IDENTITY_FIELDS:
        return f"{head} cannot be changed"
    if head in node_fields("proposable", type(node)).values():
        return None
    if head.startswith("_") or head.startswith("embedding"):
        return f"{head} is not yours to write"
    if head in node.to_document():
        return None
    return (
        f"nodes have no field {head[:60]!r}; a node's own values are in data: "
        f"did you mean data.{name[:60]}?"
    )
