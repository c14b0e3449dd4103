"""A database whose View has seen all that was written before it is asked, as one of a real
server has not.

Source: ArangoDB 3.12 documentation, "ArangoSearch Views": a commit every second
(`commitIntervalMsec`), and `waitForSync` of SEARCH, which is for tests and must not stand
in a transaction.
"""

from __future__ import annotations

from typing import Any, Self

from datasources.arango import ArangoDatabase
from datasources.arango.connection import ArangoConnection
from datasources.arango.statements import Statement

SYNC = Statement("FOR n IN @@view SEARCH true OPTIONS {waitForSync: true} LIMIT 1 RETURN 1")


class SyncedDatabase(ArangoDatabase):
    """Slower than the database it is, and the same otherwise."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        _sync(self.state.connection)
        return self


def _sync(connection: ArangoConnection) -> None:
    ask = connection.query

    async def query(statement: Statement, **values: Any) -> list[Any]:
        if "view" in statement.collections:
            await ask(SYNC)
        return await ask(statement, **values)

    connection.query = query  # type: ignore[method-assign]
