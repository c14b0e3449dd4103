"""A source whose searches look at everything: what the fast searches are compared with."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from datasources.hits import Hit, SearchField, VectorQuery
from datasources.sqlite.rows import graph_row
from datasources.sqlite.source import SqliteSource
from datasources.sqlite.text_index import search_stored
from datasources.sqlite.vector_index import search_exactly
from datasources.text import tokenize

EVERYTHING = 1 << 60


@dataclass(frozen=True)
class ExhaustiveSource(SqliteSource):
    """Scores every node that has a word of the question, and every vector."""

    @staticmethod
    def over(source: Any) -> ExhaustiveSource:
        return ExhaustiveSource(source.engine, source.workspace)

    async def search_text(
        self, graph_key: str, query: str, *, limit: int, field: SearchField = "content"
    ) -> list[Hit]:
        words = list(dict.fromkeys(tokenize(query)))
        return await self._read(
            graph_key,
            lambda at: search_stored(
                at.connection, at.row, words, limit, field, postings=EVERYTHING, scored=EVERYTHING
            ),
        )

    async def search_vectors(self, graph_key: str, wanted: VectorQuery) -> list[Hit]:
        def work(connection: sqlite3.Connection) -> list[Hit]:
            row = graph_row(connection, self.workspace, graph_key)
            return search_exactly(connection, row, wanted)

        return await self.engine.pool.read(work)
