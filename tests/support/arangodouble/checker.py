"""Checks AQL texts without data: what a server of 3.12 or 4.0 would refuse before it runs a query.

Checked: syntax and scopes (1501, 1511, 1512), bind variables (1551, 1552), functions and
their arguments (1540, 1541), options (1539, 1575), reading after writing (1579). Not checked:
types, indexes, plans.

Source: ArangoDB 3.12 documentation, "AQL"; for 4.0 its list of incompatible changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tests.support.arangodouble.errors import AqlError, ArangoError
from tests.support.arangodouble.execution import check_binds
from tests.support.arangodouble.functions import lookup
from tests.support.arangodouble.parser import Parser
from tests.support.arangodouble.tokens import KEYWORDS, NEW_KEYWORDS
from tests.support.arangodouble.tree import N

REMOVED_IN_4 = {"traversal": "bfs", "insert": "overwrite"}
"""Options that 4.0 no longer takes, by statement."""


def check(text: str, binds: Collection[str], *, dialect: str = "3.12") -> None:
    """Raises AqlError if the text would be refused with values of these names."""
    is_4 = dialect.startswith("4")
    query = Parser(text, keywords=KEYWORDS | NEW_KEYWORDS if is_4 else KEYWORDS).parse()
    check_binds(query, binds)
    for node in _nodes(query.statements):
        if node.kind == "call":
            _check_call(node)
        elif node.kind == "object" and hasattr(node, "unknown"):
            _check_options(node, is_4=is_4)


def _nodes(statements: list[Any]) -> Iterator[N]:
    for statement in statements:
        yield from statement.walk()


def _check_call(node: N) -> None:
    try:
        lookup(node.name, len(node.args))
    except AqlError:
        raise
    except ArangoError:  # the server has this function, the double does not
        return


def _check_options(options: N, *, is_4: bool) -> None:
    removed = REMOVED_IN_4.get(options.context) if is_4 else None
    refused = [*options.unknown, *(item.name for item in options.items if item.name == removed)]
    if refused:
        raise AqlError(1539, f"AQL: {options.context}: no option {refused[0]!r}")
