"""Sets up a database: creates missing parts and leaves existing ones. Idempotent.

Documents of an existing Nodius database are not changed, except that missing fields of this service
are filled in by each set-up.

Decision: only databases with atomic transactions are used: those of a single server, and in a
cluster those led by one server (`sharding: "single"`, OneShard). Elsewhere each server commits its
part separately, so a crash may leave a transaction incomplete.

Decision: a graph of few nodes (see `search.EXACT_NODES`) is searched exactly, which finds every
match and includes a vector as soon as it is stored. A vector index is created if a database has
many more vectors, all of one length. An index rejects vectors of any other length, so those are
stored in other fields.

Source: ArangoDB 3.12 documentation, "Vector indexes" (FILTER before APPROX_NEAR from 3.12.6) and
"Stream Transactions", limitations in clusters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError, IndexListError
from arango.request import Request

from datasources.arango import layout
from datasources.arango import statements_read as read
from datasources.arango import statements_write as write
from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import DATABASE_MISSING, DUPLICATE_NAME
from datasources.arango.graph_documents import read_document, word_update
from datasources.arango.layout import EDGES, EMBEDDING, GRAPHS, META, NODES, VIEW
from datasources.errors import BadDocument, DatabaseVersion, SourceUnavailable
from datasources.types import Graph

FULL = (3, 12, 4)
SAFE = (3, 12, 11)
"""From here on a server is used with all it has, and nothing speaks against it.

Decision: 3.11, which many installations of Nodius run, is taken for all but speed: every
search is the exact one, and no order is taken from the server. It has the statements'
functions but for vector indexes.
"""

_FLAWS: Sequence[tuple[tuple[int, ...], Literal["warning", "error"], str]] = (
    ((3, 11), "error", " is too old: statements need 3.11"),
    (
        (3, 12),
        "warning",
        ": exact search only, no vector index, and pages of a graph read all of it",
    ),
    (FULL, "error", " sorts wrongly by some indexes"),
    (SAFE, "warning", ": it may let people in without signing in (GHSA-rrgq-978q-36mq)"),
)
"""What speaks against servers before a version. Source: ArangoDB 3.12 release notes."""

VECTOR_INDEX_FROM = (3, 12, 10)
WORTH_AN_INDEX = 20_000
BUILD_TIMEOUT_S = 1800.0
PAGE = 500
MANY = 1_000_000
VERSION = 1
"""The version of the set-up."""


def version_of(database: StandardDatabase) -> tuple[int, ...]:
    """Returns the server's version as numbers, none where a hardened server does not name it."""
    answer: Any = database.version(details=True)
    return tuple(int(part) for part in re.findall(r"\d+", str(answer.get("version", "")))[:3])


def flaw_of(version: tuple[int, ...]) -> tuple[Literal["warning", "error"], str] | None:
    """Returns what speaks against a server of this version, and whether it is refused
    for that (`error`).
    """
    return next(((status, flaw) for before, status, flaw in _FLAWS if () < version < before), None)


def shown(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def refuse_old(database: StandardDatabase, *, source: str) -> None:
    """Raises: SourceUnavailable where this adapter does not work with the server,
    with the reason.
    """
    version = version_of(database)
    flaw = flaw_of(version)
    if flaw is not None and flaw[0] == "error":
        reason = f"ArangoDB {shown(version)}{flaw[1]}; upgrade the server to {shown(FULL)} or later"
        raise SourceUnavailable(source=source, reason=reason)


def refuse_sharded(database: StandardDatabase, *, source: str) -> None:
    """Raises: SourceUnavailable where a commit may happen in parts: in a cluster, where no single
    server leads the database.

    Source: ArangoDB HTTP API, "Databases": only a cluster says how a database is sharded.
    """
    properties: Any = database.properties()
    if "sharding" in properties:
        is_sharded = properties["sharding"] != "single"
    else:
        try:
            is_sharded = str(database.cluster.server_role()) == "COORDINATOR"
        except ArangoServerError:  # it may not be asked: a single server has no more to say
            is_sharded = False
    if is_sharded:
        reason = (
            "its documents are spread over several servers: a crash could leave half of a change; restore "
            'a dump into a database made with sharding: "single" (OneShard), as `nodius db init` makes one'
        )
        raise SourceUnavailable(source=source, reason=reason)


async def set_up(connection: ArangoConnection, *, dry_run: bool = False) -> list[str]:
    """Makes what is missing; return what was done, one line each, none when all was there.

    A `dry_run` makes nothing and returns what would be done.
    Raises: SourceError, also where the server is too old or the database sharded; DatabaseVersion
    where a newer program set it up.
    """
    # An index of many documents takes long to build.
    timeout_s = max(connection.address.timeout_s, BUILD_TIMEOUT_S)
    patient = ArangoConnection(replace(connection.address, timeout_s=timeout_s))
    try:
        done = await patient.run(
            lambda database: _make_parts(connection, database, dry_run=dry_run), idempotent=True
        )
        absent = {
            name for name in layout.ALL_COLLECTIONS if f"would make the collection {name}" in done
        }
        stored = 0 if META in absent else (await stored_facts(connection))[0]
        if not absent & {GRAPHS, NODES, EDGES}:
            done += await _fill_words(connection, dry_run=dry_run)  # Nodius may have written since
        if stored < VERSION:
            if not dry_run:
                await connection.query(write.SET_VERSION, version=VERSION)
            done.append(
                f"{'would bring' if dry_run else 'brought'} the database to version {VERSION}"
            )
        if NODES not in absent:
            done += await patient.run(
                partial(_make_vector_indexes, dry_run=dry_run), idempotent=True
            )
        return done
    finally:
        await patient.close()


def _make_parts(
    connection: ArangoConnection, database: StandardDatabase, *, dry_run: bool
) -> list[str]:
    """Creates the database if there is none, and its missing parts.

    Raises: SourceUnavailable if the server or database is not usable.
    """
    name = connection.address.database
    system = connection.database_named("_system")
    try:
        refuse_sharded(connection.database_named(name), source=connection.source)
    except ArangoServerError as exc:
        if exc.error_code != DATABASE_MISSING:
            raise
        # In a cluster one database server then leads all of it, and transactions are whole.
        create = partial(system.create_database, name, sharding="single")
        parts: list[Part] = [(f"the database {name}", lambda _: create()), *missing_parts(None)]
        refuse_old(system, source=connection.source)
    else:
        refuse_old(connection.database_named(name), source=connection.source)
        parts = missing_parts(database)
    if dry_run:
        return [f"would make {part}" for part, _ in parts]
    done: list[str] = []
    for part, make in parts:
        try:
            make(database)
        except ArangoServerError as exc:
            if exc.error_code != DUPLICATE_NAME:  # another made it at the same moment
                raise
        else:
            done.append(f"made {part}")
    return done


Part = tuple[str, Callable[[StandardDatabase], Any]]
"""What it is, and what makes it."""


def missing_parts(database: StandardDatabase | None) -> list[Part]:
    """Returns the missing parts of a database in the order to create them; all parts if there is
    no database.
    """
    listed: Any = ([], []) if database is None else (database.collections(), database.views())
    there, views = ({one["name"] for one in named} for named in listed)
    missing: list[Part] = [
        (
            f"the collection {name}",
            partial(StandardDatabase.create_collection, name=name, edge=name == EDGES),
        )
        for name in layout.ALL_COLLECTIONS
        if name not in there
    ]
    for name, bodies in layout.all_indexes().items():
        stored = {} if database is None or name not in there else indexes_of(database, name)
        for body in bodies:
            if not any(is_same_index(body, there) for there in stored.values()):
                is_taken = body["name"] in stored
                make = partial(_make_index, collection=name, body=body, is_name_taken=is_taken)
                missing.append((f"the index {body['name']} of {name}", make))
    view = layout.view_properties()
    if database is None or VIEW not in views:
        make = partial(StandardDatabase.create_arangosearch_view, name=VIEW, properties=view)
        missing.append((f"the View {VIEW}", make))
    else:  # making a View is not atomic: a crash may have left it without its link
        found: Any = database.view(VIEW)
        if NODES not in found.get("links", {}):
            make = partial(StandardDatabase.update_arangosearch_view, name=VIEW, properties=view)
            missing.append((f"the link of the View {VIEW} with {NODES}", make))
    return missing


def indexes_of(database: StandardDatabase, collection: str) -> dict[str, layout.Body]:
    """Returns the indexes of a collection by name, in the form of the server.

    The driver's list omits `trainingState` and renames fields.
    """
    request = Request(method="get", endpoint="/_api/index", params={"collection": collection})
    answer = database.conn.send_request(request)
    if not answer.is_success:
        raise IndexListError(answer, request)
    found = cast(dict[str, Any], answer.body)["indexes"]
    return {index["name"]: {**index, "id": str(index["id"]).partition("/")[2]} for index in found}


def is_same_index(body: layout.Body, stored: layout.Body) -> bool:
    """Returns whether a stored index is equivalent to `body`, regardless of its name.

    The server compares in the same way: creating an equivalent index under another name has no
    effect. A unique index serves reads like any other; a sparse one omits documents, as every TTL
    index does.
    """
    if any(stored.get(name) != body.get(name) for name in ("type", "fields", "expireAfter")):
        return False
    return body["type"] == "ttl" or not stored.get("sparse")


def _make_index(
    database: StandardDatabase, collection: str, body: layout.Body, *, is_name_taken: bool
) -> None:
    """Creates an index. Removes an index of the same name with other fields, since names are unique
    on the server.
    """
    if is_name_taken:
        stored = indexes_of(database, collection)  # another may have made it meanwhile
        if body["name"] in stored and not is_same_index(body, stored[body["name"]]):
            database.collection(collection).delete_index(stored[body["name"]]["id"])
    database.collection(collection).add_index(body)


async def stored_facts(connection: ArangoConnection) -> tuple[int, bool]:
    """Returns the set-up version of a database (0 if it was never set up), and whether its server
    orders text by code points. Raises: DatabaseVersion.
    """
    (row,) = await connection.query(read.FACTS)
    version = int(row["version"] or 0)
    if version > VERSION:
        raise DatabaseVersion(path=connection.source, found=version, supported=VERSION)
    return version, row["byCodePoint"]


async def _fill_words(connection: ArangoConnection, *, dry_run: bool) -> list[str]:
    """Stores the words of nodes written by another program, so that BM25 search finds them."""
    if dry_run:
        (numbers,) = await connection.query(read.COUNT_WITHOUT_WORDS, limit=MANY)
        return [f"would give words to {numbers['missing']:,} nodes"] if numbers["missing"] else []
    graphs = [read_document(Graph, row) for row in await connection.query(read.WITH_LANGUAGE)]
    languages = {graph.key: graph.language for graph in graphs}
    after, filled, unreadable = "", 0, 0
    while page := await connection.query(read.WITHOUT_WORDS, after=after, limit=PAGE):
        docs: list[dict[str, Any]] = []
        for stored in page:
            with suppress(BadDocument, KeyError):
                docs.append(word_update(stored, languages.get(stored["graphKey"])))
        unreadable += len(page) - len(docs)
        filled += len(await connection.query(write.PUT_WORDS, docs=docs))
        after = page[-1]["_key"]
    done = [f"gave words to {filled:,} nodes"] if filled else []
    return [*done, f"left out {unreadable:,} nodes that are not readable"] if unreadable else done


def vector_indexes(database: StandardDatabase) -> dict[str, layout.Body]:
    """Returns the vector indexes of nodes by field."""
    return {
        i["fields"][0]: i for i in indexes_of(database, NODES).values() if i["type"] == "vector"
    }


def is_trained(index: layout.Body) -> bool:
    """Returns whether a vector index can be used. On servers before 3.12.9 every existing index is
    trained.
    """
    return index.get("trainingState", "ready") == "ready"


def indexed_dimension(database: StandardDatabase) -> int | None:
    """Returns the length of vectors in the index of node contents, None without an index."""
    index = vector_indexes(database).get(EMBEDDING)
    return None if index is None else int(index["params"]["dimension"])


def dimension_to_index(database: StandardDatabase) -> int | None:
    """Returns the length of vectors to create indexes for, None if none should be created.

    An untrained index is created again, because the server trains an index on creation.
    """
    if version_of(database) < VECTOR_INDEX_FROM or not _lacking(vector_indexes(database)):
        return None
    statement = read.VECTOR_LENGTHS
    rows: Any = database.aql.execute(statement.text, bind_vars=statement.binds({}))
    lengths = list(rows)
    if len(lengths) != 1 or lengths[0]["amount"] < WORTH_AN_INDEX:
        return None
    return int(lengths[0]["length"])


def _lacking(indexes: Mapping[str, layout.Body]) -> list[str]:
    """Returns the fields without a trained vector index."""
    return [
        field
        for field in layout.VECTOR_FIELDS
        if field not in indexes or not is_trained(indexes[field])
    ]


def _make_vector_indexes(database: StandardDatabase, *, dry_run: bool) -> list[str]:
    length = dimension_to_index(database)
    if length is None:
        return []
    if dry_run:
        return [f"would make vector indexes of {length} dimensions"]
    done: list[str] = []
    indexes = vector_indexes(database)
    for field in _lacking(indexes):
        try:
            if field in indexes:
                database.collection(NODES).delete_index(indexes[field]["id"])
            made: Any = database.collection(NODES).add_index(layout.vector_index(field, length))
        except ArangoServerError as exc:  # the server was started without --vector-index
            return [
                *done,
                f"made no vector index of {field} (error {exc.error_code}): search stays exact",
            ]
        state = "" if is_trained(made) else ", which is not trained yet"
        done.append(f"made the vector index of {field}, {length} dimensions{state}")
    return done
