"""Stores values from answers in the context of a conversation, within limits of size."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.http.filters import compact
from tools.http.json_paths import Path
from tools.http.scope import Scope, Visits

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredValueLimits:
    """Limits of the values that a conversation stores. Units: bytes."""

    value_bytes: int = 64 * 1024
    """Size of one value."""
    ctx_bytes: int = 256 * 1024
    """Size of all values of a conversation, which are written after each step."""


STORED_VALUE_LIMITS: Final = StoredValueLimits()


def store_matches(
    ctx: dict[str, Any], store: Mapping[str, Path], response: Any, scope: Scope
) -> tuple[str, ...]:
    """Stores the first match of each path in ctx (None without a match), and returns the names.

    Skips values that are too large, or that would make ctx too large.
    """
    if scope.visits is None:
        scope = Scope(scope.roots, Visits())
    left = STORED_VALUE_LIMITS.ctx_bytes - sum(
        _size(ctx[name]) for name in ctx if store and name != "transcript"
    )
    stored: list[str] = []
    for name, path in store.items():
        value = path.first(response, scope)
        size = _size(value)
        before = _size(ctx[name]) if name in ctx else 0
        if size > STORED_VALUE_LIMITS.value_bytes or size - before > left:
            log.warning("value_too_large", extra={"value": name})
            continue
        ctx[name] = value
        left -= size - before
        stored.append(name)
    return tuple(stored)


def _size(value: Any) -> int:
    return len(compact(value).encode())
