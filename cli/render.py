"""Prints lines, tables, JSON and progress."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Characters that hide or reorder others, so that code runs differently from how it reads. Source:
# Boucher and Anderson, "Trojan Source" (2021). Joiners and marks of ordinary writing are left out.
_HIDDEN = re.compile("[\u200b\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
FEED = "⏎"  # shown in place of a line feed
CONTINUED = "│ "  # before the continuation of a line
MAX_ROWS, MAX_QUOTE_CHARS = 20, 4_000  # of one quoted text
GAP = "  "  # between columns
MIN_FOLDED = 24  # minimum width of a folded column; the line may then exceed the terminal
PATIENCE_S = 1.0  # shorter work shows no progress

out = Console(soft_wrap=True, highlight=False, markup=False)
err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def json(value: Any) -> None:
    """Prints a JSON document on standard output."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def json_line(value: Any) -> None:
    """Prints a JSON document on one line and flushes it."""
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()


def line(text: str = "", style: str | None = None, *, copied: bool = False) -> None:
    """Prints one line. Control characters and characters that hide or reorder others are made
    visible, and line feeds show as `⏎`. A line that is wider than the terminal continues on the
    next one, after a mark. A `copied` line has no mark: it is one of this program alone, with a
    link or a command that people copy.
    """
    _print(out, _rows(_one_line(text), out, copied=copied), style)


def passage(text: str, style: str | None = None) -> None:
    """Prints a text of several lines, such as an answer or a context."""
    out.print(Text(_harmless(text), style=style or ""))


def quote(head: str, text: str, style: str | None = None) -> None:
    """Prints a text by a person or a model after `head`, so that it cannot be taken for output of
    this program: further lines begin with a mark, and a long text is cut.
    """
    first, *rest = _harmless(text[:MAX_QUOTE_CHARS]).split("\n")
    rows = _wrapped(head, first + (FEED if rest else ""), out)
    for number, one in enumerate(rest, start=2):
        rows += _wrapped(
            " " * len(head) + CONTINUED, one + (FEED if number <= len(rest) else ""), out
        )
    if len(rows) > MAX_ROWS or len(text) > MAX_QUOTE_CHARS:
        rows[MAX_ROWS:] = [f"{' ' * len(head)}{CONTINUED}… ({len(text):,} characters)"]
    _print(out, rows, style)


def facts(values: Mapping[str, str], *, width: int) -> None:
    """Prints a line for each value that is not empty, after its name. Units: `width` of the names
    in characters.
    """
    for name, value in values.items():
        if value:
            quote(f"  {name + ':':<{width}} ", value)


def piece(text: str) -> None:
    """Prints a part of a line, which the next call continues."""
    out.print(Text(_harmless(text)), end="")


def note(text: str, *, copied: bool = False) -> None:
    """Prints a line on standard error, where it does not mix with data. `copied` as for `line`."""
    _print(err, _rows(_one_line(text), err, copied=copied), "dim")


def fault(text: str) -> None:
    """Prints an error on standard error."""
    _print(err, _wrapped("", _one_line(text), err), "red")


def heading(text: str) -> None:
    """Prints the heading of a part after an empty line."""
    _print(out, ["", *_wrapped("", _one_line(text), out)], "bold")


def _print(console: Console, rows: Sequence[str], style: str | None) -> None:
    for row in rows:
        console.print(Text(row, style=style or ""))


def _rows(text: str, console: Console, *, copied: bool) -> list[str]:
    return [text] if copied else _wrapped("", text, console)


def _one_line(text: str) -> str:
    return _harmless(text).replace("\n", FEED)


def _wrapped(head: str, text: str, console: Console) -> list[str]:
    """Returns the rows of a line. The mark of a continuation tells it from the next line."""
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
    columns = os.environ.get("COLUMNS", "")  # set by the shell; not a setting of this program
    return int(columns) if columns.isdigit() else None


def _harmless(text: str) -> str:
    shown = _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text.replace("\r", "␍"))
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", shown)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    numbers: Sequence[int] = (),
    folded: int | None = None,
) -> None:
    """Prints a table. The columns `numbers` align to the right; the column `folded` is wrapped on a
    narrow terminal. In a file or a pipe each row is one line.
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
    """Returns the lines of a table, the column names first; see `table`.

    Only the column `folded` is wrapped to fit `width` (None: no limit), because a key must stay
    whole to be copied. Units: `width` in terminal cells.
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
    """Returns the words of a cell in lines of a width. Wider words are cut."""
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
    """Yields `update(done, total)`, which shows the progress and the time left on standard error.

    On a terminal it is a bar that disappears at the end, elsewhere a line per tenth, from `after_s`
    seconds on. `quiet` shows nothing.
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
