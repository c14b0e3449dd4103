"""Text search in a large graph: by a tantivy index beside the file, by FTS5 while there is none.

The index holds the words as `datasources.text` made them, and weighs them by the same BM25 as every
source. Nodes that changed since it was made are scored here, from their stored words. FTS5 is asked
only for a question's rarest words: its own ranking takes longer, and counts all graphs as one.

Source: Turtle & Flood, "Query evaluation: strategies and optimizations" (1995), for looking at rare
words first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from datasources.hits import Hit, SearchField
from datasources.lexical import score_texts
from datasources.sqlite import statements as sql
from datasources.sqlite.index_manager import IndexKind, NodeTable
from datasources.sqlite.rows import (
    TEXT_LOG,
    GraphRow,
    array,
    best_of,
    best_rows,
    keys_of,
    with_rarest,
)
from datasources.sqlite.words import NAME_COLUMNS

if (
    TYPE_CHECKING
):  # imported where it is used: it adds 30 ms to a start, and small graphs do without
    from tantivy import Schema, Searcher

BLOCK = 4_000
HEAP_BYTES = 256 << 20
SPARE = 32
"""Hits taken beyond the limit: of those that tie with the last the keys decide."""

POSTINGS = 3_000
"""Nodes read of each word while there is no index; of a more common word only so many count."""

SCORED = 1_000
"""Nodes scored with all words while there is no index: those whose words weigh most."""

MAX_WORDS = 1_000
"""Distinct words of a question that are looked for; more make no question clearer."""

_NAME_COLUMNS = "{key name type type_name} : "


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextIndex:
    """An opened index and the text version of the graph that it knows."""

    number: int
    nodes: NodeTable
    schema: Schema
    searcher: Searcher

    def search(
        self, search_field: SearchField, terms: Sequence[str], limit: int, hidden: Sequence[int]
    ) -> list[Hit]:
        """Return the best nodes that are not `hidden`."""
        from tantivy import Occur, Query

        words = [
            (Occur.Should, Query.term_query(self.schema, search_field, term, "freq"))
            for term in terms
        ]
        asked = min(limit + SPARE + len(hidden), max(1, len(self.nodes)))
        found = self.searcher.search(Query.boolean_query(words), asked, count=False).hits
        rids = np.array(
            self.searcher.fast_field_values("rid", [place for _, place in found]), dtype=np.int64
        )
        scores = np.array([score for score, _ in found], dtype=np.float32)
        if hidden:
            kept = ~np.isin(rids, hidden)
            rids = rids[kept]
            scores = scores[kept]
        return best_of(self.nodes.keys(self.nodes.rows(rids)), scores, limit)

    def counts(self, search_field: SearchField, terms: Sequence[str]) -> dict[str, int]:
        """Return how many nodes have each of these words."""
        return {term: max(1, self.searcher.doc_freq(search_field, term)) for term in terms}


def _schema() -> Schema:
    from tantivy import SchemaBuilder

    builder = SchemaBuilder().add_unsigned_field("rid", fast=True)
    for name in ("content", "name"):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


def _open(path: Path, number: int) -> TextIndex | None:
    from tantivy import Index

    try:
        nodes = NodeTable.open(path)
        index = Index.open(str(path))
        index.config_reader("manual")
    except (OSError, ValueError):
        return None
    return TextIndex(number=number, nodes=nodes, schema=index.schema, searcher=index.searcher())


def _write(
    connection: sqlite3.Connection, row: GraphRow, path: Path, stop: Callable[[], None]
) -> None:
    from tantivy import Document, Index

    writer = Index(_schema(), path=str(path)).writer(HEAP_BYTES, num_threads=1)
    rids: list[int] = []
    keys: list[str] = []
    cursor = connection.execute(sql.WORDS_IN_ORDER, row.range)
    while rows := cursor.fetchmany(BLOCK):
        stop()
        for rid, key, *words in rows:
            document = Document(content=" ".join(words), name=" ".join(words[:NAME_COLUMNS]))
            document.add_unsigned("rid", rid)
            writer.add_document(document)
            rids.append(rid)
            keys.append(key)
    writer.commit()
    writer.wait_merging_threads()
    NodeTable.of(np.array(rids, dtype=np.int64), keys).save(path)


TEXT_INDEX = IndexKind(
    name="text", open=_open, write=_write, version=lambda row: row.text_version, log=TEXT_LOG
)


def search_large(
    connection: sqlite3.Connection,
    row: GraphRow,
    terms: Sequence[str],
    limit: int,
    search_field: SearchField,
    usable: tuple[TextIndex, Sequence[int]] | None,
) -> list[Hit]:
    """Return the best nodes by BM25. `usable` is an opened index and the nodes
    that changed since.
    """
    words = list(dict.fromkeys(terms))[:MAX_WORDS]
    if not words or limit <= 0:
        return []
    if usable is None:
        return search_stored(connection, row, words, limit, search_field)
    index, changed = usable
    hits = index.search(search_field, words, limit, changed)
    if changed:
        hits += _score(
            connection, row, changed, index.counts(search_field, words), search_field, limit
        )
        hits = sorted(hits, key=lambda hit: (-hit.score, hit.key))[:limit]
    return hits


def search_stored(
    connection: sqlite3.Connection,
    row: GraphRow,
    words: Sequence[str],
    limit: int,
    search_field: SearchField,
    *,
    postings: int = POSTINGS,
    scored: int = SCORED,
) -> list[Hit]:
    """Return about the best nodes by BM25 without an index, of those that FTS5 finds.

    Of words with more than `postings` nodes only some are looked at.
    """
    found: dict[str, list[int]] = {}
    columns = _NAME_COLUMNS if search_field == "name" else ""
    for word in words:
        quoted = word.replace('"', '""')
        query = {**row.range, "query": f'{columns}"{quoted}"', "limit": postings}
        rids = [rid for (rid,) in connection.execute(sql.MATCH, query)]
        if rids:
            found[word] = rids
    if not found:
        return []
    counts = {word: len(rids) for word, rids in found.items()}
    best = with_rarest(found, row.nodes, max(limit, scored))
    return _score(connection, row, best, counts, search_field, limit)


def _score(
    connection: sqlite3.Connection,
    row: GraphRow,
    rids: Sequence[int],
    counts: Mapping[str, int],
    search_field: SearchField,
    limit: int,
) -> list[Hit]:
    """Return the best of some nodes by BM25, from their stored words. `counts`: how many
    nodes have each.
    """
    is_content = search_field == "content"
    last = None if is_content else 1 + NAME_COLUMNS
    found = connection.execute(sql.WORDS_OF, {"rids": array(rids)}).fetchall()
    total = row.content_words if is_content else row.name_words
    nodes = max(row.nodes, *counts.values())  # an index may count nodes that have gone
    texts = [" ".join(words[1:last]).split() for words in found]
    scores = score_texts(texts, counts, nodes, total / max(1, row.nodes))
    scores[scores <= 0] = -np.inf
    rows = best_rows(scores, limit)
    best = [found[place][0] for place in rows.tolist()]
    return best_of(keys_of(connection, best), scores[rows].astype(np.float32), limit)
