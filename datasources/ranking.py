"""The best of many scores, for stores that score nodes themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasources.hits import Hit
from datasources.lexical import idf

MAX_TIES = 1_000  # nodes of equal score kept beyond a limit, to order them by key
LOWEST = float(np.finfo(np.float32).min)


def best_rows(
    scores: NDArray[np.floating[Any]], count: int, lowest: float = LOWEST
) -> NDArray[np.int64]:
    """Returns the rows of the greatest scores, ascending, with up to MAX_TIES that tie with the
    last.

    Rows of less than `lowest` or of minus infinity are left out.
    """
    rows = np.flatnonzero(scores >= max(lowest, LOWEST))
    if len(rows) <= count:
        return rows
    candidates = scores[rows]
    place = len(rows) - count
    least = np.partition(candidates, place)[place]
    better = rows[candidates > least]
    ties = rows[candidates == least][: count + MAX_TIES - len(better)]
    return np.sort(np.concatenate([better, ties]))


def ordered(hits: Iterable[Hit], limit: int) -> list[Hit]:
    """Returns the first hits, best first, ties by key."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.key))[:limit]


def with_rarest(rids_by_word: Mapping[str, Sequence[int]], nodes: int, limit: int) -> list[int]:
    """Returns up to about `limit` nodes: those whose words weigh most by BM25's idf.

    `nodes` is the number of nodes of which the words were looked for.
    """
    rids, place = np.unique(np.concatenate(list(rids_by_word.values())), return_inverse=True)
    sizes = np.array([len(of_word) for of_word in rids_by_word.values()])
    weights = np.bincount(place, np.repeat(idf(nodes, sizes), sizes)).astype(np.float64, copy=False)
    chosen: list[int] = rids[best_rows(weights, limit)].tolist()
    return chosen
