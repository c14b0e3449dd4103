"""What an AQL statement is: its text, the values it binds, the collections it names.

No text is ever put together: names and values are bound. The texts are in the modules
`statements_*`, and `ALL` of them are known here to whoever checks them.

`@graph` is the document key of a graph, `@graphKey` the key that its nodes and edges carry. A
statement on a graph looks it up with its workspace first; without that graph it finds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasources.arango.names import COLLECTIONS, HIDDEN
from datasources.types import node_fields

CONSTANTS: Mapping[str, Any] = {
    "hidden": list(HIDDEN),
    "searched": list(node_fields("searched").values()),
}
"""Values that are bound wherever a statement names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """`values` and `collections` are all it binds. `repeatable`: after a conflict it may run again;
    `settled`: to write it twice is to write it once, so it is sent again when an answer was lost.
    """

    name: str
    text: str
    collections: tuple[str, ...]
    values: tuple[str, ...] = ()
    writes: bool = False
    repeatable: bool = True
    settled: bool = False

    def binds(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the bind variables. Raises: TypeError for a value missing or not asked for."""
        bound = {name: CONSTANTS[name] for name in self.values if name in CONSTANTS} | dict(values)
        if bound.keys() != set(self.values):
            wrong = sorted(bound.keys() ^ set(self.values))
            raise TypeError(f"{self.name}: values {', '.join(wrong)} are missing or not asked for")
        return {**bound, **{f"@{name}": COLLECTIONS[name] for name in self.collections}}
