"""Finds one edge of a graph without reading all of them."""

from __future__ import annotations

from typing import Final

from datasources.base import GraphDataSource
from datasources.types import Edge

_PAGE: Final = 50


async def edge_by_key(source: GraphDataSource, graph_key: str, key: str) -> Edge | None:
    """Return an edge, or None: edges come in the order of their keys, and a key stands behind its beginning.

    Raises: GraphNotFound, SourceError.
    """
    after = key[:-1]
    while True:
        page = await source.get_edges(graph_key, after=after, limit=_PAGE)
        for edge in page:
            if edge.key == key:
                return edge
        if len(page) < _PAGE or page[-1].key > key:
            return None
        after = page[-1].key
