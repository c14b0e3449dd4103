"""The way to an ArangoDB server: python-arango in worker threads, translated errors, bounded time.

Decision: python-arango's synchronous client in threads of our own rather than its asynchronous
sister: fail-over between hosts works, and the HTTP client under it can be replaced.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import orjson
from arango.client import ArangoClient
from arango.cursor import Cursor
from arango.database import StandardDatabase

from datasources.arango.address import ArangoAddress
from datasources.arango.errors import CURSOR_LOST, EXPECTED, ServerRefused, WriteConflict, translate
from datasources.arango.http import BoundedHttp
from datasources.arango.statements import Statement
from datasources.errors import DatabaseUnprepared, SourceError, SourceTimeout, SourceUnavailable

T = TypeVar("T")

THREADS = 16
BATCH = 10_000
READ_ATTEMPTS = 3
WRITE_ATTEMPTS = 8
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.5


class ArangoConnection:
    """Opened once, shared by all sources. Nothing is sent before the first question."""

    def __init__(self, address: ArangoAddress) -> None:
        self.address = address
        self._http = BoundedHttp(source=address.shown, timeout_s=address.timeout_s, verify=address.verify)
        self._threads: ThreadPoolExecutor | None = None
        self._client: ArangoClient | None = None
        self._database: StandardDatabase | None = None

    @property
    def source(self) -> str:
        """The address as errors name it."""
        return self.address.shown

    def open(self) -> None:
        """Make client and threads; they must not cross a fork."""
        hosts = list(self.address.hosts)
        self._client = ArangoClient(
            hosts=hosts,
            host_resolver="fallback",
            resolver_max_tries=len(hosts),
            http_client=self._http,
            verify_override=self.address.verify,
            serializer=_to_json,
            deserializer=orjson.loads,
        )
        self._database = self.database_named(self.address.database)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="arango")

    def database_named(self, name: str) -> StandardDatabase:
        """Return a handle on a database of the server; sends nothing."""
        if self._client is None:
            raise SourceUnavailable(source=self.source, reason="the database is not open")
        return self._client.db(name, username=self.address.user, password=self.address.password)

    async def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
        if self._client is not None:
            self._client.close()
            self._http.close()
            self._client = self._database = None

    async def run(self, work: Callable[[StandardDatabase], T], *, idempotent: bool = False) -> T:
        """Run blocking `work` in a thread. What only reads, or may as well happen twice, is tried again.

        A statement that took too long is not tried again. Raises: SourceTimeout, SourceUnavailable.
        """
        attempts = READ_ATTEMPTS if idempotent else 1
        for attempt in range(1, attempts + 1):
            try:
                return await self._once(work)
            except SourceTimeout:
                raise
            except SourceUnavailable as exc:
                if attempt == attempts or not _may_pass(exc):
                    raise
            await asyncio.sleep(pause_s(attempt))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _once(self, work: Callable[[StandardDatabase], T]) -> T:
        database, threads = self._database, self._threads
        if database is None or threads is None:
            raise SourceUnavailable(source=self.source, reason="the database is not open")

        def translated() -> T:
            try:
                return work(database)
            except SourceError:
                raise
            except EXPECTED as exc:
                raise translate(exc, source=self.source, timeout_s=self.address.timeout_s) from exc

        return await asyncio.get_running_loop().run_in_executor(threads, translated)

    async def query(self, statement: Statement, **values: Any) -> list[Any]:
        """Run one statement and return its rows. Reads are tried again; a write that lost a race is too.

        Raises: SourceTimeout, SourceUnavailable (ServerRefused carries the server's error number).
        """
        attempt = 1
        while True:
            try:
                return await self.run(
                    lambda database: self.execute(database, statement, values),
                    idempotent=not statement.writes or statement.idempotent,
                )
            except WriteConflict:
                if not statement.repeatable or attempt == WRITE_ATTEMPTS:
                    raise
            await asyncio.sleep(pause_s(attempt))
            attempt += 1

    def execute(
        self, database: StandardDatabase, statement: Statement, values: Mapping[str, Any]
    ) -> list[Any]:
        """Run one statement here and now, on the database or on a stream transaction of it."""
        cursor = cast(
            Cursor,
            database.aql.execute(
                statement.text,
                bind_vars=statement.binds(values),
                batch_size=BATCH,
                memory_limit=cast(int, None),  # python-arango's 0 would lift the server's own limit
                max_runtime=cast(Any, self.address.timeout_s),
            ),
        )
        # Read to its end a cursor is gone; one left behind by an error lapses at the server.
        return list(cast("list[Any]", cursor))


def pause_s(attempt: int) -> float:
    """Return how long to wait after a failed attempt (1, 2, …): twice as long each time, with jitter."""
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)


def _may_pass(exc: SourceUnavailable) -> bool:
    """Say whether the same question may be answered a moment later."""
    if isinstance(exc, ServerRefused):
        return exc.code == CURSOR_LOST
    return not isinstance(exc, DatabaseUnprepared)


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()
