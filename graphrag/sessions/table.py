"""Reads the table of a session's transitions, `transitions.csv`; documents and tests read it too.

A row is taken when the session is in `phase` (or in one of its group: ACTIVE, WAITING, OPEN), the event
comes and every word of the guard holds; rows of one phase and event are tried in order. `next` is a
phase, SAME, or RECOVERED (where a session goes on whose process died). `also` is for the caller to do:
take or free the graph's slot, note something in the conversation, answer a call.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row of the table."""

    number: int
    phase: str
    event: str
    guard: tuple[str, ...]
    next: str
    actions: tuple[str, ...]

    @property
    def waiting(self) -> str | None:
        """What the phase that is entered waits for, as `validation` or `completion TIMEOUT`."""
        made = next((a for a in self.actions if a.startswith("waiting=")), None)
        return None if made is None else made.removeprefix("waiting=").partition(" (")[0]


def _split(text: str, separator: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def _read() -> tuple[TableRow, ...]:
    text = Path(__file__).with_name("transitions.csv").read_text("utf-8")
    return tuple(
        TableRow(
            number=int(line["n"]),
            phase=line["phase"],
            event=line["event"],
            guard=_split(line["guard"], "&"),
            next=line["next"],
            actions=_split(line["also"], ";"),
        )
        for line in csv.DictReader(text.splitlines())
    )


ROWS: Final = _read()
