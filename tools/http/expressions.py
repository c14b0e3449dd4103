"""Expressions: conditions of a document over its values, as `$.blocked == true`."""

from __future__ import annotations

from typing import Any

from tools.http.scope import Names, Scope


class Expression:
    """One parsed condition. `paths`: what it reads."""

    paths: tuple[tuple[str | int, ...], ...] = ()

    def evaluate(self, scope: Scope) -> Any:
        """Return the value, a JSON value. Never raises."""
        raise NotImplementedError

    def holds(self, scope: Scope) -> bool:
        """Return whether the value counts as true. Never raises."""
        return bool(self.evaluate(scope))


def parse_expression(source: str, names: Names) -> Expression:
    """Return the parsed condition. Raises: BadText (bad_expression, unknown_namespace)."""
    raise NotImplementedError
