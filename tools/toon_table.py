"""Writes the cells and headers of TOON tables, and remembers how: most are met again and again.

A cell is written the same in whatever row and table it stands, so a table may be put together of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

MAX_CELLS = 10_000
MAX_CELL_CHARS = 600
"""Longer cells are written anew each time."""

Encode = Callable[[Any], str]
Scalar = str | bool | int | float | None
Key = str | tuple[type, Scalar]
SCALARS = frozenset({str, bool, int, float, type(None)})
"""Types of the cells that can be written apart: not subclasses, which may be written otherwise."""

_COLUMN = "c"

# The most frequent forms, which need no look at all rules: words, and what is quoted with nothing to escape.
_BARE = re.compile(r"(?!(?:true|false|null)$)[A-Za-z](?:[A-Za-z0-9_ .+-]*[A-Za-z0-9_.+-])?", re.ASCII)
_QUOTED = re.compile(r"(?=[^,:]*[,:])[ !#-\[\]-~]+", re.ASCII)


def _plainly(cell: Scalar) -> str | None:
    """Return how a cell of a frequent form is written, or None."""
    if not isinstance(cell, str):
        return None
    return cell if _BARE.fullmatch(cell) else f'"{cell}"' if _QUOTED.fullmatch(cell) else None


class Cells:
    """Knows how cells are written by one encoder. For any thread.

    Bounded: when `MAX_CELLS` are known they are forgotten.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[Key, str] = {}
        self.header = lru_cache(maxsize=500)(self._header)
        """Return what stands before and behind the number of rows in the header of a table."""

    def written(self, cells: Sequence[Scalar]) -> list[str]:
        """Return how each cell is written. Raises: ToonError."""
        # 1, 1.0 and True are one key to a dict.
        keys: list[Key] = [cell if type(cell) is str else (type(cell), cell) for cell in cells]
        known = self._known
        try:
            return [known[key] for key in keys]
        except KeyError:
            missing = {key: cell for key, cell in zip(keys, cells, strict=True) if key not in known}
        learnt = {key: line for key, cell in missing.items() if (line := _plainly(cell)) is not None}
        others = [key for key in missing if key not in learnt]
        if others:
            lines = self._encode([{_COLUMN: missing[key]} for key in others]).split("\n")[1:]
            learnt.update((key, line[2:]) for key, line in zip(others, lines, strict=True))
        found = [learnt[key] if key in learnt else known[key] for key in keys]
        self._keep(learnt)
        return found

    def _keep(self, learnt: dict[Key, str]) -> None:
        if len(self._known) + len(learnt) > MAX_CELLS:
            self._known = {}  # a new one: who looks up meanwhile still finds all in the old one
        self._known.update((key, line) for key, line in learnt.items() if len(line) <= MAX_CELL_CHARS)

    def _header(self, name: str | None, columns: tuple[str, ...]) -> tuple[str, str]:
        row = [dict.fromkeys(columns)]
        bare = self._encode(row).split("\n")[0]
        if name is None:
            return "", bare[len("[1]") :]
        named = self._encode({name: row}).split("\n")[0]
        return named[: -len(bare)], bare[len("[1]") :]
