"""Sets a database up, any number of times: makes what is missing and leaves what is there.

Documents of an existing Nodius database are not touched but for fields of this service's own, which a
migration fills in. Every migration may run twice; the version is stored after each.

Decision: only databases whose transactions are whole are used: those of a single server, and in a cluster
those that one server leads (`sharding: "single"`, OneShard). Elsewhere each server commits its part by
itself, and a crash may leave some of them behind. What an earlier version noted of such commits in
`nodius_ai_intents` is ignored: on the databases used it is only a note of what was done whole.

Decision: a graph of few nodes (see `shared_state.SearchLimits`) is searched exactly, which finds all there is
and sees a vector as soon as it is stored. A vector index is made where a database has many more vectors,
all of one length. An index refuses vectors of any other length, so those are kept beside it.

Source: ArangoDB 3.12 documentation, "Vector indexes" (FILTER before APPROX_NEAR from 3.12.6) and "Stream
Transactions", limitations in clusters.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import layout
from datasources.arango import statements_read as read
from datasources.arango import statements_write as write
from datasources.arango.connection import ArangoConnection
from datasources.arango.documents import read_node
from datasources.arango.errors import DATABASE_MISSING, DUPLICATE_NAME
from datasources.arango.names import EDGES, EMBEDDING, NAMED_GRAPH, NODES, VIEW
from datasources.arango.words import own_words
from datasources.errors import BadDocument, DatabaseVersion, SourceUnavailable

OLDEST = (3, 11)
FULL = (3, 12, 4)
"""Earlier 3.12 servers sort wrongly by some indexes. Source: ArangoDB 3.12 release notes.

Decision: 3.11, which many installations of Nodius run, is taken for all but speed: every search is the exact
one, and no order is taken from the server. It has the statements' functions but for vector indexes.
"""

SAFE = (3, 12, 11)
"""An earlier server may let people in without signing in. Source: GHSA-rrgq-978q-36mq."""

VECTOR_INDEX_FROM = (3, 12, 10)
WORTH_AN_INDEX = 20_000
BUILD_TIMEOUT_S = 1800.0
PAGE = 500

SHARDED = (
    "its documents are spread over several servers, where a crash could leave half of a change; restore a "
    'dump into a database made with sharding: "single" (OneShard), as `nodius db init` makes one'
)


def version_of(database: StandardDatabase) -> tuple[int, ...]:
    """Return the server's version as numbers, none where a hardened server does not name it."""
    answer: Any = database.version(details=True)
    return tuple(int(part) for part in re.findall(r"\d+", str(answer.get("version", "")))[:3])


def is_exact_only(version: tuple[int, ...]) -> bool:
    """Return whether a server of this version is searched by exact statements alone."""
    return bool(version) and version < FULL


def why_refused(version: tuple[int, ...]) -> str:
    """Return why a server of this version is not taken; empty for one that is."""
    if version and version < OLDEST:
        return f"is too old: statements need {shown(OLDEST)}"
    return "sorts wrongly by some indexes" if (3, 12) <= version < FULL else ""


def shown(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def refuse_old(database: StandardDatabase, *, source: str) -> None:
    """Raises: SourceUnavailable where this adapter does not work with the server, with the reason."""
    version = version_of(database)
    why = why_refused(version)
    if why:
        reason = f"ArangoDB {shown(version)} {why}; upgrade the server to {shown(FULL)} or later"
        raise SourceUnavailable(source=source, reason=reason)


def is_sharded(database: StandardDatabase) -> bool:
    """Return whether a commit may happen in parts: a cluster, and no single server that leads the database.

    Source: ArangoDB HTTP API, "Databases": only a cluster says how a database is sharded.
    """
    properties: Any = database.properties()
    if "sharding" in properties:
        return properties["sharding"] != "single"
    try:
        return str(database.cluster.server_role()) == "COORDINATOR"
    except ArangoServerError:  # it may not be asked: a single server has no more to say
        return False


def refuse_sharded(database: StandardDatabase, *, source: str) -> None:
    """Raises: SourceUnavailable where a transaction may commit in parts."""
    if is_sharded(database):
        raise SourceUnavailable(source=source, reason=SHARDED)


def is_there(connection: ArangoConnection) -> bool:
    """Return whether the server has the database."""
    try:
        connection.database_named(connection.address.database).properties()
    except ArangoServerError as exc:
        if exc.error_code != DATABASE_MISSING:
            raise
        return False
    return True


async def set_up(connection: ArangoConnection) -> list[str]:
    """Make what is missing; return what was done, one line each, none when all was there.

    Raises: SourceError, also where the server is too old or the database sharded; DatabaseVersion where a
    newer program set it up.
    """
    done = await connection.run(lambda _: _make_database(connection), idempotent=True)
    done += await connection.run(_make_collections, idempotent=True)
    async with _patient(connection) as patient:
        for step in (_make_indexes, _make_view, _make_named_graph):
            done += await patient.run(step, idempotent=True)
        migrated = await _migrate(connection)
        # Nodius may have written since: its nodes get words at every set-up.
        done += migrated or await fill_words(connection)
        return done + await patient.run(_make_vector_indexes, idempotent=True)


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
        refuse_sharded(connection.database_named(name), source=connection.source)
        return []
    # In a cluster one database server then leads all of it, and transactions are whole.
    _unless_there(lambda: connection.database_named("_system").create_database(name, sharding="single"))
    return [f"made the database {name}"]


def _unless_there(make: Callable[[], Any]) -> bool:
    """Make something; return whether it was not there, as another may make it at the same moment."""
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


def indexes_of(database: StandardDatabase, collection: str) -> dict[str, layout.Body]:
    """Return the indexes of a collection by name."""
    found: Any = database.collection(collection).indexes()
    return {index["name"]: index for index in found}


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


def is_linked(database: StandardDatabase) -> bool:
    """Return whether the View searches nodes as its statements need it."""
    found: Any = database.view(VIEW)
    return layout.is_link_like(found.get("links", {}).get(NODES), layout.view_properties()["links"][NODES])


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
        # It is there by now, or another named graph has these edges with other ends.
        if exc.error_code not in (DUPLICATE_NAME, 1921, 1925):
            raise
        return []
    return [f"made the named graph {NAMED_GRAPH}"]


async def stored_version(connection: ArangoConnection) -> int:
    """Return the version that a database was brought to, 0 where none was. Raises: DatabaseVersion."""
    rows = await connection.query(read.VERSION)
    version = int(rows[0]) if rows else 0
    if version > VERSION:
        raise DatabaseVersion(path=connection.source, found=version, supported=VERSION)
    return version


async def _migrate(connection: ArangoConnection) -> list[str]:
    """Run the migrations that are due; return what was done. Raises: DatabaseVersion."""
    stored = await stored_version(connection)
    done: list[str] = []
    for version, migration in enumerate(MIGRATIONS[stored:], stored + 1):
        done += await migration(connection)
        await connection.query(write.SET_VERSION, version=version)
        done.append(f"brought the database to version {version}")
    return done


async def fill_words(connection: ArangoConnection) -> list[str]:
    """Give words to the nodes that another program wrote, so that they are found by BM25."""
    after, filled, unreadable = "", 0, 0
    while page := await connection.query(read.WITHOUT_WORDS, after=after, limit=PAGE):
        docs: list[dict[str, Any]] = []
        for stored in page:
            try:
                node = read_node(stored, stored["graphKey"])
            except (BadDocument, KeyError):
                unreadable += 1
                continue
            docs.append({"key": stored["_key"], "rev": stored["_rev"], "words": own_words(node)})
        filled += len(await connection.query(write.PUT_WORDS, docs=docs))
        after = page[-1]["_key"]
    done = [f"gave words to {filled:,} nodes"] if filled else []
    return [*done, f"left out {unreadable:,} nodes that are not readable"] if unreadable else done


MIGRATIONS: tuple[Callable[[ArangoConnection], Awaitable[list[str]]], ...] = (fill_words,)
"""Each brings a database one version further and returns what it did."""

VERSION = len(MIGRATIONS)


def vector_indexes(database: StandardDatabase) -> dict[str, layout.Body]:
    """Return the vector indexes of nodes by field."""
    return {i["fields"][0]: i for i in indexes_of(database, NODES).values() if i["type"] == "vector"}


def indexed_dimension(database: StandardDatabase) -> int | None:
    """Return the length of vectors that the index of contents takes, None without one."""
    index = vector_indexes(database).get(EMBEDDING)
    return None if index is None else int(index["params"]["dimension"])


def dimension_to_index(database: StandardDatabase) -> int | None:
    """Return the length of vectors that indexes should be made for, None where none should."""
    if version_of(database) < VECTOR_INDEX_FROM or indexed_dimension(database) is not None:
        return None
    statement = read.VECTOR_LENGTHS
    rows: Any = database.aql.execute(statement.text, bind_vars=statement.binds({}))
    lengths = list(rows)
    if len(lengths) != 1 or lengths[0]["amount"] < WORTH_AN_INDEX:
        return None
    return int(lengths[0]["length"])


def _make_vector_indexes(database: StandardDatabase) -> list[str]:
    length = dimension_to_index(database)
    done: list[str] = []
    for field in layout.VECTOR_FIELDS if length is not None else ():
        try:
            database.collection(NODES).add_index(layout.vector_index(field, length or 0))
        except ArangoServerError as exc:  # the server was started without --vector-index
            return [*done, f"made no vector index of {field} (error {exc.error_code}): search stays exact"]
        done.append(f"made the vector index of {field}, {length} dimensions")
    return done
