"""The statements that store the terms and vectors of nodes, and how many nodes have each term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from datasources.hits import NodeVector, Vector
from datasources.postgres import statements as sql
from datasources.postgres.graph_header import GraphHeader, check_text
from datasources.postgres.graph_in_tables import vector_text
from datasources.postgres.node_words import StoredWords, WordTotals
from datasources.postgres.schema import HALVES, MAX_INDEXED_DIM
from datasources.postgres.server_pool import Bound
from datasources.vectors import normalize

CHUNK = 1_000  # documents of one statement

D = TypeVar("D")


def parts(documents: Sequence[D]) -> Iterator[Sequence[D]]:
    """Splits a list into parts that one statement writes."""
    for start in range(0, len(documents), CHUNK):
        yield documents[start : start + CHUNK]


def term_puts(scope: Mapping[str, Any], words: Mapping[str, StoredWords]) -> list[Bound]:
    """Returns the statement that stores the terms of nodes for the index."""
    if not words:
        return []
    graph = scope["id"]
    terms = [
        "{" + ",".join(str(number ^ graph) for number in sorted(one.terms())) + "}"
        for one in words.values()
    ]
    return [Bound(sql.TERMS_PUT, {**scope, "keys": list(words), "terms": terms})]


def count_puts(scope: Mapping[str, Any], totals: WordTotals) -> Iterator[Bound]:
    """Yields the statements that change how many nodes have each term."""
    changed = sorted(totals.changed_terms().items())
    for part in parts(changed):
        values = {
            **scope,
            "terms": [number for number, _ in part],
            "counts": [count for _, count in part],
        }
        yield Bound(sql.TERM_COUNTS_ADD, values)
        fewer = [number for number, count in part if count < 0]
        if fewer:
            yield Bound(sql.TERM_COUNTS_CLEAN, {**scope, "terms": fewer})


def vector_puts(workspace: str, row: GraphHeader, vectors: Sequence[NodeVector]) -> Iterator[Bound]:
    """Yields the statements that store vectors; they return the keys of those stored."""
    statement = vector_put_statement(row.has_halves)
    for part in parts(vectors):
        values: dict[str, Any] = {
            "workspace": workspace,
            "id": row.id,
            "version": row.version + 1,
            "keys": [vector.key for vector in part],
            "models": [
                check_text(vector.model, collection="nodes", key=vector.key, field="model")
                for vector in part
            ],
            "hashes": [
                check_text(vector.hash, collection="nodes", key=vector.key, field="hash")
                for vector in part
            ],
            "dims": [len(vector.content) for vector in part],
            "contents": [vector.content.tobytes() for vector in part],
            "names": [None if vector.name is None else vector.name.tobytes() for vector in part],
        }
        if row.has_halves:
            values["content_halves"] = [half_text(vector.content) for vector in part]
            values["name_halves"] = [half_text(vector.name) for vector in part]
        yield Bound(statement, values)


def vector_put_statement(has_halves: bool) -> str:
    """Returns the statement that stores vectors, also for their index if the database has one."""
    if not has_halves:
        return sql.VECTORS_PUT.format(columns="", values="", arrays="", fields="", updates="")
    names = ", ".join(HALVES)
    return sql.VECTORS_PUT.format(
        columns=f", {names}",
        values="".join(f", put.{name}::halfvec" for name in HALVES),
        arrays=", %(content_halves)s::text[], %(name_halves)s::text[]",
        fields=f", {names}",
        updates="".join(f", {name} = excluded.{name}" for name in HALVES),
    )


def half_text(vector: Vector | None) -> str | None:
    """Returns a vector at length 1 as text for pgvector, None if its index cannot hold it."""
    if vector is None or len(vector) > MAX_INDEXED_DIM or not vector.any():
        return None
    return vector_text(normalize(vector))
