"""Signal: the meaning of the question and of the name of a node, by the cosine of their vectors."""

from __future__ import annotations

from collections.abc import Sequence

from datasources.hits import Hit
from datasources.search import SearchHits
from graphrag.retrieval.signals.vector_signal import apart


def name_vectors(hits: SearchHits, limit: int) -> Sequence[Hit]:
    """Returns the nearest nodes by their names, best first.

    `fuse` weights them by the hits of all text.
    """
    return apart(hits.name_vector, limit)
