"""Signal: the words of the question in key, name and type of a node, by BM25."""

from __future__ import annotations

from collections.abc import Sequence

from datasources.hits import Hit
from datasources.search import SearchHits


def names(hits: SearchHits, limit: int) -> Sequence[Hit]:  # noqa: ARG001 - as all signals of hits
    """Returns the hits of words in names, best first. `fuse` weights them by those of all text."""
    return hits.name
