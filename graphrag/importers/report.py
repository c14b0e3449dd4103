"""Tells what an import took over, what it left out and what it repaired."""

from __future__ import annotations

from dataclasses import dataclass, field

NATIVE = "nodius"
"""The format that graphs are written in: it has their keys, and its documents say whose they are."""

MAX_EXAMPLES = 3
MAX_EXAMPLE_CHARS = 80


class UnreadableWorkflow(Exception):
    """A file means nothing to any importer; `reason` says why and what to do. Readers leave `file` open."""

    def __init__(self, *, reason: str, file: str = "") -> None:
        self.file, self.reason = file, reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Things of the file that are not in the graph."""

    kind: str
    count: int
    reason: str
    examples: tuple[str, ...] = ()

    def line(self) -> str:
        return f"left out {_counted(self.kind, self.count)}: {self.reason}{_examples(self)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """Things of the file that are in the graph otherwise than they were written."""

    kind: str
    count: int
    what: str
    examples: tuple[str, ...] = ()

    def line(self) -> str:
        return f"repaired {_counted(self.kind, self.count)}: {self.what}{_examples(self)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """Counts of what was imported, and everything that was dropped or repaired."""

    format: str
    nodes: int = 0
    edges: int = 0
    types: int = 0
    sheets: int = 0
    dropped: tuple[Dropped, ...] = ()
    repaired: tuple[Repaired, ...] = ()

    def dropped_count(self, kind: str) -> int:
        """Return how many things of a kind (`node`, `edge`, …) were left out."""
        return sum(item.count for item in self.dropped if item.kind == kind)

    def lines(self) -> list[str]:
        """Return one sentence for each thing a person should know; none when all went in as it was."""
        return [item.line() for item in (*self.dropped, *self.repaired)]


@dataclass(slots=True)
class _Count:
    number: int = 0
    examples: list[str] = field(default_factory=list[str])

    def add(self, example: str, number: int) -> None:
        self.number += number
        if len(self.examples) < MAX_EXAMPLES:
            shown = _shortened(example[: 2 * MAX_EXAMPLE_CHARS])
            if shown and shown not in self.examples:
                self.examples.append(shown)


@dataclass(slots=True)
class Tally:
    """Collects remarks while a file is read; like ones are counted together."""

    _dropped: dict[tuple[str, str], _Count] = field(default_factory=dict[tuple[str, str], _Count])
    _repaired: dict[tuple[str, str], _Count] = field(default_factory=dict[tuple[str, str], _Count])

    def drop(self, kind: str, reason: str, example: str = "", *, count: int = 1) -> None:
        self._dropped.setdefault((kind, reason), _Count()).add(example, count)

    def repair(self, kind: str, what: str, example: str = "", *, count: int = 1) -> None:
        self._repaired.setdefault((kind, what), _Count()).add(example, count)

    def report(self, form: str, *, nodes: int, edges: int, types: int, sheets: int) -> ImportReport:
        return ImportReport(
            format=form,
            nodes=nodes,
            edges=edges,
            types=types,
            sheets=sheets,
            dropped=tuple(
                Dropped(kind=kind, count=c.number, reason=reason, examples=tuple(c.examples))
                for (kind, reason), c in self._dropped.items()
            ),
            repaired=tuple(
                Repaired(kind=kind, count=c.number, what=what, examples=tuple(c.examples))
                for (kind, what), c in self._repaired.items()
            ),
        )


def _shortened(example: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in example).strip()
    return text if len(text) <= MAX_EXAMPLE_CHARS else text[: MAX_EXAMPLE_CHARS - 1] + "…"


def _counted(kind: str, count: int) -> str:
    return f"{count} {kind}" if count == 1 else f"{count} {kind}s"


def _examples(item: Dropped | Repaired) -> str:
    if not item.examples:
        return ""
    more = ", …" if item.count > len(item.examples) else ""
    return f" ({', '.join(item.examples)}{more})"
