"""The result of a command, printed for a person or, with --json, for a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import typer

from cli import render
from cli.common import EXIT_NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The result of a command in both forms, and the exit code that it ends with.

    `document`: the JSON that --json prints. `text`: the line that is printed without --json, or a
    function that prints several. `notes`: lines for standard error, printed in both cases.
    """

    document: Any
    text: str | Callable[[], object]
    notes: Sequence[str] = ()
    exit_code: int = 0

    def finish(self, *, as_json: bool) -> None:
        """Prints the result as JSON or as text, and ends the program if it has an exit code."""
        if as_json:
            render.json(self.document)
        elif isinstance(self.text, str):
            render.line(self.text)
        else:
            self.text()
        for note in self.notes:
            render.note(note)
        if self.exit_code:
            raise typer.Exit(self.exit_code)


def listing(
    document: Any,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    empty: str,
    numbers: Sequence[int] = (),
    folded: int | None = None,
) -> Output:
    """Returns the output that prints a table; see `render.table`.

    Without rows it prints the note `empty` instead and has the exit code of an empty result.
    """
    text = partial(render.table, columns, rows, numbers=numbers, folded=folded)
    if rows:
        return Output(document=document, text=text)
    return nothing(document, empty)


def nothing(document: Any, note: str) -> Output:
    """Returns the output of a command that finds nothing."""
    return Output(document=document, text=lambda: None, notes=(note,), exit_code=EXIT_NOTHING)
