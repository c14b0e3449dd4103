"""JSON values with templates inside: the bodies, parameters and answers of a document."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from tools.http.filters import TemplateFailed
from tools.http.problems import BadText, DocumentProblem
from tools.http.scope import Names, Scope, ValuePath
from tools.http.value_templates import MAX_RENDERED_CHARS, parse_template

MAX_DEPTH = 20

_Node = Callable[[Scope, bool], Any]
_OMITTED = object()


class Renderable(Protocol):
    """A text of a document that becomes a value. `paths`: what it reads."""

    @property
    def paths(self) -> tuple[ValuePath, ...]: ...

    def render(self, scope: Scope) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTree:
    """A parsed JSON value. `paths`: what its templates read."""

    node: _Node
    paths: tuple[ValuePath, ...]

    def render(self, scope: Scope, *, drop_null: bool = False) -> Any:
        """Return the value, without members whose template gave null where `drop_null`.

        Raises: TemplateFailed.
        """
        value = self.node(scope, drop_null)
        if value is _OMITTED:
            return None
        if self.paths and len(json.dumps(value)) > MAX_RENDERED_CHARS:
            raise TemplateFailed("template_error", "the rendered value is too large")
        return value


def parse_tree(
    value: Any,
    names: Names,
    where: str,
    problems: list[DocumentProblem],
    *,
    parse_text: Callable[[str, Names], Renderable] = parse_template,
) -> ValueTree:
    """Return the parsed value; what is wrong inside is added to `problems` with its place below `where`."""
    paths: list[ValuePath] = []

    def parsed(member: Any, place: str, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            what = f"nested deeper than {MAX_DEPTH}"
            problems.append(DocumentProblem(where=place, code="too_deep", what=what))
            return _constant(None)
        if isinstance(member, dict):
            items = cast(dict[str, Any], member).items()
            return _object([(key, parsed(item, f"{place}.{key}", depth + 1)) for key, item in items])
        if isinstance(member, list):
            elements = enumerate(cast(list[Any], member))
            return _list([parsed(item, f"{place}.{index}", depth + 1) for index, item in elements])
        if isinstance(member, str):
            try:
                text = parse_text(member, names)
            except BadText as bad:
                problems.append(bad.at(place))
                return _constant(None)
            paths.extend(text.paths)
            return _leaf(text) if text.paths else _constant(text.render(Scope({})))
        return _constant(member)

    return ValueTree(node=parsed(value, where, 1), paths=tuple(paths))


def _object(members: list[tuple[str, _Node]]) -> _Node:
    def render(scope: Scope, drop: bool) -> Any:
        return {key: value for key, node in members if (value := node(scope, drop)) is not _OMITTED}

    return render


def _list(elements: list[_Node]) -> _Node:
    def render(scope: Scope, drop: bool) -> Any:
        return [value for node in elements if (value := node(scope, drop)) is not _OMITTED]

    return render


def _leaf(text: Renderable) -> _Node:
    def render(scope: Scope, drop: bool) -> Any:
        value = text.render(scope)
        return _OMITTED if drop and value is None else value

    return render


def _constant(value: Any) -> _Node:
    return lambda _scope, _drop: value
