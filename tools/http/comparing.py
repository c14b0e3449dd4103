"""Compares JSON values: `1 == 1.0`, `1 != true`, `"1" != 1`, at every depth. Bounded, never raises."""

from __future__ import annotations

from typing import Any, cast

MAX_STEPS = 200_000
MAX_ELEMENTS = 10_000


class Steps:
    """Counts what one evaluation compares inside lists and objects.

    Beyond `MAX_STEPS` two of them count as different, so that no condition holds up the process.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS


def same(left: Any, right: Any, steps: Steps) -> bool:
    """Return whether both are the same JSON value."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if not isinstance(left, list | dict):
        return bool(left == right)
    pending: list[tuple[Any, Any]] = [(left, right)]
    while pending:
        one, other = pending.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            mapping, mapping2 = cast(dict[str, Any], one), cast(dict[str, Any], other)
            if mapping.keys() != mapping2.keys() or not _paid(steps, len(mapping)):
                return False
            pending.extend((value, mapping2[key]) for key, value in mapping.items())
        elif isinstance(one, list) and isinstance(other, list):
            items, items2 = cast(list[Any], one), cast(list[Any], other)
            if len(items) != len(items2) or not _paid(steps, len(items)):
                return False
            pending.extend(zip(items, items2, strict=True))
        elif isinstance(one, bool) or isinstance(other, bool):
            if one is not other:
                return False
        elif one != other:
            return False
    return True


def _paid(steps: Steps, count: int) -> bool:
    steps.left -= count + 1
    return steps.left > 0


def ordered(left: Any, right: Any) -> bool:
    """Return whether the two have an order: two numbers or two texts."""
    if isinstance(left, str):
        return isinstance(right, str)
    return _number(left) and _number(right)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def member_of(item: Any, container: Any, steps: Steps) -> bool:
    """Return whether `item` is an element of a list (of its first 10,000), part of a text, or a key."""
    if isinstance(container, list):
        items = cast(list[Any], container)[:MAX_ELEMENTS]
        steps.left -= len(items)
        return steps.left > 0 and any(same(item, element, steps) for element in items)
    if isinstance(container, str | dict):
        return isinstance(item, str) and item in cast("dict[str, Any] | str", container)
    return False
