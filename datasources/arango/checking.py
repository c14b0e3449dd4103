"""Examines a database and its server: version, what is set up, whether each statement runs with an index."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import layout
from datasources.arango import statements_setup as aql
from datasources.arango.catalogue import all_statements
from datasources.arango.connection import ArangoConnection
from datasources.arango.migrations import VERSION, stored_version
from datasources.arango.missing import missing_parts
from datasources.arango.names import NODES, VIEW
from datasources.arango.server_version import FULL, SAFE, is_exact_only, shown, version_of, why_refused
from datasources.arango.statements import CONSTANTS, Statement
from datasources.arango.statements_large import SEARCH_NEAR
from datasources.arango.vectors import LEAST_VERSION, indexed_dimension, usable_fields
from datasources.base import Finding

_SHOWN = 5
_INIT = "run `nodius db init`"
_SCANS = frozenset({"COUNT_WITHOUT_WORDS", "WITHOUT_WORDS", "VECTOR_LENGTHS", "WORKSPACES"})
"""Statements of set-up, of this check and of a command over all workspaces: meant to read all they read."""

_SAMPLES: Mapping[str, Any] = {
    "depth": 1, "limit": 1, "candidates": 1, "lenders": [], "lendersOf": [[]], "bareLendersOf": [[]],
    "nameLendersOf": [[]],
    "links": 1, "first": 1, "least": 0, "prefix": 2, "version": 1, "typed": True,
    "terms": ["x"], "places": [0], "vector": [1, 0], "lent": {}, "sheet": None, "types": None, "others": [],
    "document": {"_key": "x"}, "mark": {"_key": "x"}, "workspaces": ["x", "root"], "kept": ["x"],
    "unlent": {"letters": "", "variants": []},
}  # fmt: skip
_ORDER = Finding(
    name="order",
    status="warning",
    detail="the server orders text by a language, not by code points: pages of a graph read all of it",
    fix="deployments made with ArangoDB 3.12 order by code points; restore a dump into a new one",
)
_LISTS = ("docs", "documents", "writes", "vectors")


async def examine(connection: ArangoConnection, began: float) -> list[Finding]:
    """Return one finding a part, the server first. Raises: SourceError where it does not answer."""
    version = await stored_version(connection)
    numbers = (await connection.query(aql.COUNT_WITHOUT_WORDS, limit=1_000))[0]
    server, *rest = await connection.run(_look, idempotent=True)
    order = (await connection.query(aql.ORDER))[0]
    ms = (time.perf_counter() - began) * 1e3
    counts = f"{numbers['graphs']:,} graphs, {numbers['nodes']:,} nodes, {numbers['edges']:,} edges"
    detail = f"{connection.source}, version {version}: {counts}; looked at in {ms:,.0f} ms"
    parts = [server, _version(detail, version), _words(numbers["missing"]), *rest]
    return parts if order else [*parts, _ORDER]


def _version(detail: str, version: int) -> Finding:
    if version < VERSION:
        return Finding(name="database", status="error", detail=f"{detail}; needs {VERSION}", fix=_INIT)
    return Finding(name="database", status="ok", detail=detail)


def _words(missing: int) -> Finding:
    if not missing:
        return Finding(name="words", status="ok", detail="every node is found by its words")
    many = f"{missing:,}" if missing < 1_000 else "1,000 or more"
    detail = f"{many} nodes were written by another program and are searched as plain text"
    return Finding(name="words", status="warning", detail=detail, fix=_INIT)


def _look(database: StandardDatabase) -> list[Finding]:
    return [look_at_server(database), _parts(database), _vectors(database), *_statements(database)]


def look_at_server(database: StandardDatabase) -> Finding:
    """Say which server it is, and what speaks against it."""
    details: Any = database.version(details=True)
    version = version_of(database)
    edition = f"{details.get('license', 'unknown')} edition"
    if not version:
        fix = "see with an administrator's sign-in which one it is; a hardened server tells nobody else"
        return Finding(
            name="server", status="warning", detail=f"ArangoDB of a version not told, {edition}", fix=fix
        )
    name = f"ArangoDB {details['version']}, {edition}"
    if why := why_refused(version):
        fix = f"upgrade the server to {shown(FULL)} or later"
        return Finding(name="server", status="error", detail=f"{name} {why}", fix=fix)
    if is_exact_only(version):
        detail = f"{name}: exact search only, no vector index, and pages of a graph read all of it"
        fix = f"large graphs are faster with {shown(SAFE)} or later"
        return Finding(name="server", status="warning", detail=detail, fix=fix)
    if version < SAFE:
        detail = f"{name}: whoever reaches it may get in without signing in (GHSA-rrgq-978q-36mq)"
        fix = f"upgrade the server to {shown(SAFE)} or later"
        return Finding(name="server", status="warning", detail=detail, fix=fix)
    return Finding(name="server", status="ok", detail=name)


def _parts(database: StandardDatabase) -> Finding:
    missing = missing_parts(database)
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if missing[_SHOWN:] else ""
        detail = f"missing: {', '.join(missing[:_SHOWN])}{more}"
        return Finding(name="set-up", status="error", detail=detail, fix=_INIT)
    indexes = sum(len(bodies) for bodies in layout.all_indexes().values())
    detail = f"{len(layout.ALL_COLLECTIONS)} collections, {indexes} indexes, the View {VIEW}"
    return Finding(name="set-up", status="ok", detail=detail)


def _vectors(database: StandardDatabase) -> Finding:
    dimension = indexed_dimension(database)
    if dimension is None:
        how = "" if version_of(database) >= LEAST_VERSION else f" (an index needs {shown(LEAST_VERSION)})"
        return Finding(name="vectors", status="ok", detail=f"exact cosine, no vector index{how}")
    trained = usable_fields(database)
    waiting = [field for field in layout.VECTOR_FIELDS if field not in trained]
    detail = f"vector index of {dimension} dimensions on {NODES}"
    if waiting:
        fix = "it is trained once enough nodes are embedded; until then search is exact"
        return Finding(name="vectors", status="warning", detail=f"{detail}: not trained", fix=fix)
    return Finding(name="vectors", status="ok", detail=detail)


def _statements(database: StandardDatabase) -> list[Finding]:
    statements = all_statements()
    refused: list[str] = []
    scanning: list[str] = []
    near = indexed_dimension(database) is not None
    for statement in statements:
        if statement is SEARCH_NEAR and not near:
            continue  # without its index it is refused, and is not used
        try:
            if _reads_all(database, statement) and statement.name not in _SCANS:
                scanning.append(statement.name)
        except ArangoServerError as exc:
            refused.append(f"{statement.name} (error {exc.error_code})")
    if refused:
        fix = "report this with the server's version: no statement of this program should be refused"
        return [Finding(name="statements", status="error", detail=f"refused: {', '.join(refused)}", fix=fix)]
    if scanning:
        detail = f"these read a whole collection: {', '.join(scanning)}"
        return [Finding(name="statements", status="warning", detail=detail, fix=_INIT)]
    return [Finding(name="statements", status="ok", detail=f"{len(statements)} statements, each by an index")]


def _reads_all(database: StandardDatabase, statement: Statement) -> bool:
    """Validate and explain a statement; say whether its plan reads a collection without an index."""
    database.aql.validate(statement.text)
    plan: Any = database.aql.explain(statement.text, bind_vars=sample_binds(statement))
    return any(node["type"] == "EnumerateCollectionNode" for node in plan["nodes"])


def sample_binds(statement: Statement) -> dict[str, Any]:
    """Return values with which a statement can be explained; they find nothing."""
    values = {name: _sample(name) for name in statement.values if name not in CONSTANTS}
    return statement.binds(values)


def _sample(name: str) -> Any:
    if name in _SAMPLES:
        return _SAMPLES[name]
    if name in _LISTS or name.endswith(("Keys", "Ids")) or name in ("keys", "ids", "seeds", "names"):
        return []
    return "x"
