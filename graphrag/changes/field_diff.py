"""Compares and merges JSON documents field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

# The value of a field that does not exist.
MISSING: Final = object()

_DEPTH = 6
# Levels of nesting; deeper fields are compared as a whole.
_DEPTH_WITH_LISTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field before and after a change, `MISSING` where it does not exist."""

    path: tuple[str, ...]
    before: Any
    after: Any

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def undone(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the document with the old value, None if it no longer has the new value."""
        holder = _value(document, self.path[:-1])
        if not isinstance(holder, Mapping) or not same(_value(document, self.path), self.after):
            return None
        return _with(document, self.path, self.before)


def field_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], *, in_lists: bool = False
) -> tuple[FieldChange, ...]:
    """Returns the fields in which two documents differ, in order.

    With `in_lists`, lists of equal length are compared item by item, under their indexes.
    """
    return tuple(_differences(before, after, (), in_lists=in_lists))


def _differences(
    before: Any, after: Any, path: tuple[str, ...], *, in_lists: bool
) -> Iterator[FieldChange]:
    pairs: Iterable[tuple[str, Any, Any]] | None = None
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        old = cast(Mapping[str, Any], before)
        new = cast(Mapping[str, Any], after)
        pairs = [
            (key, old.get(key, MISSING), new.get(key, MISSING))
            for key in dict.fromkeys([*old, *new])
        ]
    elif in_lists and isinstance(before, list) and isinstance(after, list):
        items = cast(list[Any], before), cast(list[Any], after)
        if len(items[0]) == len(items[1]):
            pairs = [(str(number), *pair) for number, pair in enumerate(zip(*items, strict=True))]
    if pairs is not None and len(path) < (_DEPTH_WITH_LISTS if in_lists else _DEPTH):
        for key, old_value, new_value in pairs:
            yield from _differences(old_value, new_value, (*path, key), in_lists=in_lists)
    elif not same(before, after):
        yield FieldChange(path=path, before=before, after=after)


def same(first: Any, second: Any) -> bool:
    """Returns whether two JSON values are equal; unlike in Python, true does not equal 1."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        left = cast(Mapping[str, Any], first)
        right = cast(Mapping[str, Any], second)
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        mine = cast(Sequence[Any], first)
        theirs = cast(Sequence[Any], second)
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    return isinstance(first, bool) == isinstance(second, bool) and first == second


def merge(base: Any, ours: Any, theirs: Any) -> Any:
    """Returns a JSON value with the changes of both sides; `ours` wins where both changed it.

    `MISSING` stands for a missing value, also as the result.
    """
    if same(theirs, base) or same(ours, theirs):
        return ours
    if same(ours, base):
        return theirs
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return cast(Any, ours)
    mine = cast(dict[str, Any], ours)
    other = cast(dict[str, Any], theirs)
    old = cast(dict[str, Any], base) if isinstance(base, dict) else {}
    merged = {
        key: merge(old.get(key, MISSING), mine.get(key, MISSING), other.get(key, MISSING))
        for key in {**other, **mine}
    }
    return {key: value for key, value in merged.items() if value is not MISSING}


def _value(document: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(document, Mapping) or part not in document:
            return MISSING
        document = cast(Mapping[str, Any], document)[part]
    return document


def _with(document: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Returns a copy with one field set, or removed if the value is MISSING."""
    head, *rest = path
    copy = dict(document)
    if rest:
        copy[head] = _with(copy[head], tuple(rest), value)
    elif value is MISSING:
        copy.pop(head, None)
    else:
        copy[head] = value
    return copy
