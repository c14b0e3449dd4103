"""An ArangoDB database: opens the connection, provides sources and records, reports its health."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import layout, setup, statements_search, statements_write
from datasources.arango import statements_read as read
from datasources.arango.address import ArangoAddress
from datasources.arango.connection import ArangoConnection
from datasources.arango.large_changes import finish_changes
from datasources.arango.records import ArangoRecords
from datasources.arango.search import EXACT_NODES, NO_LIMIT, SharedState
from datasources.arango.source import ArangoSource
from datasources.arango.statements import CONSTANTS, Statement
from datasources.arango.type_words import NO_WORDS
from datasources.base import Finding, MutableGraphDataSource, RecordStore
from datasources.errors import DatabaseUnprepared, SourceError, SourceUnavailable
from datasources.notices import SILENT, NoticeRouter
from datasources.types import is_storable


class ArangoDatabase:
    """Implements Database. Any number of servers may use it at the same time.

    With `prepared=False` the database need not be set up yet. Graphs of up to `exact_nodes` nodes
    are searched exactly.
    """

    def __init__(
        self, address: ArangoAddress, *, prepared: bool = True, exact_nodes: int = EXACT_NODES
    ) -> None:
        self._address = address
        self._prepared = prepared
        self._exact_nodes = exact_nodes
        self._state: SharedState | None = None

    @property
    def url(self) -> str:
        return self._address.shown

    @property
    def state(self) -> SharedState:
        if self._state is None:
            raise SourceUnavailable(source=self.url, reason="the database is not open")
        return self._state

    @property
    def notices(self) -> NoticeRouter:
        return SILENT

    def source(self, workspace: str) -> MutableGraphDataSource:
        return ArangoSource(self.state, workspace)

    def records(self, workspace: str) -> RecordStore:
        return ArangoRecords(self.state.connection, workspace)

    async def set_up(self, *, dry_run: bool = False) -> list[str]:
        """Creates missing parts and migrates the database.

        Returns the actions done, or to be done if `dry_run`. Raises: SourceError.
        """
        done = await setup.set_up(self.state.connection, dry_run=dry_run)
        if not dry_run:
            await self._look()
        return done

    async def workspaces(self, kind: str | None = None) -> list[str]:
        connection = self.state.connection
        if kind is None:
            return sorted(await connection.query(read.WORKSPACES))
        if not is_storable(kind):
            return []
        of_kind = None if kind in layout.RECORD_COLLECTIONS else kind
        return sorted(await connection.query(read.RECORD_WORKSPACES, kind=kind, of_kind=of_kind))

    async def check(self) -> list[Finding]:
        try:
            return await _examine(self.state.connection)
        except SourceError as exc:
            return [Finding(name="database", status="error", detail=str(exc))]

    async def _look(self) -> None:
        state = self.state
        connection = self.state.connection
        stored, by_code_point = await setup.stored_facts(connection)
        if stored < setup.VERSION:
            raise DatabaseUnprepared(source=self.url)

        def look(database: StandardDatabase) -> tuple[int | None, tuple[int, ...]]:
            setup.refuse_sharded(database, source=connection.source)
            return setup.indexed_dimension(database), setup.version_of(database)

        state.indexed_dim, version = await connection.run(look, idempotent=True)
        exact_only = () < version < setup.FULL
        await finish_changes(connection)
        state.exact = NO_LIMIT if exact_only else self._exact_nodes
        state.by_code_point = by_code_point and not exact_only

    async def __aenter__(self) -> Self:
        self._state = SharedState(ArangoConnection(self._address))
        if self._prepared:
            try:
                await self._look()
            except BaseException:
                await self.__aexit__(None, None, None)
                raise
        return self

    async def __aexit__(self, *_: object) -> None:
        state = self._state
        self._state = None
        if state is not None:
            await state.connection.close()


_SHOWN = 5
_INIT = "run `nodius db init`"
_BOUNDS = frozenset(("workspace", "workspaces", "graphKey"))
"""Statements that bind none of these may read a whole collection: those of the set-up and those
over all workspaces.
"""

_SAMPLES: Mapping[str, Any] = {
    **dict.fromkeys(("depth", "limit", "most", "width", "enough", "next", "candidates", "links", "first"), 1),
    "prefix": 1, "version": 1, "document": {"_key": "x"}, "mark": {"_key": "x"},
    "least": 0, "typed": True, "whole": True, "terms": ["x"], "places": [0], "vector": [1, 0], "sheet": None,
    "workspaces": ["x", "root"], "inherited": {}, "unknown": NO_WORDS.inherited(["x"]),
}  # fmt: skip
"""Sample values for explaining a statement. Other names in the plural are lists, the rest text."""


def all_statements() -> dict[str, Statement]:
    """Returns every statement by name."""
    found = [
        item
        for module in (read, statements_search, statements_write)
        for item in vars(module).items()
    ]
    statements = {name: value for name, value in found if isinstance(value, Statement)}
    return dict(sorted(statements.items()))


async def _examine(connection: ArangoConnection) -> list[Finding]:
    """Checks the server and the database without changing them. Returns one finding for each part,
    beginning with the server.

    Raises: SourceError if the server does not answer.
    """
    began = time.perf_counter()
    await connection.run(lambda database: setup.refuse_sharded(database, source=connection.source))
    version, by_code_point = await setup.stored_facts(connection)
    (numbers,) = await connection.query(read.COUNT_WITHOUT_WORDS, limit=1_000)
    looks = (look_at_server, _parts, _vectors, _statements)
    server, *rest = await connection.run(
        lambda server: [look(server) for look in looks], idempotent=True
    )
    ms = (time.perf_counter() - began) * 1e3
    counts = f"{numbers['graphs']:,} graphs, {numbers['nodes']:,} nodes, {numbers['edges']:,} edges"
    detail = f"{connection.source}, version {version}: {counts}; looked at in {ms:,.0f} ms"
    database = Finding("database", "ok", detail)
    if version < setup.VERSION:
        database = Finding("database", "error", f"{detail}; needs {setup.VERSION}", _INIT)
    found = [server, database, _words(numbers["missing"]), *rest]
    if not by_code_point:
        detail = "the server orders text by a language, not by code points: pages of a graph read all of it"
        fix = "deployments made with ArangoDB 3.12 order by code points; restore a dump into a new one"
        found.append(Finding("order", "warning", detail, fix))
    return found


def _words(missing: int) -> Finding:
    if not missing:
        return Finding("words", "ok", "every node is found by its words")
    many = f"{missing:,}" if missing < 1_000 else "1,000 or more"
    detail = f"{many} nodes were written by another program, and not all words find them"
    return Finding("words", "warning", detail, _INIT)


def look_at_server(database: StandardDatabase) -> Finding:
    """Returns a finding about the server: its version and edition, and any problem with them."""
    details: Any = database.version(details=True)
    version = setup.version_of(database)
    edition = f"{details.get('license', 'unknown')} edition"
    if not version:
        name = f"ArangoDB of an unnamed version, {edition}"
        fix = "see with an administrator's sign-in which one it is; a hardened server names it to nobody else"
        return Finding("server", "warning", name, fix)
    name = f"ArangoDB {details['version']}, {edition}"
    flaw = setup.flaw_of(version)
    if flaw is None:
        return Finding("server", "ok", name)
    status, why = flaw
    return Finding(
        "server",
        status,
        f"{name}{why}",
        f"upgrade the server to {setup.shown(setup.SAFE)} or later",
    )


def _parts(database: StandardDatabase) -> Finding:
    missing = [part for part, _ in setup.missing_parts(database)]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if missing[_SHOWN:] else ""
        detail = f"missing: {', '.join(missing[:_SHOWN])}{more}"
        return Finding("set-up", "error", detail, _INIT)
    indexes = sum(map(len, layout.all_indexes().values()))
    detail = f"{len(layout.ALL_COLLECTIONS)} collections, {indexes} indexes, the View {layout.VIEW}"
    return Finding("set-up", "ok", detail)


def _vectors(database: StandardDatabase) -> Finding:
    indexes = setup.vector_indexes(database)
    least = setup.VECTOR_INDEX_FROM
    if layout.VECTOR_FIELDS[0] not in indexes:
        how = (
            "" if setup.version_of(database) >= least else f" (an index needs {setup.shown(least)})"
        )
        return Finding("vectors", "ok", f"exact cosine, no vector index{how}")
    trained = {field for field, index in indexes.items() if setup.is_trained(index)}
    detail = f"vector index of {setup.indexed_dimension(database)} dimensions on {layout.NODES}"
    if not trained.issuperset(layout.VECTOR_FIELDS):
        fix = "search is exact until then; once enough nodes are embedded, `nodius db init` has it trained"
        return Finding("vectors", "warning", f"{detail}: not trained", fix)
    return Finding("vectors", "ok", detail)


def _statements(database: StandardDatabase) -> Finding:
    refused: list[str] = []
    scanning: list[str] = []
    statements = all_statements()
    if setup.indexed_dimension(database) is None:
        del statements["SEARCH_NEAR"]  # without its index it is refused, and is not used
    for name, statement in statements.items():
        try:
            if _reads_all(database, statement) and statement.values & _BOUNDS:
                scanning.append(name)
        except ArangoServerError as exc:
            refused.append(f"{name} (error {exc.error_code})")
    if refused:
        fix = (
            "report this with the server's version: no statement of this program should be refused"
        )
        return Finding("statements", "error", f"refused: {', '.join(refused)}", fix)
    if scanning:
        detail = f"these read a whole collection: {', '.join(scanning)}"
        return Finding("statements", "warning", detail, _INIT)
    return Finding("statements", "ok", f"{len(statements)} statements, each by an index")


def _reads_all(database: StandardDatabase, statement: Statement) -> bool:
    """Explains a statement. Returns whether its plan reads a collection without an index."""
    database.aql.validate(statement.text)
    plan: Any = database.aql.explain(statement.text, bind_vars=sample_binds(statement))
    return any(node["type"] == "EnumerateCollectionNode" for node in plan["nodes"])


def sample_binds(statement: Statement) -> dict[str, Any]:
    """Returns sample values for explaining a statement. They match no document."""
    names = statement.values - CONSTANTS.keys()
    return statement.binds({n: _SAMPLES.get(n, [] if n.endswith("s") else "x") for n in names})
