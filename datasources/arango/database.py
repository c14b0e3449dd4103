"""An ArangoDB database: opens the way to it, hands out sources and records, reports its health."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

from datasources.arango.address import ArangoAddress
from datasources.arango.checking import examine
from datasources.arango.connection import ArangoConnection
from datasources.arango.engine import Engine, Limits
from datasources.arango.intents import recover
from datasources.arango.migrations import VERSION, stored_version
from datasources.arango.missing import rehearse
from datasources.arango.records import ArangoRecords
from datasources.arango.server_version import is_exact_only, version_of
from datasources.arango.setup import set_up
from datasources.arango.source import ArangoSource
from datasources.arango.statements_reading import WORKSPACES
from datasources.arango.statements_setup import ORDER
from datasources.arango.vectors import indexed_dimension
from datasources.base import Finding, MutableGraphDataSource, RecordStore
from datasources.errors import DatabaseUnprepared, SourceError, SourceUnavailable


class ArangoDatabase:
    """Implements Database. Any number of servers may use it at the same time.

    Opened to be `prepared`, it need not be there yet.
    """

    def __init__(
        self, address: ArangoAddress, *, prepared: bool = True, limits: Limits | None = None
    ) -> None:
        self._address = address
        self._prepared = prepared
        self._limits = limits or Limits()
        self._engine: Engine | None = None

    @property
    def url(self) -> str:
        return self._address.shown

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise SourceUnavailable(source=self.url, reason="the database is not open")
        return self._engine

    def source(self, workspace: str) -> MutableGraphDataSource:
        return ArangoSource(self.engine, workspace)

    def records(self, workspace: str) -> RecordStore:
        return ArangoRecords(self.engine.connection, workspace)

    async def set_up(self) -> list[str]:
        """Make what is missing and migrate; return what was done. Raises: SourceError."""
        done = await set_up(self.engine.connection)
        await self._look()
        return done

    async def rehearse(self) -> list[str]:
        """Return what `set_up` would do; makes nothing. Raises: SourceError."""
        return await rehearse(self.engine.connection)

    async def workspaces(self) -> list[str]:
        return sorted(await self.engine.connection.query(WORKSPACES))

    async def check(self) -> list[Finding]:
        began = time.perf_counter()
        try:
            return await examine(self.engine.connection, began)
        except SourceError as exc:
            return [Finding(name="database", status="error", detail=str(exc))]

    async def _look(self) -> None:
        engine = self.engine
        if await stored_version(engine.connection) < VERSION:
            raise DatabaseUnprepared(source=self.url)
        await recover(engine.connection)
        engine.indexed_dim, order = await asyncio.gather(
            engine.connection.run(indexed_dimension, idempotent=True), engine.connection.query(ORDER)
        )
        version = await engine.connection.run(version_of, idempotent=True)
        engine.exact_only = is_exact_only(version)
        engine.by_code_point = bool(order[0]) and not engine.exact_only

    async def __aenter__(self) -> Self:
        connection = ArangoConnection(self._address)
        connection.open()
        self._engine = Engine(connection, self._limits)
        if self._prepared:
            try:
                await self._look()
            except BaseException:
                await self._close()
                raise
        return self

    async def _close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.connection.close()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._close()
