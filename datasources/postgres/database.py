"""A PostgreSQL database: opens the connections, provides sources and records, sets it up, and
reports its health.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Self, final

import psycopg

from datasources.base import Figure, Finding, MutableGraphDataSource, RecordStore
from datasources.cache import Cache
from datasources.errors import (
    DatabaseDamaged,
    DatabaseUnprepared,
    DatabaseVersion,
    SourceError,
    SourceUnavailable,
    UpgradeNeeded,
)
from datasources.notices import NoticeRouter
from datasources.postgres import schema
from datasources.postgres import statements as sql
from datasources.postgres.address import PostgresAddress
from datasources.postgres.graph_header import is_text
from datasources.postgres.listen import PostgresNotices, check_notices
from datasources.postgres.postgres_errors import translated
from datasources.postgres.records import PostgresRecords
from datasources.postgres.server_pool import ServerPool, connect
from datasources.postgres.set_up import Facts, Progress, is_usable, planned, read_facts, set_up
from datasources.postgres.source import HoldingLimits, PostgresParts, PostgresSource

_INIT = "run `nodius db init`"
_UPGRADE = "run `nodius db upgrade`"
_RESTORE = "restore a backup: `nodius restore FILE --force`"


@final
class PostgresDatabase:
    """Implements Database and Measured. Any number of servers may use it at the same time.

    With `prepared=False` the database need not be set up yet.
    """

    def __init__(
        self,
        address: PostgresAddress,
        *,
        prepared: bool = True,
        limits: HoldingLimits | None = None,
    ) -> None:
        self._address = address
        self._prepared = prepared
        self._limits = limits or HoldingLimits()
        self._parts: PostgresParts | None = None
        self._notices = NoticeRouter(PostgresNotices(address))

    @property
    def url(self) -> str:
        return self._address.shown

    @property
    def _opened(self) -> PostgresParts:
        if self._parts is None:
            raise SourceUnavailable(source=self.url, reason="the database is not open")
        return self._parts

    @property
    def round_trips(self) -> int:
        """The number of round trips to the server since the database was opened."""
        return self._opened.pool.round_trips

    def figures(self) -> list[Figure]:
        return [] if self._parts is None else self._parts.pool.figures()

    @property
    def notices(self) -> NoticeRouter:
        return self._notices

    def source(self, workspace: str) -> MutableGraphDataSource:
        return PostgresSource(self._opened, workspace)

    def records(self, workspace: str) -> RecordStore:
        return PostgresRecords(self._opened.pool, workspace, self._notices.of(workspace))

    async def workspaces(self, kind: str | None = None) -> list[str]:
        if kind is not None and not is_text(kind):
            return []
        statement = sql.WORKSPACES if kind is None else sql.RECORD_WORKSPACES
        rows = await self._opened.pool.read_all(lambda s: s.rows(statement, {"kind": kind}))
        return [name for (name,) in rows]

    async def set_up(
        self, *, dry_run: bool = False, progress: Progress = lambda _done, _total: None
    ) -> list[str]:
        """Creates missing parts and brings an older database up to date.

        Returns the actions done, or to be done if `dry_run`. Calls `progress` in another thread.
        Raises: SourceError.
        """
        done = await asyncio.to_thread(self._set_up, dry_run, progress)
        if not dry_run:
            await self._open()
        return done

    def _set_up(self, dry_run: bool, progress: Progress) -> list[str]:
        try:
            with connect(self._address) as connection:
                facts = read_facts(connection)
                self._refuse_unusable(facts)
                if dry_run:
                    return list(planned(facts))
                try:
                    return set_up(connection, progress)
                except psycopg.errors.InsufficientPrivilege as exc:
                    raise SourceUnavailable(source=self.url, reason=self._lacking(facts)) from exc
        except psycopg.Error as exc:
            raise translated(exc, self.url, self._address.timeout_s) from exc

    async def check(self) -> list[Finding]:
        try:
            found = await asyncio.to_thread(self._check)
        except SourceError as exc:
            return [Finding("database", "error", str(exc))]
        return [*found, await check_notices(self._address)]

    def _check(self) -> list[Finding]:
        began = time.perf_counter()
        try:
            with connect(self._address) as connection:
                facts = read_facts(connection)
                totals = _totals(connection) if facts.version is not None else None
        except psycopg.Error as exc:
            raise translated(exc, self.url, self._address.timeout_s) from exc
        ms = (time.perf_counter() - began) * 1e3
        return _findings(self.url, facts, totals, ms)

    async def _open(self) -> None:
        """Looks at the database and hands out sources from now on. Raises: SourceError."""
        await asyncio.to_thread(self._look)
        await self.__aexit__()
        pool = ServerPool(self._address)
        self._parts = PostgresParts(
            pool=pool,
            cache=Cache(self._limits.memory),
            limits=self._limits,
        )
        await pool.write(None, lambda s: s.rows(sql.WRITERS_FORGET, {}))

    def _look(self) -> None:
        """Raises: SourceError unless the database can be used."""
        try:
            with connect(self._address) as connection:
                facts = read_facts(connection)
        except psycopg.Error as exc:
            raise translated(exc, self.url, self._address.timeout_s) from exc
        if facts.version is None:
            raise DatabaseUnprepared(source=self.url)
        self._refuse_unusable(facts)
        if facts.outdated:
            raise UpgradeNeeded(source=self.url)
        if facts.unprotected:
            reason = f"{facts.open_tables[0]} was changed; `nodius db init` restores it"
            raise SourceUnavailable(source=self.url, reason=reason)

    def _refuse_unusable(self, facts: Facts) -> None:
        """Raises: DatabaseVersion for a database of a newer program, DatabaseDamaged if a table is
        lost.
        """
        found = facts.version or 0
        if found > schema.VERSION:
            raise DatabaseVersion(path=self.url, found=found, supported=schema.VERSION)
        if facts.lost:
            raise DatabaseDamaged(path=self.url, reason=f"without table {facts.lost[0]}")

    def _lacking(self, facts: Facts) -> str:
        """Returns which right a role needs to set the database up."""
        role = facts.role
        if facts.version is not None:
            return f"the role {role!r} may not change the tables; sign in as their owner"
        grant = f'GRANT CREATE ON DATABASE "{self._address.database}" TO "{role}"'
        return f"the role {role!r} needs a right first: {grant}"

    async def __aenter__(self) -> Self:
        if self._prepared:
            await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        parts = self._parts
        self._parts = None
        if parts is not None:
            await asyncio.to_thread(parts.pool.close)


def _totals(connection: psycopg.Connection[Any]) -> tuple[int, int, int, int] | None:
    """Returns the numbers of graphs, nodes and edges, and the size of the database in bytes."""
    with suppress(psycopg.Error), connection.transaction():
        connection.execute("SET LOCAL search_path = nodius")
        connection.execute("SET LOCAL nodius.all_workspaces = 'on'")
        return connection.execute(sql.TOTALS).fetchone()
    return None


def _findings(
    url: str, facts: Facts, totals: tuple[int, int, int, int] | None, ms: float
) -> list[Finding]:
    """Returns one finding for each part, beginning with the server."""
    found = [Finding("server", "ok", f"PostgreSQL {facts.server}")]
    if facts.version is None:
        return [*found, Finding("database", "error", f"{url} is not set up", _INIT)]
    detail = f"{url}, schema {facts.version}; looked at in {ms:,.0f} ms"
    if totals is not None:
        graphs, nodes, edges, size = totals
        detail += f": {graphs:,} graphs, {nodes:,} nodes, {edges:,} edges, {size / 1e6:,.1f} MB"
    found.append(Finding("database", "ok", detail))
    if facts.version > schema.VERSION:
        why = f"the schema has version {facts.version}, this program knows {schema.VERSION}"
        return [*found, Finding("schema", "error", why, "upgrade the program")]
    if facts.outdated:
        found.append(Finding("schema", "error", "; ".join(facts.outdated), _UPGRADE))
    if facts.lost:
        lost = ", ".join(f"table {name}" for name in facts.lost)
        found.append(Finding("set-up", "error", f"lost: {lost}", _RESTORE))
    if facts.altered:
        detail = f"changed or lost: {', '.join(facts.altered)}"
        found.append(Finding("set-up", "error", detail, _INIT))
    if facts.bypasses_security:
        detail = f"the role {facts.role!r} passes over row-level security"
        fix = "use a role that is neither superuser nor BYPASSRLS: `nodius db init --print-user-script`"
        found.append(Finding("role", "warning", detail, fix))
    else:
        found.append(Finding("role", "ok", f"row-level security holds for the role {facts.role!r}"))
    found.append(_vectors(facts))
    return found


def _vectors(facts: Facts) -> Finding:
    exact = "exact cosine, in the memory of the service"
    if not facts.has_halves:
        older = facts.pgvector or facts.pgvector_offered
        if older is None:
            return Finding("vectors", "ok", f"{exact}; the server does not offer pgvector")
        if not is_usable(older):
            return Finding("vectors", "ok", f"{exact}; pgvector {older} is older than 0.8")
        fix = _INIT
        if facts.pgvector is None and not facts.may_add_pgvector:
            fix = "a superuser runs CREATE EXTENSION vector, then `nodius db init`"
        return Finding("vectors", "ok", f"{exact}; pgvector {older} is offered", fix)
    if facts.unindexed:
        models = ", ".join(f"{model} ({count:,})" for model, _, count in facts.unindexed)
        return Finding("vectors", "warning", f"without an index: {models}", _INIT)
    return Finding("vectors", "ok", f"pgvector {facts.pgvector}: exact, and by an index (HNSW)")
