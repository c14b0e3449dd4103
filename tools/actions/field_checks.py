"""Checks of fields that several actions have: handles, places in a proposal, names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

from datasources.types import HandleGroup, HandlePoint, Handles, Side
from tools.base import Problem
from tools.proposal_parts import ProposedHandles

DEFAULT_HANDLES: Handles = {
    "L": HandleGroup(position="separate", point=(HandlePoint(id="0", type="in", accept="any"),)),
    "R": HandleGroup(position="separate", point=(HandlePoint(id="0", type="out", accept="any"),)),
}
"""What a new type has when nothing is said: one way in on the left, one way out on the right."""


def handles_from(groups: Mapping[Side, ProposedHandles] | None) -> Handles | None:
    """Returns proposed handles in stored form."""
    if groups is None:
        return None
    return {
        side: HandleGroup.model_validate(group.model_dump(by_alias=True, exclude_none=True))
        for side, group in groups.items()
    }


def repeated_handles(
    groups: Mapping[Side, ProposedHandles] | Handles | None, where: str
) -> Iterator[Problem]:
    """Yields the handles whose id another of their direction has; `where` is the field
    of the groups.
    """
    seen: set[tuple[str, str]] = set()
    for side, group in (groups or {}).items():
        for number, point in enumerate(group.point):
            if (point.type, point.id) in seen:
                what = f"another {point.type} handle has the id {point.id[:40]!r}"
                yield Problem(where=f"{where}.{side}.point.{number}.id", what=what)
            seen.add((point.type, point.id))


def at(where: str, name: str) -> str:
    """Returns the place of a field inside a part of an action."""
    return f"{where}.{name}" if where else name


def nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """Returns the names most alike, best first."""
    known = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(wanted[:200].casefold(), list(known), n=3, cutoff=0.5)
    return [known[name] for name in found]
