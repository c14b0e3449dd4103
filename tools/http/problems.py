"""What is wrong with a document: one error or warning each, with where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentProblem:
    """One error or warning of a document.

    `where`: path in the document, as `tools.cancel_order.pre_steps.1.fail_if`. `column`: place in
    the text there, from 1. `allowed`: what could stand there instead.
    """

    where: str
    code: str
    what: str
    allowed: str | None = None
    column: int | None = None


class BadText(Exception):
    """Raised by the parsers of templates, expressions and JSONPaths; has no place in a document yet."""

    def __init__(
        self, code: str, what: str, *, allowed: str | None = None, column: int | None = None
    ) -> None:
        self.code, self.what, self.allowed, self.column = code, what, allowed, column
        super().__init__(what if column is None else f"{what} (column {column})")

    def at(self, where: str) -> DocumentProblem:
        """Return this as a problem of the document's member `where`."""
        return DocumentProblem(
            where=where, code=self.code, what=self.what, allowed=self.allowed, column=self.column
        )


def noted(problems: list[DocumentProblem], where: str, parse: Callable[[], T]) -> T | None:
    """Return what `parse` returns; None where it raises `BadText`, which is added to `problems`."""
    try:
        return parse()
    except BadText as bad:
        problems.append(bad.at(where))
        return None
