"""Examines a database and its server without changing them: versions, missing parts, plans of statements."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import layout, setup, statements_search, statements_write
from datasources.arango import statements_read as read
from datasources.arango.connection import ArangoConnection
from datasources.arango.graph_documents import NO_WORDS
from datasources.arango.layout import NODES, VIEW
from datasources.arango.statements import CONSTANTS, Statement
from datasources.base import Finding

STATEMENT_MODULES = (read, statements_search, statements_write)

_SHOWN = 5
_INIT = "run `nodius db init`"
_READ_ALL = frozenset(
    (
        "COUNT_WITHOUT_WORDS",
        "RECORD_WORKSPACES",
        "VECTOR_LENGTHS",
        "WITHOUT_WORDS",
        "WITH_LANGUAGE",
        "WORKSPACES",
    )
)
"""Statements of set-up, of this check and of work over all workspaces: meant to read a collection."""

_SAMPLES: Mapping[str, Any] = {
    **dict.fromkeys(("depth", "limit", "most", "width", "enough", "next", "candidates", "links", "first"), 1),
    "prefix": 1, "version": 1, "document": {"_key": "x"}, "mark": {"_key": "x"},
    "least": 0, "typed": True, "whole": True, "terms": ["x"], "places": [0], "vector": [1, 0], "sheet": None,
    "workspaces": ["x", "root"], "kept": ["x"], "inherited": {}, "unknown": NO_WORDS.inherited(["x"]),
}  # fmt: skip
"""Values to explain a statement with; other names in the plural are lists, the rest is text."""


def all_statements() -> dict[str, Statement]:
    """Return every statement by name."""
    found = [item for module in STATEMENT_MODULES for item in vars(module).items()]
    statements = {name: value for name, value in found if isinstance(value, Statement)}
    return dict(sorted(statements.items()))


async def examine(connection: ArangoConnection, began: float) -> list[Finding]:
    """Return one finding a part, the server first. Raises: SourceError where it does not answer."""
    await connection.run(lambda database: setup.refuse_sharded(database, source=connection.source))
    version = await setup.stored_version(connection)
    numbers = (await connection.query(read.COUNT_WITHOUT_WORDS, limit=1_000))[0]
    server, *rest = await connection.run(_look, idempotent=True)
    order = (await connection.query(read.ORDER))[0]
    ms = (time.perf_counter() - began) * 1e3
    counts = f"{numbers['graphs']:,} graphs, {numbers['nodes']:,} nodes, {numbers['edges']:,} edges"
    detail = f"{connection.source}, version {version}: {counts}; looked at in {ms:,.0f} ms"
    found = [server, _version(detail, version), _words(numbers["missing"]), *rest]
    return found if order else [*found, _ORDER]


_ORDER = Finding(
    name="order",
    status="warning",
    detail="the server orders text by a language, not by code points: pages of a graph read all of it",
    fix="deployments made with ArangoDB 3.12 order by code points; restore a dump into a new one",
)


def _version(detail: str, version: int) -> Finding:
    if version < setup.VERSION:
        return Finding("database", "error", f"{detail}; needs {setup.VERSION}", _INIT)
    return Finding("database", "ok", detail)


def _words(missing: int) -> Finding:
    if not missing:
        return Finding("words", "ok", "every node is found by its words")
    many = f"{missing:,}" if missing < 1_000 else "1,000 or more"
    detail = f"{many} nodes were written by another program, and not all words find them"
    return Finding("words", "warning", detail, _INIT)


def _look(database: StandardDatabase) -> list[Finding]:
    return [look_at_server(database), _parts(database), _vectors(database), _statements(database)]


def look_at_server(database: StandardDatabase) -> Finding:
    """Return which server it is, and what speaks against it."""
    details: Any = database.version(details=True)
    version, edition = setup.version_of(database), f"{details.get('license', 'unknown')} edition"
    upgrade = f"upgrade the server to {setup.shown(setup.SAFE)} or later"
    if not version:
        name = f"ArangoDB of an unnamed version, {edition}"
        fix = "see with an administrator's sign-in which one it is; a hardened server names it to nobody else"
        return Finding("server", "warning", name, fix)
    name = f"ArangoDB {details['version']}, {edition}"
    if why := setup.why_refused(version):
        return Finding("server", "error", f"{name} {why}", upgrade)
    if setup.is_exact_only(version):
        detail = f"{name}: exact search only, no vector index, and pages of a graph read all of it"
        return Finding("server", "warning", detail, upgrade)
    if version < setup.SAFE:
        detail = f"{name}: it may let people in without signing in (GHSA-rrgq-978q-36mq)"
        return Finding("server", "warning", detail, upgrade)
    return Finding("server", "ok", name)


def _parts(database: StandardDatabase) -> Finding:
    missing = [part for part, _ in setup.missing_parts(database)]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if missing[_SHOWN:] else ""
        detail = f"missing: {', '.join(missing[:_SHOWN])}{more}"
        return Finding("set-up", "error", detail, _INIT)
    indexes = sum(map(len, layout.all_indexes().values()))
    detail = f"{len(layout.ALL_COLLECTIONS)} collections, {indexes} indexes, the View {VIEW}"
    return Finding("set-up", "ok", detail)


def _vectors(database: StandardDatabase) -> Finding:
    indexes = setup.vector_indexes(database)
    least = setup.VECTOR_INDEX_FROM
    if layout.VECTOR_FIELDS[0] not in indexes:
        how = "" if setup.version_of(database) >= least else f" (an index needs {setup.shown(least)})"
        return Finding("vectors", "ok", f"exact cosine, no vector index{how}")
    trained = {field for field, index in indexes.items() if index.get("trainingState", "ready") == "ready"}
    detail = f"vector index of {setup.indexed_dimension(database)} dimensions on {NODES}"
    if not trained.issuperset(layout.VECTOR_FIELDS):
        fix = "it is trained once enough nodes are embedded; until then search is exact"
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
            if _reads_all(database, statement) and name not in _READ_ALL:
                scanning.append(name)
        except ArangoServerError as exc:
            refused.append(f"{name} (error {exc.error_code})")
    if refused:
        fix = "report this with the server's version: no statement of this program should be refused"
        return Finding("statements", "error", f"refused: {', '.join(refused)}", fix)
    if scanning:
        detail = f"these read a whole collection: {', '.join(scanning)}"
        return Finding("statements", "warning", detail, _INIT)
    return Finding("statements", "ok", f"{len(statements)} statements, each by an index")


def _reads_all(database: StandardDatabase, statement: Statement) -> bool:
    """Validate and explain a statement; return whether its plan reads a collection without an index."""
    database.aql.validate(statement.text)
    plan: Any = database.aql.explain(statement.text, bind_vars=sample_binds(statement))
    return any(node["type"] == "EnumerateCollectionNode" for node in plan["nodes"])


def sample_binds(statement: Statement) -> dict[str, Any]:
    """Return values with which a statement can be explained; they find nothing."""
    asked = statement.values - CONSTANTS.keys()
    return statement.binds({n: _SAMPLES.get(n, [] if n.endswith("s") else "x") for n in asked})
