"""JSONPaths (RFC 9535) that select values of a response. Templates inside stand for JSON literals.

The number of values that the paths of one call visit is limited. They are counted in the filter
context, because `python-jsonpath` asks each match for its filter context once for every value
that it visits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathMatch
from jsonpath.exceptions import JSONPathError
from jsonpath.filter import BaseExpression, FilterQuery, ListLiteral
from jsonpath.selectors import Filter

from tools.http.filters import TemplateFailed, compact
from tools.http.problems import BadText
from tools.http.scope import MAX_VISITED, Read, Scope, ValuePath, Visits
from tools.http.value_templates import ValueTemplate, parse_template

MAX_CHARS = 500
MAX_RENDERED_CHARS = 4_000

_ALLOWED = (
    "a JSONPath of RFC 9535, as $.orders[?(@.number == 42)].id; functions length, count, value"
)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_PLACE = "\x00"
_FREE = re.compile(rf"(?:[^{_PLACE}]|(?<=[\[(,=<>!&|\s]){_PLACE}(?=[\]),=<>!&|\s]))*")
_PLAIN = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|[1-9][0-9]{0,8})\])*")
_STEP = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+")


class _TooMany(Exception):
    """Raised when a path has visited too many values."""


def _pay(context: dict[str, Visits], steps: int) -> None:
    if not context["visits"].pay(steps):
        raise _TooMany


def _size(value: object) -> int:
    return len(cast(list[Any], value)) if isinstance(value, dict | list) else 0


class _Match(JSONPathMatch):
    """A visited value that is counted. The cost in the library grows with its depth and its number
    of members.
    """

    def filter_context(self) -> Any:
        context = cast(dict[str, Visits], super().filter_context())
        _pay(context, 1 + len(self.parts) // 3)
        return context

    def new_child(self, obj: object, key: int | str) -> JSONPathMatch:
        _pay(cast(dict[str, Visits], super().filter_context()), _size(obj) // 8)
        return super().new_child(obj, key)


class _CountedPath(JSONPath):
    """A path that counts the values it visits, also as part of a filter."""

    def finditer(self, data: Any, *, filter_context: Any = None) -> Iterable[JSONPathMatch]:
        _pay(filter_context, _size(data) // 8)
        matches: Iterable[JSONPathMatch] = [
            _Match(
                filter_context=filter_context, obj=data, parent=None, path="$", parts=(), root=data
            )
        ]
        for segment in self.segments:
            matches = segment.resolve(matches)
        return matches


class _Environment(JSONPathEnvironment):
    """RFC 9535 without the functions that take regular expressions."""

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        for name in self.function_extensions.keys() - {"length", "count", "value"}:
            del self.function_extensions[name]


_ENVIRONMENT = _Environment(strict=True, filter_caching=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One parsed JSONPath.

    `steps`: the names and indexes of a simple path, which is evaluated without the library.
    """

    template: ValueTemplate
    compiled: _CountedPath | None = field(default=None, compare=False, repr=False)
    steps: ValuePath | None = None

    @property
    def reads(self) -> tuple[Read, ...]:
        """The values that its templates read."""
        return self.template.reads

    def first(self, document: Any, scope: Scope) -> Any:
        """Returns the first match in `document`; None if there is none. Never raises."""
        if self.steps is not None:
            return _at(self.steps, document)
        try:
            path = self.compiled or _compile(self._rendered(scope))
        except (BadText, TemplateFailed, ValueError):
            return None
        return _first(path, document, scope.visits or Visits(most=MAX_VISITED))

    def render(self, scope: Scope) -> Any:
        """Returns the first match in the scope's response (`$`)."""
        return self.first(scope.lookup(("$",)), scope)

    def _rendered(self, scope: Scope) -> str:
        """Returns the text of the path. Raises: TemplateFailed, also if a value is not a scalar."""
        parts = (
            part if isinstance(part, str) else _literal(part.value(scope))
            for part in self.template.parts
        )
        text = "".join(parts)
        if len(text) > MAX_RENDERED_CHARS:
            raise TemplateFailed("template_error", "the rendered path is too long")
        return text


def _literal(value: Any) -> str:
    if isinstance(value, dict | list):
        raise TemplateFailed("template_error", "a list or object cannot stand in a path")
    return compact(value)


def parse_path(text: str) -> Path:
    """Returns the parsed path. Raises: BadText (bad_jsonpath, and those of a template)."""
    if len(text) > MAX_CHARS:
        raise BadText("bad_jsonpath", f"longer than {MAX_CHARS} characters", allowed=_ALLOWED)
    template = parse_template(text)
    literal = "".join(part if isinstance(part, str) else _PLACE for part in template.parts)
    if not template.reads:
        if _PLAIN.fullmatch(literal):
            steps = tuple(int(step) if step.isdigit() else step for step in _STEP.findall(literal))
            return Path(template=template, steps=steps)
        return Path(template=template, compiled=_compile(literal))
    unquoted = _QUOTED.sub("", literal)
    if not _FREE.fullmatch(unquoted) or literal.count(_PLACE) != unquoted.count(_PLACE):
        what = "a placeholder stands for a whole literal, without quotes around it"
        raise BadText("bad_jsonpath", what, allowed="$.orders[?(@.number == {{args.number}})]")
    _compile(literal.replace(_PLACE, "1"))
    return Path(template=template)


def _compile(text: str) -> _CountedPath:
    """Returns the compiled path. Raises: BadText (bad_jsonpath)."""
    try:
        path = _ENVIRONMENT.compile(text)
    except (JSONPathError, ValueError, ArithmeticError, RecursionError) as error:
        what = str(error.args[0] if error.args else "").partition("\n")[0] or "this cannot be read"
        column = _column(error, text)
        raise BadText("bad_jsonpath", what, allowed=_ALLOWED, column=column) from error
    if not isinstance(path, JSONPath):
        raise BadText("bad_jsonpath", "paths cannot be joined", allowed=_ALLOWED)
    return _counted(path)


def _column(error: BaseException, text: str) -> int | None:
    token = getattr(error, "token", None)
    index = getattr(token, "index", None)  # -1: the end
    return (index if index >= 0 else len(text)) + 1 if isinstance(index, int) else None


def _counted(path: JSONPath) -> _CountedPath:
    """Returns the path in a form that counts visits, including paths in its filters.

    Raises: BadText.
    """
    for segment in path.segments:
        for selector in segment.selectors:
            if isinstance(selector, Filter):
                _count(selector.expression)
    return _CountedPath(env=path.env, segments=path.segments)


def _count(expression: BaseExpression) -> None:
    if isinstance(expression, ListLiteral) or getattr(expression, "operator", "") == "<>":
        raise BadText("bad_jsonpath", "lists and '<>' are no part of RFC 9535", allowed=_ALLOWED)
    if isinstance(expression, FilterQuery):
        expression.path = _counted(expression.path)
        return
    for child in expression.children():
        _count(child)


def _at(steps: ValuePath, document: Any) -> Any:
    """Returns the value at a path of names and indexes; None if there is none."""
    for step in steps:
        if isinstance(step, str):
            document = (
                cast(dict[str, Any], document).get(step) if isinstance(document, dict) else None
            )
        else:
            members = cast(list[Any], document) if isinstance(document, list) else []
            document = members[step] if step < len(members) else None
    return document


def _first(path: _CountedPath, document: Any, visits: Visits) -> Any:
    if not isinstance(document, dict | list):
        return None if path.segments else document
    try:
        match = next(iter(path.finditer(document, filter_context={"visits": visits})), None)
    except (_TooMany, JSONPathError, RecursionError):
        return None
    return None if match is None else match.obj
