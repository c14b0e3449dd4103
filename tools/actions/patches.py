"""Applies the replacements of a proposal to code."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tools.actions.field_checks import at
from tools.base import Problem
from tools.proposal_parts import Patch

_SHOWN = 120


def apply_patches(code: str, patches: Sequence[Patch], where: str, problems: list[Problem]) -> str:
    """Returns the code with every patch applied in order; a later one sees what an
    earlier one wrote.

    One whose search is missing or stands more than once is a problem; then the code stays
    as it was.
    """
    new = code
    for number, patch in enumerate(patches):
        found = _count(new, patch.search)
        if found != 1:
            place = at(where, f"patches.{number}.search")
            problems.append(Problem(where=place, what=_why(new, patch.search, found)))
            return code
        new = new.replace(patch.search, patch.replace, 1)
    return new


def _count(code: str, search: str) -> int:
    """Counts the places of a text, also overlapping ones: either of two could be meant."""
    places = 0
    start = code.find(search)
    while start >= 0:
        places = places + 1
        start = code.find(search, start + 1)
    return places


def _why(code: str, search: str, found: int) -> str:
    shown = f"{search[:_SHOWN]!r}" + ("…" if len(search) > _SHOWN else "")
    if found:
        lines = [
            str(number)
            for number, line in enumerate(code.splitlines(), 1)
            if search.split("\n", 1)[0].strip() and search.split("\n", 1)[0].strip() in line
        ]
        where = f" (lines {', '.join(lines[:8])})" if lines else ""
        return (
            f"{shown} stands {found} times in the code{where}; "
            "take in more of the lines around the one meant"
        )
    if not code:
        return "there is no code yet; give the whole code as process instead"
    if search.split() and " ".join(search.split()) in " ".join(code.split()):
        return f"{shown} is there with other blanks or line ends; copy it exactly from the code"
    wanted = next((line.strip() for line in search.splitlines() if line.strip()), search.strip())
    lines = [line.strip() for line in code.splitlines()[:2_000] if line.strip()]
    near = difflib.get_close_matches(wanted[:400], [line[:400] for line in lines], n=1, cutoff=0.5)
    hint = f"; the nearest line is {near[0][:_SHOWN]!r}" if near else ""
    return f"{shown} is not in the code{hint}; read the code and copy a part of it exactly"
