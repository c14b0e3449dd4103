"""Searches a graph by one exact statement, or by the View and the vector index.

A small graph is searched exactly. In a graph that is too large to be read for every question, the
View finds words. A statement whose index is missing or not trained is not tried for a while, and
the next simpler one is used: vector index and View, View and exact cosine, all exact. The same
happens if the vector index finds fewer nodes than were asked for. The facts learnt about the server
and its graphs are shared by the sources of a database.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import NO_INDEX, ServerRefused
from datasources.arango.graph_documents import encoded, read_links, vectors_key
from datasources.arango.large_changes import finish_change
from datasources.arango.statements import Statement
from datasources.arango.statements_search import SEARCH, SEARCH_NEAR, SEARCH_VIEW
from datasources.arango.type_words import NO_WORDS, SeenTypes, TypeWords
from datasources.errors import DatabaseUnprepared, GraphNotFound
from datasources.everywhere import SEARCHES
from datasources.hits import Hit
from datasources.links import TypedLink
from datasources.search import FURTHER_SHARE, HitLinks, SearchHits, SearchRequest, keys_to_name
from datasources.text import LABEL_FIELDS, names_of
from datasources.types import ROOT_WORKSPACE

EXACT_NODES = 5_000  # graphs of up to this many nodes are searched exactly
KNOWN_FOR_S = 60.0  # how long a graph counts as large, and a statement as without its index
MAX_KNOWN = 2_000  # graphs and statements of which this is remembered
NO_LIMIT = 1_000_000_000
MAX_VIEW_TERMS = 64
CANDIDATES = 400  # best nodes of the View that are read, so that equal scores come by key


@dataclass(slots=True)
class SharedState:
    """The connection of a database and the facts learnt about its server and graphs.

    `exact` is the maximum number of nodes of a graph that is searched exactly; no limit on an old
    server. `indexed_dim` is the length of vectors in the vector indexes, None without one.
    `by_code_point`: the server orders text as Python does, so that it can cut pages. `known_until`
    says until when a graph (workspace and key) counts as large, or a statement as without its
    index.
    """

    connection: ArangoConnection
    exact: int = EXACT_NODES
    indexed_dim: int | None = None
    by_code_point: bool = True
    seen_types: SeenTypes = field(default_factory=SeenTypes)
    known_until: dict[Any, float] = field(default_factory=dict[Any, float])

    async def ask(
        self, statement: Statement, workspace: str, graph_key: str, **values: Any
    ) -> dict[str, Any]:
        """Runs a statement on a graph and returns its one row.

        The names of the graph are bound here; `prefix` is the length of the text before local keys.
        Raises: GraphNotFound, WriteConflict.
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
        """Returns True if a graph counts as large, or a statement as without its index."""
        return time.monotonic() < self.known_until.get(what, 0.0)

    def note(self, what: tuple[str, str] | Statement) -> None:
        if len(self.known_until) > MAX_KNOWN:
            self.known_until.clear()
        self.known_until[what] = time.monotonic() + KNOWN_FOR_S


@dataclass(frozen=True, slots=True)
class SearchWords:
    """The words to search, and the words of the node types, which their nodes inherit."""

    terms: Sequence[str]
    types: Mapping[str, TypeWords]


def search_values(asked: SearchRequest) -> dict[str, Any]:
    """Returns the values that every search statement binds besides the graph and the words."""
    model, vector = asked.vector or ("", np.zeros(0, np.float32))
    usable = vector.ndim == 1 and vector.size > 0 and bool(np.isfinite(vector).all())
    return {
        "vector": vector.tolist() if usable else None,  # None: no vector is similar
        "model": model,
        "least": asked.min_score,
        "limit": max(0, asked.limit),
    }


async def search(
    state: SharedState, workspace: str, graph_key: str, asked: SearchRequest, words: SearchWords
) -> SearchHits:
    """Answers a search of one graph. Raises: GraphNotFound, SourceError."""
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
            return _hits(row, graph_key, asked)
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
                return _hits(row, graph_key, asked)
    return _hits(await exactly(NO_LIMIT), graph_key, asked)


def exact_words(words: SearchWords) -> dict[str, Any]:
    """Returns the words as statements without an index bind them."""
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


def _hits(row: Mapping[str, Any], graph_key: str, asked: SearchRequest) -> SearchHits:
    """Returns the hits of a statement, which searches both fields, for those asked for."""
    all_text, all_names, vector, name_vector = (
        [Hit(key, float(score)) for key, score, *_ in row[search]] for search in SEARCHES
    )
    text = all_text if "content" in asked.fields else []
    name = all_names if "name" in asked.fields else []
    data = {hit[0]: _named_data(*hit[3:]) for hit in (*row["name"], *row["text"])}
    named = keys_to_name(text, name) if asked.with_names else []
    hits = SearchHits(
        text=text,
        name=name,
        vector=vector if "content" in asked.fields else [],
        name_vector=name_vector if "name" in asked.fields else [],
        names={key: names_of(key, data[key]) for key in named},
        links=_links(row, graph_key, asked.links) if asked.links > 0 else None,
        nodes=row.get("total"),
    )
    return hits.or_first(row["first"])


def _named_data(labels: Sequence[Any], aliases: Any) -> Mapping[str, Any]:
    """Returns the data of a node that its names are made of."""
    return dict(zip(LABEL_FIELDS, labels, strict=True)) | {"aliases": aliases}


def _links(row: Mapping[str, Any], graph_key: str, limit: int) -> HitLinks:
    links = read_links(row["links"], graph_key)
    labels = (link[4] or "" for link in row["links"])
    return HitLinks(
        links=[TypedLink(*link, label) for link, label in zip(links, labels, strict=True)],
        further=read_links(row["further"], graph_key),
        is_cut=len(links) >= limit,
    )
