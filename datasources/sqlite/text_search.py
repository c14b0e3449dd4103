"""Text search in a large graph: full-text candidates by the rarest words, exact BM25 for the best.

The index is asked only for the query's rarest words, up to a number of postings, because a word
that half of the nodes have costs most and tells least. The candidates are then scored with all
words and this graph's own statistics, by the same formula as the exact index of a small graph.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasources.lexical import idf, saturation
from datasources.sqlite import statements as sql
from datasources.sqlite.rows import GraphRow, array
from datasources.sqlite.words import content_tokens, name_tokens
from datasources.types import Hit, SearchField


_NAME_COLUMNS = "{key name type type_name} : "


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much a search looks at: postings read of the rarest words, and nodes scored exactly."""

    postings: int = 6_000
    rescored: int = 200
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
    chosen: list[str] = []
    postings = 0
    for term in sorted(counts, key=lambda term: (counts[term], term)):
        if chosen and postings + counts[term] > effort.postings:
            break
        chosen.append(term)
        postings += counts[term]
    columns = _NAME_COLUMNS if search_field == "name" else ""
    values: dict[str, object] = {**row.range, "query": columns + _any_of(chosen)}
    if postings <= effort.postings:
        found = connection.execute(sql.MATCH_RANKED, {**values, "limit": limit})
    else:  # even the rarest word is common: all its nodes score much the same, so take some
        found = connection.execute(sql.MATCH_ANY, {**values, "limit": effort.unranked})
    return [rid for (rid,) in found]


def _any_of(terms: Sequence[str]) -> str:
    """Return a full-text query for any of the words; a word is letters and digits, quoted all the same."""
    return "(" + " OR ".join('"' + term.replace('"', '""') + '"' for term in terms) + ")"


def _rescore(
    connection: sqlite3.Connection,
    row: GraphRow,
    rids: Sequence[int],
    counts: dict[str, int],
    search_field: SearchField,
) -> list[Hit]:
    tokens_of = content_tokens if search_field == "content" else name_tokens
    terms = list(counts)
    place = {term: i for i, term in enumerate(terms)}
    occurrences = np.zeros((len(rids), len(terms)))
    lengths = np.zeros(len(rids))
    order: list[int] = []
    for i, found in enumerate(connection.execute(sql.WORDS_OF, {"rids": array(rids)})):
        tokens = tokens_of(found[1:])
        order.append(found[0])
        lengths[i] = len(tokens)
        for term, count in Counter(token for token in tokens if token in place).items():
            occurrences[i, place[term]] = count
    total = row.content_words if search_field == "content" else row.name_words
    weights = idf(row.nodes, np.array([counts[term] for term in terms]))
    scores = saturation(occurrences, lengths[:, None], total / max(1, row.nodes)) @ weights
    keys = dict(connection.execute(sql.NODE_KEYS, {"rids": array(order)}).fetchall())
    hits = [
        Hit(keys[rid], float(np.float32(score)))
        for rid, score in zip(order, scores, strict=True)
        if score > 0
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.key))
