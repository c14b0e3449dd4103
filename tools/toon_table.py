"""Writes the cells and headers of TOON tables, and remembers how: most are met again and again.

A cell is written the same in whatever row and table it stands, so a table may be put together of them.
"""

from __future__ import annotations

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
        lines = self._encode([{_COLUMN: cell} for cell in missing.values()]).split("\n")[1:]
        learnt = {key: line[2:] for key, line in zip(missing, lines, strict=True)}
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
