"""A place in a document: found by its path, and written into a copy that shares all that stays.

And the check that a JSON value is one that every store and every editor accepts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from datasources.errors import (
    ForbiddenPath,
    IndexOutOfRange,
    InstructionError,
    PathNotFound,
    WrongTarget,
)
from datasources.instructions.instruction import Op

MISSING: Final = object()
"""Nothing stands at the place."""

POLLUTING: Final = frozenset(("__proto__", "constructor", "prototype"))
"""Keys that would reach an object's prototype in the editors that apply the same instruction."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a path leads. `holders` are the document and each container below it along the path."""

    op: Op
    path: tuple[str, ...]
    holders: tuple[Any, ...]
    value: Any

    @property
    def exists(self) -> bool:
        return self.value is not MISSING

    def fault(self, kind: type[InstructionError], reason: str) -> InstructionError:
        """Return the error that says what is wrong here."""
        return kind(op=self.op.name, path=self.path, reason=reason)

    def replaced(self, value: Any) -> Any:
        """Return the document with this value here."""
        for holder, part in zip(reversed(self.holders), reversed(self.path), strict=True):
            if isinstance(holder, list):
                items = cast(list[Any], holder)
                index = int(part)
                value = [*items[:index], value, *items[index + 1 :]]
            else:
                value = {**holder, part: value}
        return value

    def removed(self) -> Any:
        """Return the document without what stands here; the rest of an array closes up."""
        holder = self.holders[-1]
        part = self.path[-1]
        if isinstance(holder, list):
            items = cast(list[Any], holder)
            rest: Any = [*items[: int(part)], *items[int(part) + 1 :]]
        else:
            rest = {key: item for key, item in cast(dict[str, Any], holder).items() if key != part}
        above = Place(op=self.op, path=self.path[:-1], holders=self.holders[:-1], value=holder)
        return above.replaced(rest)


def find(document: Any, path: Sequence[str], op: Op, *, may_be_absent: bool = False) -> Place:
    """Follow a path; every part must exist, the last one only unless it `may_be_absent`.

    Raises: PathNotFound, IndexOutOfRange, WrongTarget, ForbiddenPath.
    """
    holders: list[Any] = []
    value = document
    for depth, part in enumerate(path):
        if part in POLLUTING:
            raise ForbiddenPath(op=op.name, path=path, reason=f"{part!r} may not be written")
        is_last = depth == len(path) - 1
        holders.append(value)
        value = _child(value, part, op, path[: depth + 1])
        if value is MISSING and not (is_last and may_be_absent):
            raise PathNotFound(op=op.name, path=path, reason=f"there is no {part!r:.80}")
    return Place(op=op, path=tuple(path), holders=tuple(holders), value=value)


def _child(holder: Any, part: str, op: Op, path: Sequence[str]) -> Any:
    if isinstance(holder, dict):
        return cast(dict[str, Any], holder).get(part, MISSING)
    if isinstance(holder, list):
        items = cast(list[Any], holder)
        if not _INDEX.fullmatch(part):
            raise PathNotFound(
                op=op.name, path=path, reason=f"an array has no {part!r:.80}, only indices"
            )
        index = int(part)
        if index > len(items):
            raise IndexOutOfRange(op=op.name, path=path, reason=f"the array has {len(items)} items")
        return items[index] if index < len(items) else MISSING
    raise WrongTarget(op=op.name, path=path, reason=f"{kind_of(holder)} has nothing inside")


def kind_of(value: Any) -> str:
    """Return what a JSON value is called in an error."""
    kind = value.__class__
    return "null" if value is None else _KINDS.get(kind, f"a {kind.__name__}")


_KINDS = {
    bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "an array", dict: "an object",
}  # fmt: skip

MAX_VALUE_DEPTH = 100


def json_fault(value: Any) -> str | None:
    """Return what is wrong with a value, or None: it nests too deep, is not JSON,
    names a prototype.
    """
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_VALUE_DEPTH:
            return f"it nests deeper than {MAX_VALUE_DEPTH}"
        if isinstance(item, str):
            if not item.isascii() and any("\ud800" <= c <= "\udfff" for c in item):
                return "a text holds half of a surrogate pair"
        elif isinstance(item, list):
            stack += [(inner, depth + 1) for inner in cast(list[Any], item)]
        elif isinstance(item, dict):
            pairs = cast(dict[Any, Any], item)
            if not all(isinstance(key, str) for key in pairs):
                return "the keys of an object must be texts"
            if "__proto__" in pairs:
                return "'__proto__' may not be written"
            stack += [(part, depth + 1) for pair in pairs.items() for part in pair]
        elif isinstance(item, float) and not math.isfinite(item):
            return "a number is not finite"
        elif isinstance(item, int) and not -(2**63) <= item < 2**64:
            return "a number is too large"
        elif item is not None and not isinstance(item, int | float):
            return f"{kind_of(item)} is not JSON"
    return None
