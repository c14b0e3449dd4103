"""Questions to the search statements, and their answers: one exact statement, or View and vector index.

A graph of few nodes is searched exactly; in one that is too large to be read for every question the View
finds words. A statement whose index is missing or not trained is left alone for a while, and the next simpler
one answers: vector index and View, View and exact cosine, all exact. What was learnt of server and graphs is
shared by the sources of a database.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import NO_INDEX, ServerRefused
from datasources.arango.graph_documents import end_key
from datasources.arango.statements import Statement
from datasources.arango.statements_search import SEARCH, SEARCH_NEAR, SEARCH_VIEW
from datasources.arango.words import NO_WORDS, TypeWords, terms_of
from datasources.base import FURTHER_SHARE, BatchHits
from datasources.errors import DatabaseUnprepared
from datasources.types import Hit, Link, NodeTypeConfig, Vector

GraphName = tuple[str, str]
"""A workspace and a graph's key."""

SeenTypes = tuple[float, Mapping[str, NodeTypeConfig]]
"""When a graph was read, and the types that its workspace saw then."""

EXACT_NODES = 5_000
"""Graphs of so many nodes are searched exactly."""

KNOWN_FOR_S = 60.0
"""So long a graph is taken for large, and a statement whose index is missing or not trained is not tried."""

MAX_KNOWN = 2_000
NO_LIMIT = 1_000_000_000
MAX_VIEW_TERMS = 64
CANDIDATES = 400
"""So many nodes of the View's best are looked at, of which those of equal scores come by key."""


@dataclass(slots=True)
class SharedState:
    """`exact` is the most nodes of a graph that is searched exactly; without a limit on an old server.

    `indexed_dim` is the length that the vector indexes take, None without one. `by_code_point`: the server
    orders text as Python does, so that it can cut pages.
    """

    connection: ArangoConnection
    exact: int = EXACT_NODES
    indexed_dim: int | None = None
    by_code_point: bool = True
    seen_types: dict[str, SeenTypes] = field(default_factory=dict[str, SeenTypes])
    known_until: dict[Any, float] = field(default_factory=dict[Any, float])

    def is_noted(self, what: GraphName | Statement) -> bool:
        """Say whether a graph was large, or a statement without its index, a moment ago."""
        return time.monotonic() < self.known_until.get(what, 0.0)

    def note(self, what: GraphName | Statement) -> None:
        if len(self.known_until) > MAX_KNOWN:
            self.known_until.clear()
        self.known_until[what] = time.monotonic() + KNOWN_FOR_S


class Ask(Protocol):
    """Runs a statement on a graph and returns its one row. Raises: GraphNotFound."""

    def __call__(self, statement: Statement, graph_key: str, **values: Any) -> Awaitable[dict[str, Any]]: ...


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """What to look for. `links` edges at the hits are wanted, those of what they lead to up to
    `max_degree`, and `first` nodes where nothing is found."""

    query: str = ""
    vector: Vector | None = None
    model: str = ""
    limit: int = 0
    min_score: float = 0.0
    links: int = 0
    max_degree: int = 0
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

    def values(self, graph_key: str) -> dict[str, Any]:
        """Return what every search statement binds besides the graph and the words."""
        return {
            "prefix": len(graph_key) + 1,
            "vector": self.numbers,
            "model": self.model,
            "least": self.min_score,
            "limit": max(0, self.limit),
            "links": self.links,
            "next": max(0, self.limit) // FURTHER_SHARE,
            "enough": self.max_degree + 1,
            "first": self.first,
        }


async def search(
    state: SharedState, ask: Ask, name: GraphName, asked: SearchRequest, types: Mapping[str, NodeTypeConfig]
) -> BatchHits:
    """Answer the searches of a retrieval. Raises: GraphNotFound, SourceError."""
    graph_key, values = name[1], asked.values(name[1])
    words = {type_name: TypeWords.of(config) for type_name, config in types.items()} if asked.terms else {}

    async def exactly(most: int) -> Mapping[str, Any]:
        return await ask(SEARCH, graph_key, **values, **_exact_words(asked.terms, words), most=most)

    choices = _choices(state, asked)
    if choices and not state.is_noted(name):
        row = await exactly(state.exact + 1)
        if row["total"] <= state.exact:
            return _found(row, graph_key)
        state.note(name)
    for statement in choices:
        try:
            row = await ask(statement, graph_key, **values, **_view_words(asked, words))
        except (ServerRefused, DatabaseUnprepared) as exc:
            if exc.code not in NO_INDEX:
                raise
            state.note(statement)
        else:
            return _found(row, graph_key)
    return _found(await exactly(NO_LIMIT), graph_key)


def _choices(state: SharedState, asked: SearchRequest) -> list[Statement]:
    """Return the statements for a large graph that may be used, the best first."""
    numbers = asked.numbers
    fits = numbers is not None and len(numbers) == state.indexed_dim
    choices = [SEARCH_NEAR, SEARCH_VIEW] if fits and asked.limit > 0 else [SEARCH_VIEW]
    return [statement for statement in choices if not state.is_noted(statement)]


def _exact_words(terms: Sequence[str], types: Mapping[str, TypeWords]) -> dict[str, Any]:
    return {
        "terms": terms,
        "places": list(range(len(terms))),
        "inherited": {type_name: words.inherited(terms) for type_name, words in types.items()},
        "unknown": NO_WORDS.inherited(terms),
    }


def _view_words(asked: SearchRequest, types: Mapping[str, TypeWords]) -> dict[str, Any]:
    terms = asked.terms[:MAX_VIEW_TERMS]
    by_name = [name for name, words in types.items() if any(words.name[term] for term in terms)]
    by_text = [name for name, words in types.items() if any(words.description[term] for term in terms)]
    by_code = [name for name, words in types.items() if any(words.process[term] for term in terms)]
    return {
        "terms": terms,
        "nameTypes": by_name,
        "types": sorted({*by_name, *by_text}),
        "codeTypes": sorted({*by_code} - {*by_name, *by_text}),
        "candidates": max(CANDIDATES, asked.limit),
    }


def _found(row: Mapping[str, Any], graph_key: str) -> BatchHits:
    return BatchHits(
        text=_hits(row["content"]),
        name=_hits(row["name"]),
        vector=_hits(row["vector"]),
        name_vector=_hits(row["nameVector"]),
        links=read_links(row["links"], graph_key),
        further=read_links(row["further"], graph_key),
        first=row["first"],
    )


def _hits(rows: Sequence[Sequence[Any]]) -> list[Hit]:
    """Return the hits of rows of `[key, score, …]`."""
    return [Hit(row[0], float(row[1])) for row in rows]


def read_links(rows: Sequence[Sequence[Any]], graph_key: str) -> list[Link]:
    """Return the links of rows of `[_from, _to, source, target]`."""
    fields: tuple[str, ...] = ("_from", "_to", "source", "target")
    edges: list[dict[str, Any]] = [dict(zip(fields, row, strict=True)) for row in rows]
    return [Link(end_key(edge, "_from", graph_key), end_key(edge, "_to", graph_key)) for edge in edges]
