"""An AQL statement: its text, and the values and collections bound by it.

Names and values are bound, never written into the text. Statements that share a part are built
with `compose` from literal parts of this program when a module is loaded.

`@graph` is the document key of a graph, `@graphKey` the graph key in its nodes and edges. A
statement on a graph first reads the graph with its workspace; without that graph it has no result.
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
"""Values bound in every statement that uses their names. `kept`: the fields of a node that are
kept when its document is replaced, its vectors.
"""

FOUND = """
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0"""

DIGEST = "MD5(CONCAT(@wordsVersion, JSON_STRINGIFY(@searched[* RETURN $node[CURRENT]])))"
"""The digest of a node's searched fields. It shows whether the stored words are up to date."""

_COLLECTION = re.compile(r"@@(\w+)")
_WRITES = re.compile(r"\b(?:INSERT|UPDATE|REPLACE|REMOVE)\b")
_VALUE = re.compile(r"(?<!@)@(\w+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """An AQL statement. `idempotent`: it may be sent again if an answer was lost.

    `@@records` is the collection of the kind of record passed as `kind`.
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
        """Returns the bind variables. Raises: TypeError for a missing or unused value."""
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
    """Returns a text in which `$` names are replaced by parts. Raises: KeyError for a missing
    part.
    """
    return Template(text).substitute(parts)


def with_fewer_edges(enough: str) -> str:
    """Returns a condition that is true for a node `id` with fewer than `enough` edges.

    Counting stops at `enough`, so that the edges of a hub are not all read.
    """
    return f"""
    LET leaving = LENGTH(FOR e IN @@edges FILTER e._from == id LIMIT {enough} RETURN 1)
    LET arriving = LENGTH(FOR e IN @@edges FILTER e._to == id FILTER e._from != id LIMIT {enough} RETURN 1)
    FILTER leaving + arriving < {enough}"""


def on_graph(text: str, *, idempotent: bool = False, **parts: str) -> Statement:
    """Returns a statement that starts with reading the graph; `found` is whether it exists."""
    return Statement(FOUND + compose(text, **parts), idempotent)


def of_graph(loop: str) -> Statement:
    """Returns a statement that runs a loop if the graph exists. Its one row is `{ found,
    rows }`.
    """
    return on_graph("\nLET rows = (\n  FILTER found$loop\n)\nRETURN { found, rows }", loop=loop)
