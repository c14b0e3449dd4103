"""Questions to the search statements and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from datasources.arango.keys import end_key
from datasources.arango.words import lent_by, lent_by_none, terms_of
from datasources.batch_reads import SearchedAtOnce
from datasources.types import Hit, Link, NodeTypeConfig, Vector


@dataclass(frozen=True, kw_only=True)
class SearchAsked:
    """What to look for. `links` edges at the hits are wanted, and `first` nodes where nothing is found."""

    query: str = ""
    vector: Vector | None = None
    model: str = ""
    limit: int = 0
    min_score: float = 0.0
    links: int = 0
    first: int = 0

    @cached_property
    def terms(self) -> list[str]:
        return terms_of(self.query) if self.limit > 0 else []

    @property
    def numbers(self) -> list[float] | None:
        """The vector as it is bound, None for one that nothing can be compared with."""
        vector = self.vector
        if vector is None or vector.ndim != 1 or not vector.size or not np.isfinite(vector).all():
            return None
        return vector.tolist()


def values_of(
    asked: SearchAsked,
    graph_key: str,
    types: Mapping[str, NodeTypeConfig],
    *,
    most_terms: int | None = None,
) -> dict[str, Any]:
    """Return what the statement binds besides the graph."""
    terms = asked.terms[:most_terms]
    return {
        "prefix": len(graph_key) + 1,
        "terms": terms,
        "places": list(range(len(terms))),
        "lent": lent_by(types, terms) if terms else {},
        "unlent": lent_by_none(terms),
        "vector": asked.numbers,
        "model": asked.model,
        "least": asked.min_score,
        "limit": max(0, asked.limit),
        "links": asked.links,
        "first": asked.first,
    }


def read_found(row: Mapping[str, Any], graph_key: str) -> SearchedAtOnce:
    return SearchedAtOnce(
        text=read_hits(row["content"]),
        name=read_hits(row["name"]),
        vector=read_hits(row["vector"]),
        name_vector=read_hits(row["nameVector"]),
        links=read_links(row["links"], graph_key),
        first=row["first"],
    )


def read_hits(rows: Sequence[Sequence[Any]]) -> list[Hit]:
    """Return the hits of rows of `[key, score, …]`."""
    return [Hit(row[0], float(row[1])) for row in rows]


def read_links(rows: Sequence[Sequence[Any]], graph_key: str) -> list[Link]:
    """Return the links of rows of `[_from, _to, source, target]`."""
    fields: tuple[str, ...] = ("_from", "_to", "source", "target")
    edges: list[dict[str, Any]] = [dict(zip(fields, row, strict=True)) for row in rows]
    return [Link(end_key(edge, "_from", graph_key), end_key(edge, "_to", graph_key)) for edge in edges]
