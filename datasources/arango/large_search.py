"""Search in graphs too large to be read for every question: by View and vector index, else exactly.

What the View gives is scored here, by the same formula and this graph's statistics as everywhere.
A statement whose index is missing or not trained is left alone for a while, and the next simpler
one answers: vector index and View, View and exact cosine, all exact.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from datasources.arango.engine import Engine, Name, Sums
from datasources.arango.errors import NO_INDEX, ServerRefused
from datasources.arango.searching import SearchAsked, read_hits, read_links, values_of
from datasources.arango.statements import Statement
from datasources.arango.statements_large import SEARCH_NEAR, SEARCH_VIEW, TEXT_SUMS
from datasources.arango.words import TypeWords
from datasources.batch_reads import SearchedAtOnce
from datasources.errors import DatabaseUnprepared
from datasources.lexical import best_hits, idf, saturation
from datasources.types import Hit, NodeTypeConfig

MAX_TERMS = 64
CANDIDATES = 400
Numbers = NDArray[np.float64]


class Ask(Protocol):
    """How a source runs a statement on a graph and returns its one row."""

    def __call__(self, statement: Statement, graph_key: str, **values: Any) -> Awaitable[dict[str, Any]]: ...


async def search_large(
    engine: Engine, ask: Ask, name: Name, asked: SearchAsked, types: Mapping[str, NodeTypeConfig]
) -> SearchedAtOnce | None:
    """Answer by View and vector index; None when neither can be used. Raises: GraphNotFound."""
    graph_key = name[1]
    values = _values(asked, graph_key, types)
    for statement in _choices(engine, asked):
        try:
            row, sums = await asyncio.gather(ask(statement, graph_key, **values), _sums(engine, ask, name))
        except (ServerRefused, DatabaseUnprepared) as exc:
            if exc.code not in NO_INDEX:
                raise
            engine.mark_unavailable(statement)
            continue
        engine.learn_size(name, sum(amount for *_, amount, _, _ in sums.rows))
        return _scored(row, graph_key, asked, sums, types)
    return None


def _choices(engine: Engine, asked: SearchAsked) -> list[Statement]:
    numbers = asked.numbers
    fits = numbers is not None and len(numbers) == engine.indexed_dim
    choices = [SEARCH_NEAR, SEARCH_VIEW] if fits and asked.limit > 0 else [SEARCH_VIEW]
    return [statement for statement in choices if engine.is_usable(statement)]


def _values(asked: SearchAsked, graph_key: str, types: Mapping[str, NodeTypeConfig]) -> dict[str, Any]:
    values = values_of(asked, graph_key, types, most_terms=MAX_TERMS)
    terms: Sequence[str] = values["terms"]
    words = {type_name: TypeWords.of(config) for type_name, config in types.items()}
    in_name = [[t for t, w in words.items() if w.name[term]] for term in terms]
    to_all = [[t for t, w in words.items() if w.name[term] or w.description[term]] for term in terms]
    to_bare = _bare_lenders(terms, types)
    return {
        **values,
        "lenders": sorted({type_name for names in (*to_all, *to_bare) for type_name in names}),
        "lendersOf": to_all,
        "bareLendersOf": to_bare,
        "nameLendersOf": in_name,
        "candidates": max(CANDIDATES, asked.limit),
    }


def _bare_lenders(terms: Sequence[str], types: Mapping[str, NodeTypeConfig]) -> list[list[str]]:
    """Return for each term the types that lend it by their code alone, and so only to nodes without code."""
    words = {type_name: TypeWords.of(config) for type_name, config in types.items()}
    return [
        [t for t, w in words.items() if w.process[term] and not (w.name[term] or w.description[term])]
        for term in terms
    ]


async def _sums(engine: Engine, ask: Ask, name: Name) -> Sums:
    known = engine.sums.get(name)
    now = time.monotonic()
    if known is not None and now - known.at < engine.limits.sums_fresh_s:
        return known
    row = await ask(TEXT_SUMS, name[1])
    rows = ((r[0], r[1], r[2], r[3], r[4] or 0, r[5] or 0) for r in row["sums"])
    sums = Sums(rows=tuple(rows), at=now)
    engine.learn_sums(name, sums)
    return sums


def _scored(
    row: Mapping[str, Any],
    graph_key: str,
    asked: SearchAsked,
    sums: Sums,
    types: Mapping[str, NodeTypeConfig],
) -> SearchedAtOnce:
    total, length, name_length = _totals(sums, types)
    rows = sorted(row["rows"], key=lambda r: r["key"])
    having = _having(row, _bare_lenders(asked.terms[:MAX_TERMS], types), sums)
    text = _bm25(rows, "content", "length", having, total, length, asked.limit)
    name = _bm25(rows, "name", "nameLength", row["nameHaving"], total, name_length, asked.limit)
    return SearchedAtOnce(
        text=text,
        name=name,
        vector=read_hits(row["vector"]),
        name_vector=read_hits(row["nameVector"]),
        links=read_links(row["links"], graph_key),
        first=row["first"],
    )


def _having(row: Mapping[str, Any], bare_lenders: Sequence[Sequence[str]], sums: Sums) -> list[int]:
    """Return in how many nodes each term occurs: of its own or a type's words, or lent to a bare node."""
    bare = Counter[str]()
    for type_name, _, is_bare, amount, _, _ in sums.rows:
        bare[type_name] += amount if is_bare else 0
    counted = zip(row["having"], row["bareHaving"], bare_lenders, strict=True)
    # Numbers of two moments: a node deleted between them must not count less than none.
    return [had + max(0, sum(bare[t] for t in lenders) - anyway) for had, anyway, lenders in counted]


def _totals(sums: Sums, types: Mapping[str, NodeTypeConfig]) -> tuple[int, int, int]:
    """Return how many nodes there are, and how many words they have with those of their types."""
    nodes = words = name_words = 0
    for type_name, unnamed, bare, amount, length, name_length in sums.rows:
        config = types.get(type_name)
        more = {} if config is None else TypeWords.of(config).variant((), unnamed=unnamed, bare=bare)
        nodes += amount
        words += length + amount * more.get("contentLength", 0)
        name_words += name_length + amount * more.get("nameLength", 0)
    return nodes, words, name_words


def _bm25(
    rows: Sequence[Mapping[str, Any]],
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
