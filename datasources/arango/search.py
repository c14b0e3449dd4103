"""Questions to the search statements, and their answers: one exact statement, or
View and vector index.

A graph of few nodes is searched exactly; in one that is too large to be read for every question the
View finds words. A statement whose index is missing or not trained is left alone for a while, and
the next simpler one answers: vector index and View, View and exact cosine, all exact; so it does
where the vector index finds fewer nodes than were asked for. What was learnt of server and graphs
is shared by the sources of a database.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import NO_INDEX, ServerRefused
from datasources.arango.graph_documents import NO_WORDS, TypeWords, encoded, read_links, vectors_key
from datasources.arango.large_changes import finish_change
from datasources.arango.statements import Statement
from datasources.arango.statements_search import SEARCH, SEARCH_NEAR, SEARCH_VIEW
from datasources.batches import FURTHER_SHARE, BatchHits, BatchRequest
from datasources.errors import DatabaseUnprepared, GraphNotFound
from datasources.everywhere import SEARCHES
from datasources.hits import Hit
from datasources.text import called
from datasources.types import ROOT_WORKSPACE, NodeTypeConfig

EXACT_NODES = 5_000
"""Graphs of so many nodes are searched exactly."""

KNOWN_FOR_S = 60.0
"""So long a graph is taken for large, and a statement whose index is missing or not trained
is not tried.
"""

MAX_KNOWN = 2_000
NO_LIMIT = 1_000_000_000
MAX_VIEW_TERMS = 64
CANDIDATES = 400
"""So many nodes of the View's best are looked at, of which those of equal scores come by key."""


@dataclass(slots=True)
class SharedState:
    """`exact` is the most nodes of a graph that is searched exactly; without a limit on
    an old server.

    `indexed_dim` is the length that the vector indexes take, None without one. `by_code_point`: the
    server orders text as Python does, so that it can cut pages. `seen_types` says when a graph of a
    workspace was read, and the types that were visible then; `known_until`, how long what was
    learnt of a graph (workspace and key: it is large) or a statement (its index is missing) is
    taken for true.
    """

    connection: ArangoConnection
    exact: int = EXACT_NODES
    indexed_dim: int | None = None
    by_code_point: bool = True
    seen_types: dict[str, tuple[float, Mapping[str, NodeTypeConfig]]] = field(
        default_factory=dict[str, tuple[float, Mapping[str, NodeTypeConfig]]]
    )
    known_until: dict[Any, float] = field(default_factory=dict[Any, float])

    async def ask(
        self, statement: Statement, workspace: str, graph_key: str, **values: Any
    ) -> dict[str, Any]:
        """Run a statement on a graph and return its one row. Raises: GraphNotFound, WriteConflict.

        What it binds of the graph's names is known here; `prefix` is the length of what
        precedes local keys.
        """
        names: dict[str, Any] = {
            "graph": encoded(graph_key),
            "graphKey": graph_key,
            "prefix": len(graph_key) + 1,
            "vectorsKey": vectors_key(graph_key),
            "workspace": workspace,
            "workspaces": [workspace, ROOT_WORKSPACE],
        }
        bound = {name: value for name, value in names.items() if name in statement.values}
        rows = await self.connection.query(statement, **bound, **values)
        is_found = bool(rows) and rows[0].get("found")
        if not is_found and await finish_change(self.connection, workspace, graph_key):
            rows = await self.connection.query(statement, **bound, **values)
            is_found = bool(rows) and rows[0].get("found")
        if not is_found:
            raise GraphNotFound(graph_key=graph_key)
        return rows[0]

    def is_noted(self, what: tuple[str, str] | Statement) -> bool:
        """Say whether a graph was large, or a statement without its index, a moment ago."""
        return time.monotonic() < self.known_until.get(what, 0.0)

    def note(self, what: tuple[str, str] | Statement) -> None:
        if len(self.known_until) > MAX_KNOWN:
            self.known_until.clear()
        self.known_until[what] = time.monotonic() + KNOWN_FOR_S


@dataclass(frozen=True, slots=True)
class SearchWords:
    """The words that are looked for, and those of the node types, which their nodes inherit."""

    terms: Sequence[str]
    types: Mapping[str, TypeWords]


def search_values(asked: BatchRequest) -> dict[str, Any]:
    """Return what every search statement binds besides the graph and the words."""
    model, vector = asked.vector or ("", np.zeros(0, np.float32))
    usable = vector.ndim == 1 and vector.size > 0 and bool(np.isfinite(vector).all())
    return {
        "vector": vector.tolist() if usable else None,  # None: nothing can be compared with it
        "model": model,
        "least": asked.min_score,
        "limit": max(0, asked.limit),
    }


async def search(
    state: SharedState, workspace: str, graph_key: str, asked: BatchRequest, words: SearchWords
) -> BatchHits:
    """Answer the searches of a retrieval. Raises: GraphNotFound, SourceError."""
    name = workspace, graph_key
    values: dict[str, Any] = search_values(asked) | {
        "links": asked.links,
        "next": max(0, asked.limit) // FURTHER_SHARE,
        "enough": asked.max_degree + 1,
        "first": asked.first,
    }

    async def exactly(most: int) -> Mapping[str, Any]:
        return await state.ask(SEARCH, *name, **values, **exact_words(words), most=most)

    fits = values["vector"] is not None and len(values["vector"]) == state.indexed_dim
    large = [SEARCH_NEAR, SEARCH_VIEW] if fits and asked.limit > 0 else [SEARCH_VIEW]
    choices = [statement for statement in large if not state.is_noted(statement)]
    if choices and not state.is_noted(name):
        row = await exactly(state.exact + 1)
        if row["total"] <= state.exact:
            return _found(row, graph_key)
        state.note(name)
    for statement in choices:
        try:
            row = await state.ask(statement, *name, **values, **_view_words(words, asked.limit))
        except (ServerRefused, DatabaseUnprepared) as exc:
            if exc.code not in NO_INDEX:
                raise
            state.note(statement)
        else:
            if not row["short"]:
                return _found(row, graph_key)
    return _found(await exactly(NO_LIMIT), graph_key)


def exact_words(words: SearchWords) -> dict[str, Any]:
    """Return what statements that need no index bind of the words."""
    terms = words.terms
    return {
        "terms": terms,
        "places": list(range(len(terms))),
        "inherited": {
            type_name: of_type.inherited(terms) for type_name, of_type in words.types.items()
        },
        "unknown": NO_WORDS.inherited(terms),
    }


def _view_words(words: SearchWords, limit: int) -> dict[str, Any]:
    terms = words.terms[:MAX_VIEW_TERMS]
    types = words.types.items()
    by_name, by_text, by_code = (
        {name for name, of_type in types if any(of_type.parts[part][term] for term in terms)}
        for part in ("name", "description", "process")
    )
    return {
        "terms": terms,
        "nameTypes": sorted(by_name),
        "types": sorted(by_name | by_text),
        "codeTypes": sorted(by_code - by_name - by_text),
        "candidates": max(CANDIDATES, limit),
    }


def _found(row: Mapping[str, Any], graph_key: str) -> BatchHits:
    return BatchHits(
        **{of: [Hit(key, float(score)) for key, score, *_ in row[of]] for of in SEARCHES},
        links=read_links(row["links"], graph_key),
        labels=[link[4] or "" for link in row["links"]],
        names={hit[0]: called(hit[3] or hit[0], hit[4]) for hit in (*row["name"], *row["text"])},
        further=read_links(row["further"], graph_key),
        first=row["first"],
    )
