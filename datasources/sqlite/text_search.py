"""Text search in a large graph: full-text candidates by the rarest words, exact BM25 for the best.

The index is asked only for the query's rarest words, up to a number of postings, because a word
that half of the nodes have costs most and tells least. The nodes whose words weigh most are then
scored with all words and this graph's own statistics, by the same formula as the exact index of
a small graph. FTS5's own ranking is not used: it takes longer, and counts all graphs as one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasources.lexical import idf, saturation
from datasources.sqlite import statements as sql
from datasources.sqlite.rows import GraphRow, array
from datasources.sqlite.words import NAME_COLUMNS
from datasources.types import Hit, SearchField

_NAME_COLUMNS = "{key name type type_name} : "


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much a search looks at: postings read of the rarest words, and nodes scored exactly."""

    postings: int = 6_000
    rescored: int = 160
    unranked: int = 3_000
    """Nodes taken when even the rarest word has more postings than `postings`."""


NORMAL = Effort()


def search_large(
    connection: sqlite3.Connection,
    row: GraphRow,
    terms: Sequence[str],
    limit: int,
    search_field: SearchField,
    effort: Effort = NORMAL,
) -> list[Hit]:
    """Return about the best nodes by BM25; exact scores, and exact order among those returned."""
    distinct = list(dict.fromkeys(terms))
    counts = _document_counts(connection, row.id, distinct, search_field)
    if not counts:
        return []
    rids = _candidates(connection, row, counts, max(limit, effort.rescored), search_field, effort)
    scored = _rescore(connection, row, rids, counts, search_field)
    return scored[: max(0, limit)]


def _document_counts(
    connection: sqlite3.Connection, graph: int, terms: Sequence[str], search_field: SearchField
) -> dict[str, int]:
    rows = connection.execute(sql.TERMS_OF, {"graph": graph, "terms": array(terms)})
    place = 1 if search_field == "content" else 2
    return {row[0]: row[place] for row in rows if row[place] > 0}


def _candidates(
    connection: sqlite3.Connection,
    row: GraphRow,
    counts: dict[str, int],
    limit: int,
    search_field: SearchField,
    effort: Effort,
) -> list[int]:
    """Return the nodes that have the heaviest of the rarest words."""
    found: list[NDArray[np.int64]] = []
    weights: list[NDArray[np.float64]] = []
    columns = _NAME_COLUMNS if search_field == "name" else ""
    left = effort.postings
    for term in sorted(counts, key=lambda term: (counts[term], term)):
        if found and counts[term] > left:
            break
        # Where even the rarest word is common its nodes score much the same, so some will do.
        most = counts[term] if counts[term] <= left else effort.unranked
        left -= counts[term]
        quoted = term.replace('"', '""')
        query = {**row.range, "query": f'{columns}"{quoted}"', "limit": most}
        rids = [rid for (rid,) in connection.execute(sql.MATCH, query)]
        found.append(np.array(rids, dtype=np.int64))
        weights.append(np.full(len(rids), float(idf(row.nodes, counts[term]))))
    distinct, place = np.unique(np.concatenate(found), return_inverse=True)
    if len(distinct) <= limit:
        return distinct.tolist()
    scores = np.bincount(place, np.concatenate(weights))
    return distinct[np.argpartition(-scores, limit)[:limit]].tolist()


def _rescore(
    connection: sqlite3.Connection,
    row: GraphRow,
    rids: Sequence[int],
    counts: dict[str, int],
    search_field: SearchField,
) -> list[Hit]:
    last = None if search_field == "content" else 1 + NAME_COLUMNS
    terms = list(counts)
    order: list[int] = []
    lengths: list[int] = []
    occurrences: list[list[int]] = []
    for found in connection.execute(sql.WORDS_OF, {"rids": array(rids)}):
        text = " ".join(found[1:last])
        tokens = text.split()
        order.append(found[0])
        lengths.append(len(tokens))
        occurrences.append([tokens.count(term) if term in text else 0 for term in terms])
    total = row.content_words if search_field == "content" else row.name_words
    weights = idf(row.nodes, np.array([counts[term] for term in terms]))
    shape = (len(order), len(terms))
    tf = np.array(occurrences, dtype=np.float64).reshape(shape)
    scores = saturation(tf, np.array(lengths)[:, None], total / max(1, row.nodes)) @ weights
    keys = dict(connection.execute(sql.NODE_KEYS, {"rids": array(order)}).fetchall())
    hits = [
        Hit(keys[rid], float(np.float32(score)))
        for rid, score in zip(order, scores, strict=True)
        if score > 0
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.key))
