"""An ArangoDB database: opens the way to it, hands out sources and records, reports its health."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

from arango.database import StandardDatabase

from datasources.arango.address import ArangoAddress
from datasources.arango.connection import ArangoConnection
from datasources.arango.examination import examine
from datasources.arango.layout import RECORD_COLLECTIONS
from datasources.arango.records import ArangoRecords
from datasources.arango.search import EXACT_NODES, NO_LIMIT, SharedState
from datasources.arango.setup import (
    VERSION,
    indexed_dimension,
    is_exact_only,
    refuse_sharded,
    rehearse,
    set_up,
    stored_version,
    version_of,
)
from datasources.arango.source import ArangoSource
from datasources.arango.statements_read import ORDER, RECORD_WORKSPACES, WORKSPACES
from datasources.base import Finding, MutableGraphDataSource, RecordStore
from datasources.errors import DatabaseUnprepared, SourceError, SourceUnavailable
from datasources.types import is_storable


class ArangoDatabase:
    """Implements Database. Any number of servers may use it at the same time.

    Opened to be `prepared`, it need not be there yet. Graphs of up to `exact_nodes` are searched exactly.
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

    def source(self, workspace: str) -> MutableGraphDataSource:
        return ArangoSource(self.state, workspace)

    def records(self, workspace: str) -> RecordStore:
        return ArangoRecords(self.state.connection, workspace)

    async def set_up(self) -> list[str]:
        """Make what is missing and migrate; return what was done. Raises: SourceError."""
        done = await set_up(self.state.connection)
        await self._look()
        return done

    async def rehearse(self) -> list[str]:
        """Return what `set_up` would do; makes nothing. Raises: SourceError."""
        return await rehearse(self.state.connection)

    async def workspaces(self, kind: str | None = None) -> list[str]:
        connection = self.state.connection
        if kind is None:
            return sorted(await connection.query(WORKSPACES))
        if not is_storable(kind):
            return []
        of_kind = None if kind in RECORD_COLLECTIONS else kind
        return sorted(await connection.query(RECORD_WORKSPACES, kind=kind, of_kind=of_kind))

    async def check(self) -> list[Finding]:
        began = time.perf_counter()
        try:
            return await examine(self.state.connection, began)
        except SourceError as exc:
            return [Finding(name="database", status="error", detail=str(exc))]

    async def _look(self) -> None:
        state, connection = self.state, self.state.connection
        if await stored_version(connection) < VERSION:
            raise DatabaseUnprepared(source=self.url)

        def look(database: StandardDatabase) -> tuple[int | None, tuple[int, ...]]:
            refuse_sharded(database, source=connection.source)
            return indexed_dimension(database), version_of(database)

        (state.indexed_dim, version), order = await asyncio.gather(
            connection.run(look, idempotent=True), connection.query(ORDER)
        )
        exact_only = is_exact_only(version)
        state.exact = NO_LIMIT if exact_only else self._exact_nodes
        state.by_code_point = bool(order[0]) and not exact_only

    async def __aenter__(self) -> Self:
        self._state = SharedState(ArangoConnection(self._address))
        if self._prepared:
            try:
                await self._look()
            except BaseException:
                await self.__aexit__(None, None, None)
                raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        state, self._state = self._state, None
        if state is not None:
            await state.connection.close()
