"""Text and JSON of a knowledge file, with the place of whatever is wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeVar

from pydantic import StringConstraints, TypeAdapter, ValidationError

T = TypeVar("T")
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class UnreadableKnowledge(Exception):
    """A file of knowledge or questions cannot be used; `where` is a line or a place in its JSON."""

    def __init__(self, *, file: str, where: str, reason: str) -> None:
        self.file, self.where, self.reason = file, where, reason
        super().__init__(": ".join(part for part in (file, where, reason) if part))


def decode(raw: bytes, file: str) -> str:
    """Return a file's text. Raises: UnreadableKnowledge naming the line that is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        raise UnreadableKnowledge(file=file, where=f"line {line}", reason="it is not UTF-8 text") from exc


def parse_json(text: str, shape: TypeAdapter[T], file: str, where: str = "") -> T:
    """Return a document of the shape. Raises: UnreadableKnowledge naming the first thing that is wrong."""
    try:
        return shape.validate_json(text)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        at = ", ".join(part for part in (where, place) if part)
        raise UnreadableKnowledge(file=file, where=at, reason=first["msg"]) from exc


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that hold something, with their numbers from 1."""
    # Not splitlines(): a name may hold a separator of Unicode, which is no line's end here.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")
