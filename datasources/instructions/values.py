"""Checks that a JSON value is one that every store and every editor accepts."""

from __future__ import annotations

import math
from typing import Any, cast

from datasources.instructions.paths import kind_of

MAX_VALUE_DEPTH = 100


def json_fault(value: Any) -> str | None:
    """Return what is wrong with a value, or None: it nests too deep, is not JSON, names a prototype."""
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
