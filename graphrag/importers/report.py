"""Tells what an import took over, what it left out and what it repaired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphrag.i18n import Language, catalogue, text

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

    def line(self, language: Language = "en") -> str:
        return _line("dropped", self, self.reason, language)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """Things of the file that are in the graph otherwise than they were written."""

    kind: str
    count: int
    what: str
    examples: tuple[str, ...] = ()

    def line(self, language: Language = "en") -> str:
        return _line("repaired", self, self.what, language)


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

    def lines(self, language: Language = "en") -> list[str]:
        """Return one sentence for each thing a person should know; none when all went in as it was."""
        return [item.line(language) for item in (*self.dropped, *self.repaired)]


@dataclass(frozen=True, slots=True)
class Remark:
    """What a merge left as it was. `code` names the text, `facts` stand in its places."""

    code: str
    facts: Mapping[str, str | int]

    def __init__(self, code: str, **facts: str | int) -> None:
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "facts", facts)

    def line(self, language: Language) -> str:
        """Return its sentence."""
        return text(f"import_{self.code}", language, **self.facts)


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


def counted(kind: str, number: int, language: Language) -> str:
    """Return so many things of a kind, as `3 edges`; a kind that the catalogue lacks is named in English."""
    key = f"import_kind_{kind.replace(' ', '_')}"
    if key not in catalogue(language):
        return f"{number} {kind}" + ("" if number == 1 else "s")
    return text(key, language, n=number)


def reason_in(reason: str, language: Language) -> str:
    """Return a reader's reason, which it gives in English; one that the catalogue lacks stays English."""
    return str(catalogue(language).get(reason, reason))


def _line(code: str, item: Dropped | Repaired, why: str, language: Language) -> str:
    things = counted(item.kind, item.count, language)
    line = text(f"import_{code}", language, things=things, why=reason_in(why, language))
    shown = ", ".join(item.examples) + (", …" if item.count > len(item.examples) else "")
    return f"{line} ({shown})" if item.examples else line
