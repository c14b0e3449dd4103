"""Compares and merges JSON documents field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

MISSING: Final = object()
"""Stands for the value of a field that is not there."""

_DEPTH = 6
_DEPTH_WITH_LISTS = 16
"""Fields nested deeper are compared as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field before and after; `MISSING` where it is not there."""

    path: tuple[str, ...]
    before: Any
    after: Any

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def undone(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the document with the value before; None where the value after is not
        there any more.
        """
        holder = _value(document, self.path[:-1])
        if not isinstance(holder, Mapping) or not same(_value(document, self.path), self.after):
            return None
        return _with(document, self.path, self.before)


def field_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], *, in_lists: bool = False
) -> tuple[FieldChange, ...]:
    """Return every field in which two documents differ, in the order of their fields.

    With `in_lists` also lists of one length are compared item by item, each under its number.
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
        for key, one, other in pairs:
            yield from _differences(one, other, (*path, key), in_lists=in_lists)
    elif not same(before, after):
        yield FieldChange(path=path, before=before, after=after)


def same(one: Any, other: Any) -> bool:
    """Say whether two JSON values are equal; unlike Python, true is not 1."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        left = cast(Mapping[str, Any], one)
        right = cast(Mapping[str, Any], other)
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        mine = cast(Sequence[Any], one)
        theirs = cast(Sequence[Any], other)
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def merge(base: Any, ours: Any, theirs: Any) -> Any:
    """Return a JSON value with the changes of both, ours where both changed it.

    `MISSING` stands for none, also in what is returned.
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
    found = {
        key: merge(old.get(key, MISSING), mine.get(key, MISSING), other.get(key, MISSING))
        for key in {**other, **mine}
    }
    return {key: value for key, value in found.items() if value is not MISSING}


def _value(document: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(document, Mapping) or part not in document:
            return MISSING
        document = cast(Mapping[str, Any], document)[part]
    return document


def _with(document: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return a copy with one field set, or removed when the value is MISSING."""
    head, *rest = path
    copy = dict(document)
    if rest:
        copy[head] = _with(copy[head], tuple(rest), value)
    elif value is MISSING:
        copy.pop(head, None)
    else:
        copy[head] = value
    return copy
