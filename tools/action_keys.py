"""Finds the keys of nodes, edges and node types in an action by the `Names` marks of its fields.

Each field that holds a key is marked where it is declared, in `proposal_parts`, so no separate
list of such fields is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, cast, get_args

from tools.proposal_parts import Named, Names, Part

P = TypeVar("P", bound=Part)


def keys_named(part: Part, kind: Named) -> set[str]:
    """Returns all keys of one kind in an action, existing and new ones; names for node types."""
    return {key for mark, key in _named(part) if mark.kind == kind}


def with_node_keys(part: P, keys: Mapping[str, str]) -> P:
    """Returns a copy of an action in which the keys of existing nodes are replaced by `keys`."""
    changes: dict[str, Any] = {}
    for field, marks in marks_of(type(part)):
        old = getattr(part, field)
        is_named = any(mark.kind == "node" and not mark.new and not mark.members for mark in marks)
        new = _replaced(old, keys, is_named=is_named)
        if new is not old:
            changes[field] = new
    return part.model_copy(update=changes) if changes else part


def _replaced(value: Any, keys: Mapping[str, str], *, is_named: bool) -> Any:
    if isinstance(value, Part):
        return with_node_keys(value, keys)
    if isinstance(value, str):
        return keys.get(value, value) if is_named else value
    if isinstance(value, list):
        old = cast(list[Any], value)
        new = [_replaced(item, keys, is_named=is_named) for item in old]
        return new if any(a is not b for a, b in zip(old, new, strict=True)) else old
    return value


def _named(part: Part) -> Iterator[tuple[Names, str]]:
    for field, marks in marks_of(type(part)):
        value = getattr(part, field)
        for mark in marks:
            yield from ((mark, key) for key in _keys(value, mark.members))
        items = cast(list[Any], value) if isinstance(value, list) else [value]
        for inner in items if not marks else ():
            if isinstance(inner, Part):
                yield from _named(inner)


def _keys(value: Any, members: tuple[str, ...]) -> Iterator[str]:
    for item in cast(list[Any], value) if isinstance(value, list) else [value]:
        if not members and isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            keys = (cast(Mapping[str, Any], item).get(member) for member in members)
            yield from (key for key in keys if isinstance(key, str))


@cache
def marks_of(part: type[Part]) -> tuple[tuple[str, tuple[Names, ...]], ...]:
    """Returns the fields of a part with their marks, including marks inside a list or an
    optional type.
    """
    return tuple(
        (
            name,
            tuple(
                mark
                for mark in (*field.metadata, *_inside(field.annotation))
                if isinstance(mark, Names)
            ),
        )
        for name, field in part.model_fields.items()
    )


def _inside(annotation: Any) -> Iterator[Any]:
    for inner in get_args(annotation):
        yield inner
        yield from _inside(inner)
