"""Templates: `{{ path | filter }}` in a text, and JSON values with such texts inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from tools.http.problems import DocumentProblem
from tools.http.scope import Names, Scope

Insert = Literal["value", "text", "url", "json"]
"""How a value is written: `value` keeps the type of a lone placeholder, `text` always gives text,
`url` percent-encodes each value whole, `json` writes each as a JSON literal."""


class TemplateFailed(Exception):
    """A template cannot be rendered with these values.

    `code`: `template_error`, or `missing_value` where a null stands in a URL's path (`path` says which).
    """

    def __init__(self, code: str, what: str, *, path: str = "") -> None:
        self.code, self.what, self.path = code, what, path
        super().__init__(what)


class Renderable(Protocol):
    """A text of a document that becomes a value."""

    def render(self, scope: Scope) -> Any: ...


class Template:
    """One parsed text. `paths`: what it reads, as `("args", "phone")`."""

    paths: tuple[tuple[str | int, ...], ...] = ()

    def render(self, scope: Scope, *, insert: Insert = "value") -> Any:
        """Return the value. Raises: TemplateFailed."""
        raise NotImplementedError


class ValueTree:
    """A JSON value with templates inside."""

    paths: tuple[tuple[str | int, ...], ...] = ()

    def render(self, scope: Scope, *, drop_null: bool = False) -> Any:
        """Return the value, without members whose template gave null where `drop_null`.

        Raises: TemplateFailed.
        """
        raise NotImplementedError


def parse_template(text: str, names: Names) -> Template:
    """Return the parsed text. Raises: BadText (bad_template, unknown_namespace, unknown_filter,
    secret_not_allowed_here)."""
    raise NotImplementedError


def parse_tree(
    value: Any,
    names: Names,
    where: str,
    problems: list[DocumentProblem],
    *,
    parse_text: Callable[[str, Names], Renderable] = parse_template,
) -> ValueTree:
    """Return the parsed value; what is wrong inside is added to `problems` with its place below `where`."""
    raise NotImplementedError
