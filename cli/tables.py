"""Lays out tables as lines of text; prints nothing."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

GAP = "  "
MIN_FOLDED = 24
"""A folded column gets no narrower than this; a line is then wider than the terminal."""


def layout(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    folded: int | None = None,
    width: int | None = None,
) -> list[str]:
    """Return the lines of a table, the heading first.

    `numbers` are the columns that align to the right. Only the column `folded` gives way to a
    `width` (None: no limit), because a key must stay whole to be copied.
    Units: `width` in terminal cells.
    """
    widths = [max(cell_len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    if folded is not None and width is not None:
        others = sum(widths) - widths[folded] + len(GAP) * (len(columns) - 1)
        widths[folded] = min(widths[folded], max(MIN_FOLDED, width - others))
    lines: list[str] = []
    for row in (columns, *rows):
        cells = [_lines(cell, widths[i]) if i == folded else [cell] for i, cell in enumerate(row)]
        for level in range(max(map(len, cells))):
            parts = [
                _padded(cell[level] if level < len(cell) else "", widths[i], right=i in numbers)
                for i, cell in enumerate(cells)
            ]
            lines.append(GAP.join(parts).rstrip())
    return lines


def _lines(cell: str, width: int) -> list[str]:
    """Return the words of a cell in lines of a width; a word that is wider is cut."""
    lines = [""]
    for word in cell.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
        elif lines[-1]:
            lines += chop_cells(word, width)
        else:
            lines[-1:] = chop_cells(word, width)
    return lines


def _padded(text: str, width: int, *, right: bool) -> str:
    gap = " " * (width - cell_len(text))
    return gap + text if right else text + gap
