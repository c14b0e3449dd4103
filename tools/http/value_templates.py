"""Templates: texts with placeholders, as `{{ path | filter }}`.

A template is parsed once. Inserted values are never parsed as templates themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tools.http.filters import FILTERS, TemplateFailed, as_text, percent_encoded
from tools.http.problems import BadText
from tools.http.scope import Read, Scope, ValuePath

__all__ = ["TEMPLATE_LIMITS", "Insert", "TemplateFailed", "ValueTemplate", "parse_template"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateLimits:
    """Limits of a template. Units: characters."""

    placeholders: int = 100
    """Number of placeholders."""
    placeholder_chars: int = 2_000
    rendered_chars: int = 256_000


TEMPLATE_LIMITS: Final = TemplateLimits()

Insert = Literal["value", "text", "url"]
"""How values are inserted: `value` keeps the type if the text is a single placeholder, `text`
always returns text, and `url` percent-encodes each value."""

_ALLOWED = "{{ path | filter }}, as {{args.phone | default(caller_phone)}}"
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_NUMBERED = re.compile(r"\.\d")
_INDEX = re.compile("0|[1-9][0-9]{0,9}")
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'[^']*'|"[^"]*")
    |(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.])
    |(?P<path>[A-Za-z_][\w-]*(?:\.[\w-]+)*)
    |(?P<mark>\}\}|[|()]))""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """One `{{ … }}`: a path and its filters."""

    path: ValuePath
    filters: tuple[Callable[[Any, Scope], Any], ...]

    def value(self, scope: Scope) -> Any:
        value = scope.lookup(self.path)
        for convert in self.filters:
            value = convert(value, scope)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTemplate:
    """One parsed text with placeholders."""

    source: str
    parts: tuple[str | Placeholder, ...] = field(compare=False, repr=False)
    reads: tuple[Read, ...] = field(default=(), compare=False, repr=False)

    def render(self, scope: Scope, *, insert: Insert = "value") -> Any:
        """Returns the rendered value. Raises: TemplateFailed."""
        parts = self.parts
        if insert == "value" and len(parts) == 1 and isinstance(parts[0], Placeholder):
            return parts[0].value(scope)
        if insert == "url":
            return self._url(scope)
        text = "".join(
            part if isinstance(part, str) else as_text(part.value(scope)) for part in parts
        )
        if len(text) > TEMPLATE_LIMITS.rendered_chars:
            raise TemplateFailed("template_error", "the rendered text is too large")
        return text

    def _url(self, scope: Scope) -> str:
        text, in_path = "", True
        for part in self.parts:
            if isinstance(part, str):
                text = text + part
                in_path = in_path and "?" not in part
                continue
            value = part.value(scope)
            if in_path and value in (None, ""):
                name = ".".join(map(str, part.path))
                raise TemplateFailed("missing_value", f"value missing: {name}", path=name)
            text += as_text(value) if part.path == ("base_url",) else percent_encoded(value)
        if self.reads and any(
            segment in {".", ".."} for segment in text.partition("?")[0].split("/")
        ):
            raise TemplateFailed("template_error", "a path of an address cannot hold '.' or '..'")
        return text


def parse_template(text: str) -> ValueTemplate:
    """Returns the parsed template. Raises: BadText (bad_template, unknown_filter)."""
    if "{{" not in text:
        return ValueTemplate(source=text, parts=(text,) if text else ())
    parts: list[str | Placeholder] = []
    reads: list[Read] = []
    position, count = 0, 0
    while (start := text.find("{{", position)) >= 0:
        if (count := count + 1) > TEMPLATE_LIMITS.placeholders:
            raise BadText(
                "bad_template",
                f"more than {TEMPLATE_LIMITS.placeholders} placeholders",
                column=start + 1,
            )
        reader = _PlaceholderReader(text, start + 2)
        if position < start:
            parts.append(text[position:start])
        parts.append(reader.placeholder())
        reads += reader.reads
        position = reader.position
    if position < len(text):
        parts.append(text[position:])
    return ValueTemplate(source=text, parts=tuple(parts), reads=tuple(reads))


class _PlaceholderReader:
    """Parses one placeholder, starting after its `{{`."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.limit = position + TEMPLATE_LIMITS.placeholder_chars
        self.reads: list[Read] = []

    def placeholder(self) -> Placeholder | str:
        kind, word, column = self.token("path", "text")
        if kind == "text":
            if word[1:-1] != "{{":
                raise BadText("bad_template", f"{word} is no path", allowed=_ALLOWED, column=column)
            self.token("}}")
            return "{{"
        path = self.path(word, column)
        filters: list[Callable[[Any, Scope], Any]] = []
        while self.token("|", "}}")[0] == "|":
            filters.append(self.filter())
        return Placeholder(path=path, filters=tuple(filters))

    def filter(self) -> Callable[[Any, Scope], Any]:
        _, name, column = self.token("path")
        if name == "default":
            return self.default()
        if name not in FILTERS:
            allowed = ", ".join(("default(X)", *FILTERS))
            raise BadText("unknown_filter", f"no filter {name!r}", allowed=allowed, column=column)
        convert = FILTERS[name]
        return lambda value, _: convert(value)

    def default(self) -> Callable[[Any, Scope], Any]:
        """Returns a filter that replaces null by a literal or the value of another path."""
        self.token("(")
        kind, word, column = self.token("path", "text", "number")
        self.token(")")
        if kind == "path" and word not in _CONSTANTS:
            path = self.path(word, column)
            return lambda value, scope: scope.lookup(path) if value is None else value
        constant = (
            word[1:-1]
            if kind == "text"
            else _CONSTANTS[word]
            if kind == "path"
            else json.loads(word)
        )
        return lambda value, _: constant if value is None else value

    def path(self, word: str, column: int) -> ValuePath:
        words = word.split(".")
        if _NUMBERED.search(word) is None:
            path: ValuePath = tuple(words)
        else:
            path = tuple([int(s) if s.isdigit() and _INDEX.fullmatch(s) else s for s in words])
        self.reads.append((path, column))
        return path

    def token(self, *expected: str) -> tuple[str, str, int]:
        """Returns the kind, text and column of the next token.

        Raises: BadText if it is not one of the `expected` kinds.
        """
        match = _TOKEN.match(self.text, self.position, self.limit)
        if match is None or match.lastgroup is None:
            what = "never ends" if self.text.find("}}", self.position) < 0 else "cannot be read"
            column = min(self.position, len(self.text) - 1) + 1
            raise BadText(
                "bad_template", f"this placeholder {what}", allowed=_ALLOWED, column=column
            )
        word = match[match.lastgroup]
        column = match.start(match.lastgroup) + 1
        kind = word if match.lastgroup == "mark" else match.lastgroup
        if kind not in expected:
            raise BadText(
                "bad_template", f"{word!r} cannot stand here", allowed=_ALLOWED, column=column
            )
        self.position = match.end()
        return kind, word, column
