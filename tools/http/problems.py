"""What is wrong with a document: one error or warning each, with where it stands."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


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

    def to_document(self) -> dict[str, Any]:
        """Return what of it is set, by name."""
        return {name: fact for name, fact in asdict(self).items() if fact is not None}


class BadText(ValueError):
    """Raised by the parsers of templates, expressions and JSONPaths; pydantic says where
    in the document.
    """

    def __init__(
        self, code: str, what: str, *, allowed: str | None = None, column: int | None = None
    ) -> None:
        self.code = code
        self.what = what
        self.allowed = allowed
        self.column = column
        super().__init__(what if column is None else f"{what} (column {column})")

    def at(self, where: str) -> DocumentProblem:
        """Return this as a problem of the document's member `where`."""
        return DocumentProblem(
            where=where, code=self.code, what=self.what, allowed=self.allowed, column=self.column
        )
