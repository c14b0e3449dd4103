"""Reads of a graph that is held whole in memory: documents, edges by node, words and vectors.

Each part is loaded from the file on first use and again after a change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from datasources.cache import Cache
from datasources.held_elements import HeldElements
from datasources.hits import Hit, SearchField, VectorQuery
from datasources.links import Link
from datasources.sqlite import statements as sql
from datasources.sqlite.held_words import HeldWords
from datasources.sqlite.rows import GraphRow
from datasources.sqlite.vector_index import HeldVectors
from datasources.vectors import VectorGroup


@final
@dataclass(frozen=True, slots=True, eq=False)
class HeldFileGraph:
    """Implements HeldParts: parts of a graph of a file."""

    connection: sqlite3.Connection
    row: GraphRow
    cache: Cache

    @property
    def elements(self) -> HeldElements:
        return self.cache.get(
            ("documents", self.row.id),
            self.row.revision,
            lambda _: _load_elements(self.connection, self.row),
        )

    def search_text(self, terms: Sequence[str], limit: int, search_field: SearchField) -> list[Hit]:
        words = self.cache.get(
            ("words", self.row.id, search_field),
            self.row.text_version,
            self._loaded_words(search_field),
        )
        return words.index.search(terms, limit)

    def _loaded_words(self, search_field: SearchField) -> Callable[[HeldWords | None], HeldWords]:
        return lambda older: HeldWords.load(self.connection, self.row, search_field, older)

    def search_vectors(self, query: VectorQuery) -> list[Hit]:
        group = VectorGroup.of(query)
        vectors = self.cache.get(
            ("vectors", self.row.id, group),
            self.row.vector_version,
            lambda _: HeldVectors.load(self.connection, self.row, group),
        )
        return vectors.search(self.connection, query)


def _load_elements(connection: sqlite3.Connection, row: GraphRow) -> HeldElements:
    nodes = connection.execute(sql.ALL_NODES, row.range).fetchall()
    edges = connection.execute(sql.ALL_EDGES, {"graph": row.id}).fetchall()
    keys: dict[int, str] = {rid: key for rid, key, _ in nodes}
    return HeldElements.of(
        {key: body for _, key, body in nodes},
        {key: (Link(keys[source], keys[target]), body) for key, source, target, body in edges},
    )
