"""Signal: the words of the question in all text of a node, by BM25."""

from __future__ import annotations

from collections.abc import Sequence

from datasources.hits import Hit
from datasources.search import SearchHits


def words(hits: SearchHits, limit: int) -> Sequence[Hit]:  # noqa: ARG001 - as all signals of hits
    """Returns the hits of words in all text, best first."""
    return hits.text
