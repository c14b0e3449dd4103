"""JSONPaths (RFC 9535): what is taken out of a response, with templates inside as JSON literals."""

from __future__ import annotations

from typing import Any

from tools.http.problems import DocumentProblem
from tools.http.scope import Names, Scope
from tools.http.templates import ValueTree


class Path:
    """One parsed JSONPath."""

    def first(self, document: Any, scope: Scope) -> Any:
        """Return the first match in `document`, None without one. Never raises."""
        raise NotImplementedError

    def render(self, scope: Scope) -> Any:
        """Return the first match in the scope's response (`$`)."""
        return self.first(scope.lookup(("$",)), scope)


def parse_path(text: str, names: Names) -> Path:
    """Return the parsed path. Raises: BadText (bad_jsonpath, and those of a template)."""
    raise NotImplementedError


def parse_return(value: Any, names: Names, where: str, problems: list[DocumentProblem]) -> ValueTree:
    """Return the parsed `return` of a tool: its texts are JSONPaths (`$`, `$.a`, `$[0]`) or templates."""
    raise NotImplementedError
