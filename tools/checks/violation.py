"""What a rule finds, before it is weighed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One place where a rule is broken. `facts` fill its sentence.

    `repair` is the proposal that mends it, where that is mechanical: `tool` and `arguments`.
    """

    nodes: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repair: Mapping[str, Any] | None = None
