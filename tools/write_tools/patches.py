"""Search-and-replace patches of code, resolved against the code as it is."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tools.proposal_parts import Patch

_SHOWN = 120


class PatchFailed(ValueError):
    """A patch does not fit the code. `number` counts from 0, `found` is how often its search stands there."""

    def __init__(self, *, number: int, found: int, reason: str) -> None:
        self.number, self.found, self.reason = number, found, reason
        super().__init__(f"patch {number}: {reason}")


def apply_patches(code: str, patches: Sequence[Patch]) -> str:
    """Return the code with every patch applied in order; a later one sees what an earlier one wrote.

    Raises: PatchFailed when a search is missing or stands more than once.
    """
    for number, patch in enumerate(patches):
        found = _count(code, patch.search)
        if found != 1:
            raise PatchFailed(number=number, found=found, reason=_why(code, patch.search, found))
        code = code.replace(patch.search, patch.replace, 1)
    return code


def _count(code: str, search: str) -> int:
    """Count places, overlapping ones too: either of two could be meant."""
    places, start = 0, code.find(search)
    while start >= 0:
        places, start = places + 1, code.find(search, start + 1)
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
            f"{shown} stands {found} times in the code{where}; take in more of the lines around the one meant"
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
