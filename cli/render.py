"""Shows results to a person or a script: tables, JSON, progress; decides no behaviour."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HIDDEN = re.compile("[\u200b\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
"""What hides or reorders other characters, so that code reads otherwise than it runs. Source:
Boucher and Anderson, "Trojan Source" (2021). Joiners and marks that ordinary writing needs are
not among them.
"""
FEED = "⏎"
CONTINUED = "│ "
"""Stands before what continues a line."""
MAX_ROWS = 20
MAX_SAID_CHARS = 4_000
"""Of one text that somebody wrote amid our lines."""
GAP = "  "
MIN_FOLDED = 24
"""A folded column gets no narrower than this; a line is then wider than the terminal."""
PATIENCE_S = 1.0
"""Work that takes no longer than this shows no progress."""

out = Console(soft_wrap=True, highlight=False, markup=False)
err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def json(value: Any) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def json_line(value: Any) -> None:
    """Print one JSON document as a line of its own, at once."""
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()


def line(text: str = "", style: str | None = None) -> None:
    """Print one line: brackets in it are not markup, and nothing in it commands, hides, reorders
    or ends it.

    Line feeds show as `⏎`; what a terminal has no room for goes on below, behind a mark.
    """
    _print(out, _wrapped("", _one_line(text), out), style)


def passage(text: str, style: str | None = None) -> None:
    """Print a text that stands by itself, such as an answer or a context, with lines of its own."""
    out.print(Text(_harmless(text), style=style or ""))


def said(head: str, text: str, style: str | None = None) -> None:
    """Print what somebody wrote behind our `head`: its further lines stand behind a mark,
    and are few.
    """
    first, *rest = _harmless(text[:MAX_SAID_CHARS]).split("\n")
    rows = _wrapped(head, first + (FEED if rest else ""), out)
    for number, one in enumerate(rest, start=2):
        rows += _wrapped(
            " " * len(head) + CONTINUED, one + (FEED if number <= len(rest) else ""), out
        )
    if len(rows) > MAX_ROWS or len(text) > MAX_SAID_CHARS:
        rows[MAX_ROWS:] = [f"{' ' * len(head)}{CONTINUED}… ({len(text):,} characters)"]
    _print(out, rows, style)


def piece(text: str) -> None:
    """Print a piece of a line that goes on."""
    out.print(Text(_harmless(text)), end="")


def note(text: str) -> None:
    """Print a line for the person, on standard error, so that it does not mix with data."""
    _print(err, _wrapped("", _one_line(text), err), "dim")


def fault(text: str) -> None:
    """Print what went wrong, on standard error."""
    _print(err, _wrapped("", _one_line(text), err), "red")


def heading(text: str) -> None:
    """Print a line that begins a part, after an empty one."""
    _print(out, ["", *_wrapped("", _one_line(text), out)], "bold")


def _print(console: Console, rows: Sequence[str], style: str | None) -> None:
    for row in rows:
        console.print(Text(row, style=style or ""))


def _one_line(text: str) -> str:
    return _harmless(text).replace("\n", FEED)


def _wrapped(head: str, text: str, console: Console) -> list[str]:
    """Return the rows of a line: a terminal would begin the second at its edge, like a
    line of ours.
    """
    width = _width(console)
    if width is None or cell_len(whole := head + text.expandtabs(4)) <= width:
        return [head + text]
    mark = " " * (len(head) - len(head.lstrip(" "))) + CONTINUED
    first, *_ = chop_cells(whole, width)
    return [
        first,
        *(mark + part for part in chop_cells(whole[len(first) :], max(20, width - len(mark)))),
    ]


def _width(console: Console) -> int | None:
    if console.is_terminal:
        return console.width
    columns = os.environ.get("COLUMNS", "")  # the shell's own word on the width, no setting of ours
    return int(columns) if columns.isdigit() else None


def _harmless(text: str) -> str:
    shown = _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r", "␍"))
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", shown)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    numbers: Sequence[int] = (),
    folded: int | None = None,
) -> None:
    """Print a table; `numbers` align to the right, `folded` gives way where the terminal is narrow.

    Away from a terminal each row is one line.
    """
    cells = [["" if cell is None else _one_line(str(cell)) for cell in row] for row in rows]
    heading_line, *lines = layout(columns, cells, numbers=numbers, folded=folded, width=_width(out))
    line(heading_line, "bold")
    for one in lines:
        line(one)


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


@contextmanager
def progress(
    title: str, *, quiet: bool = False, after_s: float = PATIENCE_S
) -> Generator[Callable[[int, int], None]]:
    """Yield `update(done, total)`: a bar that goes away on a terminal, a line per tenth elsewhere.

    Both say how long it may still take.

    Both are on standard error. Units: lines begin after `after_s` seconds; shorter work has none.
    """
    if quiet:
        yield lambda _done, _total: None
        return
    if err.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=err, transient=True) as bar:
            task = bar.add_task(title, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    last = -1
    started = time.monotonic()

    def by_tenths(done: int, total: int) -> None:
        nonlocal last
        tenth = 10 * done // total if total else 10
        if tenth > last and time.monotonic() - started >= after_s:
            last = tenth
            left = (time.monotonic() - started) / done * (total - done) if 0 < done < total else 0
            note(f"{title}: {done}/{total}" + (f", about {left:.0f} s left" if left else ""))

    yield by_tenths


def counter(update: Callable[[int, int], None], total: int) -> Callable[..., None]:
    """Return a function that counts its calls, whatever it is called with, and
    updates a progress.
    """
    done = 0

    def count(*_: Any) -> None:
        nonlocal done
        done += 1
        update(done, total)

    return count
