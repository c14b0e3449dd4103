"""JSON values with templates inside: bodies, parameters and results in a document."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from tools.http.filters import TemplateFailed
from tools.http.json_paths import Path, parse_path
from tools.http.problems import BadText
from tools.http.scope import Read, Scope
from tools.http.value_templates import TEMPLATE_LIMITS, ValueTemplate, parse_template

MAX_DEPTH = 20

_OMITTED = object()
_Text = ValueTemplate | Path
_Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTree:
    """A parsed JSON value. `texts`: its templates and JSONPaths that read values, with their
    paths.
    """

    source: Any
    parts: Any = field(compare=False, repr=False)
    texts: tuple[tuple[_Place, _Text], ...] = field(compare=False, repr=False)

    @property
    def reads(self) -> tuple[Read, ...]:
        """The values that its templates read."""
        return tuple(read for _, text in self.texts for read in text.reads)

    def render(self, scope: Scope, *, drop_null: bool = False) -> Any:
        """Returns the rendered value. With `drop_null`, leaves out templates that render to null.

        Raises: TemplateFailed.
        """
        value = _rendered(self.parts, scope, drop_null)
        if value is _OMITTED:
            return None
        if self.texts and len(json.dumps(value)) > TEMPLATE_LIMITS.rendered_chars:
            raise TemplateFailed("template_error", "the rendered value is too large")
        return value


def parse_tree(value: Any) -> ValueTree:
    """Returns the parsed value. Raises: ValidationError with the path of each error."""
    return _parsed(value, parse_template)


def parse_return(value: Any) -> ValueTree:
    """Returns the parsed `return` of a tool, whose texts are JSONPaths (`$`, `$.a`, `$[0]`) or
    templates.

    Raises: ValidationError.
    """
    return _parsed(value, _parse_returned)


def _parse_returned(text: str) -> _Text:
    if text == "$" or text.startswith(("$.", "$[")):
        return parse_path(text)
    return parse_template(text[1:] if text.startswith("$$") else text)


def _parsed(value: Any, parse_text: Callable[[str], _Text]) -> ValueTree:
    texts: list[tuple[_Place, _Text]] = []
    errors: list[InitErrorDetails] = []

    def refuse(bad: BadText, place: _Place, member: Any) -> None:
        kind = PydanticCustomError("bad_text", "{error}", {"error": bad})
        errors.append(InitErrorDetails(type=kind, loc=place, input=member))

    def parsed(member: Any, place: _Place) -> Any:
        if len(place) >= MAX_DEPTH:
            what = f"nested deeper than {MAX_DEPTH}"
            return refuse(BadText("too_deep", what, allowed=f"{MAX_DEPTH} levels"), place, member)
        if isinstance(member, str):
            try:
                text = parse_text(member)
            except BadText as bad:
                return refuse(bad, place, member)
            if isinstance(text, ValueTemplate) and not text.reads:
                return text.render(Scope({}))
            texts.append((place, text))
            return text
        if isinstance(member, dict):
            return {
                key: parsed(item, (*place, key))
                for key, item in cast(dict[str, Any], member).items()
            }
        if isinstance(member, list):
            return [
                parsed(item, (*place, index)) for index, item in enumerate(cast(list[Any], member))
            ]
        return member

    tree = ValueTree(source=value, parts=parsed(value, ()), texts=tuple(texts))
    if errors:
        raise ValidationError.from_exception_data("tree", errors)
    return tree


def _rendered(part: Any, scope: Scope, drop_null: bool) -> Any:
    if isinstance(part, _Text):
        value = part.render(scope)
        return _OMITTED if drop_null and value is None else value
    if isinstance(part, dict):
        pairs = (
            (key, _rendered(inner, scope, drop_null))
            for key, inner in cast(dict[str, Any], part).items()
        )
        return {key: value for key, value in pairs if value is not _OMITTED}
    if isinstance(part, list):
        values = (_rendered(inner, scope, drop_null) for inner in cast(list[Any], part))
        return [value for value in values if value is not _OMITTED]
    return part
