"""Errors and warnings about an agent document, with their location."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentProblem:
    """One error or warning of a document.

    `where`: path in the document, as `tools.cancel_order.pre_steps.1.fail_if`. `column`: position
    in the text at that path, from 1. `allowed`: the accepted values.
    """

    where: str
    code: str
    what: str
    allowed: str | None = None
    column: int | None = None

    def to_document(self) -> dict[str, Any]:
        """Returns the problem as a JSON object, without unset fields."""
        return {name: fact for name, fact in asdict(self).items() if fact is not None}


class BadText(ValueError):
    """Raised by the parsers of templates, expressions and JSONPaths. The location in the document
    is added by pydantic.
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
        """Returns this error as a problem at the path `where`."""
        return DocumentProblem(
            where=where, code=self.code, what=self.what, allowed=self.allowed, column=self.column
        )
