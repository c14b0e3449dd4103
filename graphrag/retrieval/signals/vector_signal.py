"""Signal: the meaning of the question and of all text of a node, by the cosine of their vectors.

With e5, bge and gte even unrelated texts have a cosine of about .75: only a small part of the score
tells nodes apart. The score of an ordinary node is then subtracted, but only if it is at least four
fifths of the best score: with e5-small it is .89 of it or more in 99 of 100 questions, with the
packaged model, whose cosines lose by it, .77 or less. On 146 annotated questions (e5-small, 4-bit)
recall@5/recall@10/MRR of hybrid retrieval are .802/.939/.778 with it and .787/.935/.762 without.

Source: Mu and Viswanath, "All-but-the-Top" (ICLR 2018) on the mean that embeddings have in common.
"""

from __future__ import annotations

from collections.abc import Sequence

from datasources.hits import Hit
from datasources.search import SearchHits

CROWDED = 0.8  # share of the best score from which an ordinary node's score is subtracted
LITTLE = 1e-3  # share of its score that a node below the ordinary score keeps, to keep its rank


def vectors(hits: SearchHits, limit: int) -> Sequence[Hit]:
    """Returns the nearest nodes by all their text, best first; `limit` is that of the search."""
    return apart(hits.vector, limit)


def apart(hits: Sequence[Hit], limit: int) -> Sequence[Hit]:
    """Returns hits scored by their distance from an ordinary node, best first.

    An ordinary node is the last hit of a search that was cut at its `limit`, else the median.
    """
    if not hits:
        return hits
    ordinary = hits[-1 if len(hits) >= limit else len(hits) // 2].score
    if ordinary <= CROWDED * hits[0].score or ordinary >= 1:
        return hits
    return [
        Hit(key, max((score - ordinary) / (1 - ordinary), LITTLE * score)) for key, score in hits
    ]
