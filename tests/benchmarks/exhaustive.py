"""A source whose searches look at everything: what the fast searches are compared with."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datasources.hits import Hit, SearchField, VectorQuery
from datasources.search import SearchHits, SearchRequest
from datasources.sqlite.engine import GraphReads
from datasources.sqlite.rows import GraphRow
from datasources.sqlite.source import SqliteSource, search_graph
from datasources.sqlite.text_index import search_stored
from datasources.sqlite.vector_index import search_exactly

EVERYTHING = 1 << 60


@dataclass(frozen=True)
class _ExhaustiveReads:
    """Scores every node that has a word of the question, and every vector."""

    reads: GraphReads
    connection: sqlite3.Connection
    row: GraphRow

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reads, name)

    def search_text(self, terms: Sequence[str], limit: int, search_field: SearchField) -> list[Hit]:
        words = list(dict.fromkeys(terms))
        return search_stored(
            self.connection,
            self.row,
            words,
            limit,
            search_field,
            matched=EVERYTHING,
            scored=EVERYTHING,
        )

    def search_vectors(self, query: VectorQuery) -> list[Hit]:
        return search_exactly(self.connection, self.row, query)


@dataclass(frozen=True)
class ExhaustiveSource(SqliteSource):
    """A source of the embedded database whose searches are exhaustive."""

    @staticmethod
    def over(source: Any) -> ExhaustiveSource:
        return ExhaustiveSource(source.engine, source.workspace)

    async def search(self, graph_key: str, request: SearchRequest) -> SearchHits:
        def search(connection: sqlite3.Connection, row: GraphRow) -> SearchHits:
            reads: Any = _ExhaustiveReads(self.engine.graph(connection, row), connection, row)
            return search_graph(reads, row.nodes, request)

        return await self._read_rows(graph_key, search)
