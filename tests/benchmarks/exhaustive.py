"""A source whose searches look at everything: what the fast searches are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datasources.hits import Hit, SearchField, VectorQuery
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
        return await self._read_rows(
            graph_key,
            lambda connection, row: search_stored(
                connection, row, words, limit, field, matched=EVERYTHING, scored=EVERYTHING
            ),
        )

    async def search_vectors(self, graph_key: str, wanted: VectorQuery) -> list[Hit]:
        return await self._read_rows(
            graph_key, lambda connection, row: search_exactly(connection, row, wanted)
        )
