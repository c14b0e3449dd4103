"""Questions to the search statements, and their answers: one exact statement, or View and vector index.

A graph of few nodes is searched exactly. In one that is too large to be read for every question the View
finds words, and what it gives is scored here, by the same formula and this graph's statistics as everywhere.
A statement whose index is missing or not trained is left alone for a while, and the next simpler one
answers: vector index and View, View and exact cosine, all exact.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from datasources.arango.errors import NO_INDEX, ServerRefused
from datasources.arango.keys import end_key
from datasources.arango.shared_state import GraphName, SharedState, TextSums
from datasources.arango.statements import Statement
from datasources.arango.statements_search import SEARCH, SEARCH_NEAR, SEARCH_VIEW, TEXT_SUMS
from datasources.arango.words import NO_WORDS, TypeWords, inherited_terms, terms_of
from datasources.base import BatchHits
from datasources.errors import DatabaseUnprepared
from datasources.lexical import best_hits, idf, saturation
from datasources.types import Hit, Link, NodeTypeConfig, Vector

MAX_VIEW_TERMS = 64
CANDIDATES = 400
Numbers = NDArray[np.float64]
Types = Mapping[str, NodeTypeConfig]
Row = Mapping[str, Any]


class Ask(Protocol):
    """Runs a statement on a graph and returns its one row. Raises: GraphNotFound."""

    def __call__(self, statement: Statement, graph_key: str, **values: Any) -> Awaitable[dict[str, Any]]: ...


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
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

    def values(self, graph_key: str, types: Types, terms: Sequence[str]) -> dict[str, Any]:
        """Return what every search statement binds besides the graph."""
        return {
            "prefix": len(graph_key) + 1,
            "terms": terms,
            "places": list(range(len(terms))),
            "inherited": inherited_terms(types, terms),
            "unknown": NO_WORDS.inherited(terms),
            "vector": self.numbers,
            "model": self.model,
            "least": self.min_score,
            "limit": max(0, self.limit),
            "links": self.links,
            "first": self.first,
        }


async def search(
    state: SharedState, ask: Ask, name: GraphName, asked: SearchRequest, types: Types
) -> BatchHits:
    """Answer the searches of a retrieval. Raises: GraphNotFound, SourceError."""
    graph_key = name[1]
    if state.is_large(name):
        found = await _search_large(state, ask, name, asked, types)
        if found is not None:
            return found
    row = await ask(SEARCH, graph_key, **asked.values(graph_key, types, asked.terms))
    if row["total"]:  # counted where there are words to look for
        state.learn(name, row["total"])
    return _found(row, graph_key, text=read_hits(row["content"]), name=read_hits(row["name"]))


def _found(row: Row, graph_key: str, *, text: list[Hit], name: list[Hit]) -> BatchHits:
    return BatchHits(
        text=text,
        name=name,
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


async def _search_large(
    state: SharedState, ask: Ask, name: GraphName, asked: SearchRequest, types: Types
) -> BatchHits | None:
    """Answer by View and vector index; None when neither can be used."""
    graph_key, terms = name[1], asked.terms[:MAX_VIEW_TERMS]
    by_code = _types_by_code(terms, types)
    values = {**asked.values(graph_key, types, terms), **_matching_types(terms, types, by_code)}
    values["candidates"] = max(CANDIDATES, asked.limit)
    for statement in _choices(state, asked):
        try:
            row, sums = await asyncio.gather(ask(statement, graph_key, **values), _sums(state, ask, name))
        except (ServerRefused, DatabaseUnprepared) as exc:
            if exc.code not in NO_INDEX:
                raise
            state.mark_unavailable(statement)
            continue
        state.learn(name, sum(amount for *_, amount, _, _ in sums.rows), sums)
        total, length, name_length = _totals(sums, types)
        having = _having(row, by_code, sums)
        rows = sorted(row["rows"], key=lambda r: r["key"])
        by_text = _bm25(rows, "content", "length", having, total, length, asked.limit)
        by_name = _bm25(rows, "name", "nameLength", row["nameHaving"], total, name_length, asked.limit)
        return _found(row, graph_key, text=by_text, name=by_name)
    return None


def _choices(state: SharedState, asked: SearchRequest) -> list[Statement]:
    numbers = asked.numbers
    fits = numbers is not None and len(numbers) == state.indexed_dim
    choices = [SEARCH_NEAR, SEARCH_VIEW] if fits and asked.limit > 0 else [SEARCH_VIEW]
    return [statement for statement in choices if state.is_usable(statement)]


def _types_by_code(terms: Sequence[str], types: Types) -> list[list[str]]:
    """Return for each term the types that have it in their code alone: only nodes without code inherit it."""
    words = {type_name: TypeWords.of(config) for type_name, config in types.items()}
    return [
        [t for t, w in words.items() if w.process[term] and not (w.name[term] or w.description[term])]
        for term in terms
    ]


def _matching_types(
    terms: Sequence[str], types: Types, by_code: Sequence[Sequence[str]]
) -> dict[str, Sequence[Any]]:
    """Return the type names that a statement for large graphs binds, for each term and altogether."""
    words = {type_name: TypeWords.of(config) for type_name, config in types.items()}
    by_text = [[t for t, w in words.items() if w.name[term] or w.description[term]] for term in terms]
    return {
        "matchingTypes": sorted({type_name for names in (*by_text, *by_code) for type_name in names}),
        "typesOf": by_text,
        "codeTypesOf": by_code,
        "nameTypesOf": [[t for t, w in words.items() if w.name[term]] for term in terms],
    }


async def _sums(state: SharedState, ask: Ask, name: GraphName) -> TextSums:
    known, now = state.sums.get(name), time.monotonic()
    if known is not None and now - known.at < state.limits.sums_fresh_s:
        return known
    row = await ask(TEXT_SUMS, name[1])
    return TextSums(tuple((r[0], r[1], r[2], r[3], r[4] or 0, r[5] or 0) for r in row["rows"]), now)


def _having(row: Row, by_code: Sequence[Sequence[str]], sums: TextSums) -> list[int]:
    """Return in how many nodes each term occurs: in their own words or those that they inherit."""
    without_code = Counter[str]()
    for type_name, _, codeless, amount, _, _ in sums.rows:
        without_code[type_name] += amount if codeless else 0
    counted = zip(row["having"], row["codeHaving"], by_code, strict=True)
    # Numbers of two moments: a node deleted between them must not count less than none.
    return [had + max(0, sum(without_code[t] for t in names) - anyway) for had, anyway, names in counted]


def _totals(sums: TextSums, types: Types) -> tuple[int, int, int]:
    """Return how many nodes there are, and how many words they have with those that they inherit."""
    nodes = words = name_words = 0
    for type_name, nameless, codeless, amount, length, name_length in sums.rows:
        config = types.get(type_name)
        of_type = NO_WORDS if config is None else TypeWords.of(config)
        more = of_type.variant((), inherits_name=nameless, inherits_code=codeless)
        nodes += amount
        words += length + amount * more["contentLength"]
        name_words += name_length + amount * more["nameLength"]
    return nodes, words, name_words


def _bm25(
    rows: Sequence[Row],
    counts: str,
    length: str,
    having: Sequence[int],
    total: int,
    words: int,
    limit: int,
) -> list[Hit]:
    if not rows or limit <= 0:
        return []
    tf: Numbers = np.array([row[counts] for row in rows], dtype=np.float64)
    lengths: Numbers = np.array([row[length] for row in rows], dtype=np.float64)
    weights = idf(max(total, max(having, default=0)), np.array(having))
    scores = (saturation(tf, lengths[:, None], words / max(1, total)) @ weights).astype(np.float32)
    keys = [row["key"] for row in rows]
    return best_hits(keys, scores, limit, candidates=np.flatnonzero(scores > 0))
