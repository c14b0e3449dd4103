"""Text search in a graph that is not held: by a tantivy index beside the file, by FTS5 while there
is none.

The index holds the words as `datasources.text` made them and weighs them by the same BM25 as every
source. Nodes that changed since it was made are scored from their stored words. FTS5 only says
which nodes have a word: its own ranking is slower and counts the nodes of all graphs as one.

Source: Turtle & Flood, "Query evaluation: strategies and optimizations" (1995), for looking at rare
words first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np

from datasources.hits import Hit, SearchField
from datasources.lexical import score_texts
from datasources.ranking import ordered, with_rarest
from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import TEXT_LOG
from datasources.sqlite.index_manager import IndexKind
from datasources.sqlite.rows import GraphRow, array, best_hits
from datasources.sqlite.words import NAME_COLUMNS

if TYPE_CHECKING:  # imported on use, because it adds 30 ms to the start
    from tantivy import Schema, Searcher

BLOCK_ROWS = 4_000  # nodes read at one time
HEAP_BYTES = 256 << 20  # memory for building an index
SPARE_HITS = 32  # hits read beyond the limit, because ties are ordered by key

# While there is no index:
MATCHED_NODES = 3_000  # nodes read of each word
SCORED_NODES = 1_000  # nodes scored with all words, those with the rarest words first

MAX_WORDS = 1_000  # distinct words of a question that are searched

_NAME_COLUMNS = "{key name type type_name} : "


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextIndex:
    """An opened index and the text version of the graph in it."""

    number: int
    schema: Schema
    searcher: Searcher

    def search(
        self,
        connection: sqlite3.Connection,
        search_field: SearchField,
        words: Sequence[str],
        limit: int,
        changed: Sequence[int],
    ) -> list[Hit]:
        """Returns the best nodes that are not among the `changed` ones."""
        from tantivy import Occur, Query

        terms = [
            (Occur.Should, Query.term_query(self.schema, search_field, word, "freq"))
            for word in words
        ]
        count = min(limit + SPARE_HITS + len(changed), max(1, self.searcher.num_docs))
        hits = self.searcher.search(Query.boolean_query(terms), count, count=False).hits
        places = [place for _, place in hits]
        rids = np.array(self.searcher.fast_field_values("rid", places), dtype=np.int64)
        scores = np.array([score for score, _ in hits], dtype=np.float32)
        is_current = ~np.isin(rids, changed)
        return best_hits(connection, rids[is_current], scores[is_current], limit)

    def counts(self, search_field: SearchField, words: Sequence[str]) -> dict[str, int]:
        """Returns the number of nodes with each of these words."""
        return {word: max(1, self.searcher.doc_freq(search_field, word)) for word in words}


def _schema() -> Schema:
    from tantivy import SchemaBuilder

    builder = SchemaBuilder().add_unsigned_field("rid", fast=True)
    for name in ("content", "name"):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


def _open(path: Path, number: int) -> TextIndex | None:
    from tantivy import Index

    try:
        index = Index.open(str(path))
        index.config_reader("manual")
    except (OSError, ValueError):
        return None
    return TextIndex(number=number, schema=index.schema, searcher=index.searcher())


def _write(
    connection: sqlite3.Connection, row: GraphRow, path: Path, stop: Callable[[], None]
) -> None:
    from tantivy import Document, Index

    writer = Index(_schema(), path=str(path)).writer(HEAP_BYTES, num_threads=1)
    cursor = connection.execute(sql.WORDS_IN_ORDER, row.range)
    while rows := cursor.fetchmany(BLOCK_ROWS):
        stop()
        for rid, _, *words in rows:
            document = Document(content=" ".join(words), name=" ".join(words[:NAME_COLUMNS]))
            document.add_unsigned("rid", rid)
            writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


TEXT_INDEX = IndexKind(
    name="text", open=_open, write=_write, version=lambda row: row.text_version, log=TEXT_LOG
)


def search_indexed(
    connection: sqlite3.Connection,
    row: GraphRow,
    terms: Sequence[str],
    limit: int,
    search_field: SearchField,
    usable: tuple[TextIndex, Sequence[int]] | None,
) -> list[Hit]:
    """Returns the best nodes by BM25. `usable` is an opened index and the nodes that changed since
    it was made.
    """
    words = list(dict.fromkeys(terms))[:MAX_WORDS]
    if not words or limit <= 0:
        return []
    if usable is None:
        return search_stored(connection, row, words, limit, search_field)
    index, changed = usable
    hits = index.search(connection, search_field, words, limit, changed)
    if not changed:
        return hits
    counts = index.counts(search_field, words)
    scored = _score(connection, row, changed, counts, search_field, limit)
    return ordered([*hits, *scored], limit)


def search_stored(
    connection: sqlite3.Connection,
    row: GraphRow,
    words: Sequence[str],
    limit: int,
    search_field: SearchField,
    *,
    matched: int = MATCHED_NODES,
    scored: int = SCORED_NODES,
) -> list[Hit]:
    """Returns approximately the best nodes by BM25, among those that FTS5 finds, without an index.

    At most `matched` nodes are read for each word.
    """
    rids_by_word: dict[str, list[int]] = {}
    columns = _NAME_COLUMNS if search_field == "name" else ""
    for word in words:
        quoted = word.replace('"', '""')
        query = {**row.range, "query": f'{columns}"{quoted}"', "limit": matched}
        rids = [rid for (rid,) in connection.execute(sql.MATCH, query)]
        if rids:
            rids_by_word[word] = rids
    if not rids_by_word:
        return []
    counts = {word: len(rids) for word, rids in rids_by_word.items()}
    best = with_rarest(rids_by_word, row.nodes, max(limit, scored))
    return _score(connection, row, best, counts, search_field, limit)


def _score(
    connection: sqlite3.Connection,
    row: GraphRow,
    rids: Sequence[int],
    counts: Mapping[str, int],
    search_field: SearchField,
    limit: int,
) -> list[Hit]:
    """Returns the best of some nodes by BM25, from their stored words. `counts`: how many nodes
    have each word.
    """
    is_content = search_field == "content"
    columns = slice(1, None if is_content else 1 + NAME_COLUMNS)
    rows = connection.execute(sql.WORDS_OF, {"rids": array(rids)}).fetchall()
    total_words = row.content_words if is_content else row.name_words
    nodes = max(row.nodes, *counts.values())  # an index may count nodes that were deleted
    texts = [" ".join(words[columns]).split() for words in rows]
    scores = score_texts(texts, counts, nodes, total_words / max(1, row.nodes))
    scores[scores <= 0] = -np.inf
    stored = np.array([words[0] for words in rows], dtype=np.int64)
    return best_hits(connection, stored, scores.astype(np.float32), limit)
