"""What an AQL statement is: its text, and by its text the values and collections that it binds.

Names and values are bound, never written into a text. Where several statements share a part,
`compose` puts literal parts of this program together when a module is loaded.

`@graph` is the document key of a graph, `@graphKey` the key that its nodes and edges carry. A
statement on a graph looks it up with its workspace first; without that graph it finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Template
from typing import Any

from datasources.arango.layout import COLLECTIONS, HIDDEN, TEXT, collection_of
from datasources.text import WORDS_VERSION
from datasources.types import node_fields

CONSTANTS: Mapping[str, Any] = {
    "hidden": list(HIDDEN),
    "kept": [name for name in HIDDEN if name != TEXT],
    "searched": list(node_fields("searched").values()),
    "wordsVersion": WORDS_VERSION,
}
"""Values that are bound wherever a statement names them. `kept` is what a node keeps when its
document is replaced: its vectors.
"""

FOUND = """
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0"""

DIGEST = "MD5(CONCAT(@wordsVersion, JSON_STRINGIFY(@searched[* RETURN $node[CURRENT]])))"
"""The digest of what is searched of a node, by which its stored words are known to be its own."""

_COLLECTION = re.compile(r"@@(\w+)")
_WRITES = re.compile(r"\b(?:INSERT|UPDATE|REPLACE|REMOVE)\b")
_VALUE = re.compile(r"(?<!@)@(\w+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """`idempotent`: to write it twice is to write it once, so it is sent again when an
    answer was lost.

    `@@records` is the collection of one kind of record, which is given as the value `kind`.
    """

    text: str
    idempotent: bool = False
    writes: bool = field(init=False)
    collections: frozenset[str] = field(init=False)
    values: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "writes", _WRITES.search(self.text) is not None)
        object.__setattr__(self, "collections", frozenset(_COLLECTION.findall(self.text)))
        object.__setattr__(self, "values", frozenset(_VALUE.findall(self.text)))

    def binds(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the bind variables. Raises: TypeError for a value missing or not asked for."""
        bound = {name: CONSTANTS[name] for name in self.values & CONSTANTS.keys()} | dict(values)
        kind = bound.pop("kind", None)
        if bound.keys() != self.values:
            wrong = sorted(bound.keys() ^ self.values)
            raise TypeError(
                f"values {', '.join(wrong)} are missing or not asked for: {self.text[:80]}"
            )
        names = {f"@{name}": COLLECTIONS[name] for name in self.collections}
        return {**bound, **names, **({} if kind is None else {"@records": collection_of(kind)})}


def compose(text: str, **parts: str) -> str:
    """Return a text with literal parts at its `$` names. Raises: KeyError for a part
    that is missing.
    """
    return Template(text).substitute(parts)


def with_fewer_edges(enough: str) -> str:
    """Return what passes over a node `id` of so many edges; those of a hub are not counted
    to the end.
    """
    return f"""
    LET leaving = LENGTH(FOR e IN @@edges FILTER e._from == id LIMIT {enough} RETURN 1)
    LET arriving = LENGTH(FOR e IN @@edges FILTER e._to == id FILTER e._from != id LIMIT {enough} RETURN 1)
    FILTER leaving + arriving < {enough}"""


def on_graph(text: str, *, idempotent: bool = False, **parts: str) -> Statement:
    """Return a statement that says first whether the graph is there: `found`."""
    return Statement(FOUND + compose(text, **parts), idempotent)


def of_graph(loop: str) -> Statement:
    """Return a statement that runs a loop where the graph is there: one row, `{ found, rows }`."""
    return on_graph("\nLET rows = (\n  FILTER found$loop\n)\nRETURN { found, rows }", loop=loop)
