"""Tells what an import took over, what it left out and what it repaired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from graphrag.i18n import Language, catalogue, text
from tools.compact import cut_name

# The format of exports without loss: its documents have their keys and their origin.
NATIVE = "nodius"

MAX_EXAMPLES = 3
MAX_EXAMPLE_CHARS = 80


class UnreadableWorkflow(Exception):
    """A file cannot be imported; `reason` says why and what to do. Readers leave `file` empty."""

    def __init__(self, *, reason: str, file: str = "") -> None:
        self.file = file
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


What = Literal["dropped", "repaired"]


@dataclass(slots=True, kw_only=True)
class Notice:
    """Elements of a file that are not in the graph (`dropped`), or differ from the file
    (`repaired`).
    """

    what: What
    kind: str
    reason: str
    count: int = 0
    examples: list[str] = field(default_factory=list[str])

    def line(self, language: Language = "en") -> str:
        """Returns the notice as a sentence."""
        things = counted(self.kind, self.count, language)
        why = catalogue(language).get(self.reason, self.reason)  # its key is the English reason
        line = text(f"import_{self.what}", language, things=things, why=why)
        shown = ", ".join(self.examples) + (", …" if self.count > len(self.examples) else "")
        return f"{line} ({shown})" if self.examples else line


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """Everything in a file that was dropped or repaired, in that order."""

    format: str
    notices: tuple[Notice, ...] = ()

    def lines(self, language: Language = "en") -> list[str]:
        """Returns one sentence for each notice; empty if the whole file was imported unchanged."""
        return [item.line(language) for item in self.notices]


@dataclass(frozen=True, slots=True)
class Remark:
    """A part of the graph that a merge left unchanged. `code` names the text, `facts` fill its
    places.
    """

    code: str
    facts: Mapping[str, str | int]

    def __init__(self, code: str, **facts: str | int) -> None:
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "facts", facts)

    def line(self, language: Language) -> str:
        """Returns the remark as a sentence."""
        return text(f"import_{self.code}", language, **self.facts)


class Tally:
    """Collects notices while a file is read; those of one kind and reason are counted together."""

    def __init__(self) -> None:
        self._notices: dict[tuple[What, str, str], Notice] = {}

    def drop(self, kind: str, reason: str, example: str = "", *, count: int = 1) -> None:
        self._add("dropped", kind, reason, example, count)

    def repair(self, kind: str, reason: str, example: str = "", *, count: int = 1) -> None:
        self._add("repaired", kind, reason, example, count)

    def _add(self, what: What, kind: str, reason: str, example: str, count: int) -> None:
        new = Notice(what=what, kind=kind, reason=reason)
        notice = self._notices.setdefault((what, kind, reason), new)
        notice.count += count
        if len(notice.examples) < MAX_EXAMPLES:
            plain = example[: 2 * MAX_EXAMPLE_CHARS]
            shown = cut_name(
                "".join(c if c.isprintable() else " " for c in plain), MAX_EXAMPLE_CHARS
            )
            if shown and shown not in notice.examples:
                notice.examples.append(shown)

    def report(self, form: str) -> ImportReport:
        notices = sorted(self._notices.values(), key=lambda notice: notice.what)
        return ImportReport(format=form, notices=tuple(notices))


def counted(kind: str, number: int, language: Language) -> str:
    """Returns a number with its noun, as `3 edges`, in English if the catalogue does not have the
    noun.
    """
    key = f"import_kind_{kind.replace(' ', '_')}"
    if key not in catalogue(language):
        return f"{number} {kind}" + ("" if number == 1 else "s")
    return text(key, language, n=number)
