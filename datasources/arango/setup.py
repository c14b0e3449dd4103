"""Sets a database up, as often as one likes: makes what is missing and leaves what is there.

Documents of an existing Nodius database are not touched but for fields of this service's own,
which a migration fills in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import layout
from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import DUPLICATE_NAME
from datasources.arango.migrations import fill_words, migrate
from datasources.arango.missing import indexes_of, is_linked, is_there
from datasources.arango.names import EDGES, NAMED_GRAPH, NODES, VIEW
from datasources.arango.server_version import refuse_old
from datasources.arango.vectors import prepare_vectors

BUILD_TIMEOUT_S = 1800.0


async def set_up(connection: ArangoConnection) -> list[str]:
    """Make what is missing; return what was done, one line each, none when all was there.

    Raises: SourceError, also where the server is too old; DatabaseVersion where a newer program set it up.
    """
    done = await connection.run(lambda _: _make_database(connection), idempotent=True)
    done += await connection.run(_make_collections, idempotent=True)
    async with _patient(connection) as patient:
        for step in (_make_indexes, _make_view, _make_named_graph):
            done += await patient.run(step, idempotent=True)
        migrated = await migrate(connection)
        # Nodius may have written since: its nodes get words at every set-up.
        done += migrated or await fill_words(connection)
        return done + await patient.run(prepare_vectors, idempotent=True)


@asynccontextmanager
async def _patient(connection: ArangoConnection) -> AsyncGenerator[ArangoConnection]:
    """Yield a way to the same database that waits for an index of many documents to be built."""
    timeout_s = max(connection.address.timeout_s, BUILD_TIMEOUT_S)
    patient = ArangoConnection(replace(connection.address, timeout_s=timeout_s))
    patient.open()
    try:
        yield patient
    finally:
        await patient.close()


def _make_database(connection: ArangoConnection) -> list[str]:
    name, there = connection.address.database, is_there(connection)
    refuse_old(connection.database_named(name if there else "_system"), source=connection.source)
    if there:
        return []
    # In a cluster one database server then leads all of it, and transactions are whole.
    _unless_there(lambda: connection.database_named("_system").create_database(name, sharding="single"))
    return [f"made the database {name}"]


def _unless_there(make: Callable[[], Any]) -> bool:
    """Make something; say whether it was not there, as another may make it at the same moment."""
    try:
        make()
    except ArangoServerError as exc:
        if exc.error_code != DUPLICATE_NAME:
            raise
        return False
    return True


def _make_collections(database: StandardDatabase) -> list[str]:
    collections: Any = database.collections()
    there = {row["name"] for row in collections}
    missing = [name for name in layout.ALL_COLLECTIONS if name not in there]
    return [
        f"made the collection {name}"
        for name in missing
        if _unless_there(lambda name=name: database.create_collection(name, edge=name == EDGES))
    ]


def _make_indexes(database: StandardDatabase) -> list[str]:
    done: list[str] = []
    for name, bodies in layout.all_indexes().items():
        there, collection = indexes_of(database, name), database.collection(name)
        for body in bodies:
            stored = there.get(body["name"])
            if layout.is_index_like(stored, body):
                continue
            if stored is not None:  # of our name, as an earlier program made it
                collection.delete_index(str(stored["id"]).rpartition("/")[2], ignore_missing=True)
            collection.add_index(body)
            done.append(f"made the index {body['name']} of {name}")
    return done


def _make_view(database: StandardDatabase) -> list[str]:
    properties = layout.view_properties()
    there: Any = database.views()
    if VIEW not in {view["name"] for view in there}:
        made = _unless_there(lambda: database.create_arangosearch_view(VIEW, properties=properties))
        return [f"made the View {VIEW}"] if made else []
    # To make a View is not atomic: the link may be missing. An earlier program's may be another.
    if is_linked(database):
        return []
    database.update_arangosearch_view(VIEW, properties)
    return [f"linked the View {VIEW} with {NODES}"]


def _make_named_graph(database: StandardDatabase) -> list[str]:
    if database.has_graph(NAMED_GRAPH):
        return []
    ends = {"edge_collection": EDGES, "from_vertex_collections": [NODES], "to_vertex_collections": [NODES]}
    try:
        database.create_graph(NAMED_GRAPH, edge_definitions=[ends])
    except ArangoServerError as exc:
        if exc.error_code in (DUPLICATE_NAME, 1925):
            return []
        if exc.error_code != 1921:  # another named graph has these edges with other ends
            raise
        return []
    return [f"made the named graph {NAMED_GRAPH}"]
