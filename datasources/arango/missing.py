"""What a database lacks of its set-up; looks, and makes nothing."""

from __future__ import annotations

from typing import Any

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import layout
from datasources.arango import statements_setup as aql
from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import DATABASE_MISSING
from datasources.arango.migrations import VERSION, stored_version
from datasources.arango.names import EDGES, GRAPHS, META, NAMED_GRAPH, NODES, VIEW
from datasources.arango.vectors import worth_an_index

MANY = 1_000_000


def indexes_of(database: StandardDatabase, collection: str) -> dict[str, layout.Body]:
    """Return the indexes of a collection by name."""
    found: Any = database.collection(collection).indexes()
    return {index["name"]: index for index in found}


def missing_parts(database: StandardDatabase | None) -> list[str]:
    """Return what is to be made in a database; None stands for one that is not there.

    What has our name and is another thing, as an earlier program may have left it, is missing too.
    """
    found: Any = database.collections() if database else []
    views: Any = database.views() if database else []
    there = {row["name"] for row in found}
    parts = [f"the collection {name}" for name in layout.ALL_COLLECTIONS if name not in there]
    for name, bodies in layout.all_indexes().items():
        stored = indexes_of(database, name) if database and name in there else dict[str, layout.Body]()
        parts += [
            f"the index {body['name']} of {name}"
            for body in bodies
            if not layout.is_index_like(stored.get(body["name"]), body)
        ]
    if database is None or VIEW not in {view["name"] for view in views}:
        parts.append(f"the View {VIEW}")
    elif not is_linked(database):
        parts.append(f"the link of the View {VIEW} with {NODES}")
    return parts


def is_linked(database: StandardDatabase) -> bool:
    """Say whether the View searches nodes as its statements need it."""
    found: Any = database.view(VIEW)
    return layout.is_link_like(found.get("links", {}).get(NODES), layout.view_properties()["links"][NODES])


async def rehearse(connection: ArangoConnection) -> list[str]:
    """Return what a set-up would do, one line each. Raises: SourceError, as the set-up does."""
    there = await connection.run(lambda _: is_there(connection), idempotent=True)
    parts = await connection.run(lambda database: _to_make(database if there else None), idempotent=True)
    done = [f"would make {part}" for part in parts]
    if not there:
        return [f"would make the database {connection.address.database}", *done, *_version(0)]
    absent = {name for name in (GRAPHS, NODES, EDGES, META) if f"the collection {name}" in parts}
    if not absent & {GRAPHS, NODES, EDGES}:
        numbers = (await connection.query(aql.COUNT_WITHOUT_WORDS, limit=MANY))[0]
        if numbers["missing"]:
            done.append(f"would give words to {numbers['missing']:,} nodes")
    done += _version(0 if META in absent else await stored_version(connection))
    dimension = None if NODES in absent else await connection.run(worth_an_index, idempotent=True)
    return done + ([f"would make vector indexes of {dimension} dimensions"] if dimension else [])


def _to_make(database: StandardDatabase | None) -> list[str]:
    named = database is not None and database.has_graph(NAMED_GRAPH)
    return missing_parts(database) + ([] if named else [f"the named graph {NAMED_GRAPH}"])


def _version(stored: int) -> list[str]:
    return [f"would bring the database to version {VERSION}"] if stored < VERSION else []


def is_there(connection: ArangoConnection) -> bool:
    """Say whether the server has the database."""
    try:
        connection.database_named(connection.address.database).properties()
    except ArangoServerError as exc:
        if exc.error_code != DATABASE_MISSING:
            raise
        return False
    return True
