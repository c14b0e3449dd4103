"""Text search in a large graph: by the index beside the file, by FTS5 while there is none.

FTS5 is asked only for the query's rarest words, up to a number of postings, because a word that
half of the nodes have costs most and tells least. The nodes whose words weigh most are then scored
with all words and this graph's own statistics, by the same formula as everywhere. FTS5's own
ranking is not used: it takes longer, and counts all graphs as one.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasources.lexical import idf, saturation
from datasources.sqlite import statements as sql
from datasources.sqlite.rows import GraphRow, array, best_of
from datasources.sqlite.text_index import Statistics, TextIndex
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
    index: tuple[TextIndex, list[int]] | None = None,
    effort: Effort = NORMAL,
) -> list[Hit]:
    """Return about the best nodes by BM25; exact scores, and exact order among those returned.

    `index` is an opened index and the nodes that changed since it was made.
    """
    counts = _document_counts(connection, row.id, list(dict.fromkeys(terms)), search_field)
    if not counts or limit <= 0:
        return []
    total = row.content_words if search_field == "content" else row.name_words
    statistics = Statistics(nodes=row.nodes, average=total / max(1, row.nodes), counts=counts)
    if index is None:
        rids = _candidates(connection, row, counts, max(limit, effort.rescored), search_field, effort)
        return _stored_hits(connection, _score(connection, rids, statistics, search_field), limit)
    rows, scores = index[0].search(statistics, search_field, limit, index[1])
    hits = best_of(index[0].nodes.keys(rows), scores, limit)
    if not index[1]:
        return hits
    hits += _stored_hits(connection, _score(connection, index[1], statistics, search_field), limit)
    return sorted(hits, key=lambda hit: (-hit.score, hit.key))[:limit]


def _stored_hits(connection: sqlite3.Connection, scored: Mapping[int, float], limit: int) -> list[Hit]:
    """Return the best nodes and those that tie with the last of them, whose keys then decide."""
    best = list(scored)
    if len(scored) > limit:
        least = heapq.nlargest(limit, scored.values())[-1]
        best = [rid for rid, score in scored.items() if score >= least]
    keys = dict(connection.execute(sql.NODE_KEYS, {"rids": array(best)}).fetchall())
    return best_of([keys[rid] for rid in best], np.array([scored[rid] for rid in best]), limit)


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


def _score(
    connection: sqlite3.Connection, rids: Sequence[int], statistics: Statistics, search_field: SearchField
) -> dict[int, float]:
    """Return the exact BM25 of the nodes that have any of the words, from their stored words."""
    last = None if search_field == "content" else 1 + NAME_COLUMNS
    terms = list(statistics.counts)
    order: list[int] = []
    lengths: list[int] = []
    occurrences: list[list[int]] = []
    for found in connection.execute(sql.WORDS_OF, {"rids": array(rids)}):
        text = " ".join(found[1:last])
        tokens = text.split()
        order.append(found[0])
        lengths.append(len(tokens))
        occurrences.append([tokens.count(term) if term in text else 0 for term in terms])
    weights = idf(statistics.nodes, np.array([statistics.counts[term] for term in terms]))
    tf = np.array(occurrences, dtype=np.float64).reshape(len(order), len(terms))
    scores = saturation(tf, np.array(lengths)[:, None], statistics.average) @ weights
    return {
        rid: score for rid, score in zip(order, scores.astype(np.float32).tolist(), strict=True) if score > 0
    }
