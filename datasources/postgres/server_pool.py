"""Connections to the server and the threads that use them: readers and writers.

Decision: connections are synchronous and each belongs to a worker thread. Parsing a graph of
thousands of documents takes longer than the event loop may be held up, so it has to run in a thread
anyway; a thread whose connection was lost makes a new one at its next use, which is when the server
that took over is found.

Decision: a transaction whose end is unknown (the connection was lost during COMMIT) is looked up by
a number that it wrote to the row of its writer. `pg_xact_status` would not do: a replica that takes
over may use the same transaction number again.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, final

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.errors import Diagnostic
from psycopg.pq import Format, TransactionStatus

from datasources.base import Figure
from datasources.errors import SourceBusy, SourceError, SourceUnavailable
from datasources.postgres import statements as sql
from datasources.postgres.address import PostgresAddress
from datasources.postgres.answer_watch import AnswerWatch
from datasources.postgres.pool_figures import PoolFigures
from datasources.postgres.postgres_errors import (
    UNREACHABLE,
    is_elsewhere,
    may_be_repeated,
    translated,
)
from datasources.store_spans import traced

T = TypeVar("T")
Row = tuple[Any, ...]
Values = Mapping[str, Any]
# Entered around each round trip of a connection, with the number of statements.
Trip = Callable[[psycopg.Connection[Row], int], AbstractContextManager[None]]

SYSTEM = "postgresql"
PATIENCE_S = 10.0  # how long work waits for a server that went away, such as for a failover
PAUSE_S = 0.1  # between two attempts
ATTEMPTS = 5  # of a transaction that others were in the way of
TRY_S = 0.25  # for another thread's connection to a server that was away; a LAN takes less
QUEUE_S = 30.0  # how long work waits for a connection that others use
LOCK_S = 10.0  # for the lock of a graph that another transaction changes
WRITER_SHARE = 0.4  # of all connections
_UNKNOWN_END = "it did not confirm the end of a transaction, which may have been stored"


class _Unconfirmed(Exception):
    """A transaction was committed, but no replica has confirmed it in time."""


class _StoredJson(Loader):
    """Returns JSON as the bytes that are stored: documents are parsed where they are used."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


@final
@dataclass(frozen=True, slots=True)
class Bound:
    """A statement with its values."""

    statement: str
    values: Values


@final
class Session:
    """One transaction of a workspace. Statements that are sent together take one round trip."""

    def __init__(
        self,
        connection: psycopg.Connection[Row],
        begin: Sequence[Bound],
        trip: Trip,
        *,
        keeps_open: bool,
    ) -> None:
        self._connection = connection
        self._trip = trip
        self._begin = begin
        self._keeps_open = keeps_open
        self._is_open = False
        self._payloads: list[str] = []

    def tell(self, payloads: Sequence[str]) -> None:
        """Tells other servers of changes of this transaction, after it is committed."""
        self._payloads += payloads

    def batch(self, *statements: Bound) -> list[list[Row]]:
        """Runs statements in one round trip and returns the rows of each."""
        before: Sequence[Bound] = () if self._is_open else self._begin
        after: Sequence[Bound] = () if self._keeps_open else (Bound(sql.COMMIT, {}),)
        together = (*before, *statements, *after)
        with self._trip(self._connection, len(together)), self._connection.pipeline():
            cursors = [self._run(bound) for bound in together]
        self._is_open = self._keeps_open
        return [_rows(cursor) for cursor in cursors[len(before) : len(before) + len(statements)]]

    def rows(self, statement: str, values: Values) -> list[Row]:
        """Runs one statement and returns its rows."""
        [rows] = self.batch(Bound(statement, values))
        return rows

    @contextmanager
    def moment(self) -> Generator[None]:
        """Runs the statements of the block at one moment of the database."""
        if self._keeps_open:
            yield
            return
        self._keeps_open = True
        try:
            yield
        finally:
            self._keeps_open = False
            self.commit()

    def commit(self) -> None:
        """Ends the transaction, if it has begun, and tells of it in the same round trip.

        PostgreSQL commits transactions that tell something one after the other, each until it is on
        disk: with 8 clients 470 a second in place of 2,500. So the one that tells is another one,
        which is not waited for: 1,800 a second.
        Raises: _Unconfirmed.
        """
        if not self._is_open:
            return
        self._is_open = False
        # A server whose wait for its synchronous replica is cancelled acknowledges the
        # commit with a warning.
        severities: list[str | None] = []

        def note(notice: Diagnostic) -> None:
            severities.append(notice.severity_nonlocalized)  # which is readable only now

        self._connection.add_notice_handler(note)
        try:
            with self._trip(self._connection, 2), self._connection.pipeline():
                self._run(Bound(sql.COMMIT, {}))
                if self._payloads:
                    self._run(Bound(sql.NOTIFY, {"payloads": self._payloads}))
        finally:
            self._connection.remove_notice_handler(note)
        if "WARNING" in severities:
            raise _Unconfirmed

    def _run(self, bound: Bound) -> psycopg.Cursor[Row]:
        cursor = self._connection.cursor(binary=True)
        # Statements are constants of this package; values are bound.
        return cursor.execute(bound.statement.encode(), bound.values or None)


def _rows(cursor: psycopg.Cursor[Row]) -> list[Row]:
    return cursor.fetchall() if cursor.description is not None else []


@final
@dataclass(slots=True)
class _WriterMark:
    """A writer's row: how a transaction whose end is unknown is looked up."""

    id: uuid.UUID
    number: int = 0


@final
class ServerPool:
    """Runs work in threads, each with its own connection. Raises: SourceError.

    `losses` counts the connections that were lost, `round_trips` those to the server.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self.source = address.shown
        self._address = address
        writers = max(1, round(address.pool * WRITER_SHARE))
        readers = max(1, address.pool - writers)
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="postgres-read")
        self._writers = ThreadPoolExecutor(writers, thread_name_prefix="postgres-write")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._open: set[psycopg.Connection[Row]] = set()
        self._down_since: float | None = None
        self._trying = threading.Lock()
        self._watch = AnswerWatch(address.timeout_s)
        self._figures = PoolFigures()
        self._closed = False
        self.losses = 0
        self._server: str | None = None  # when the server of the last connection was started

    @property
    def round_trips(self) -> int:
        """The number of round trips to the server so far."""
        return self._watch.round_trips

    def figures(self) -> list[Figure]:
        """Returns the figures of connections and of work."""
        return self._figures.read(connections=len(self._open), round_trips=self.round_trips)

    async def read(self, workspace: str, work: Callable[[Session], T]) -> T:
        """Runs `work` in a reader's thread."""
        return await self._in(self._readers, "read", lambda: self._read(workspace, work))

    async def read_all(self, work: Callable[[Session], T]) -> T:
        """Runs `work` on the rows of all workspaces."""
        return await self._in(self._readers, "read", lambda: self._read(None, work))

    async def write(self, workspace: str | None, work: Callable[[Session], T]) -> T:
        """Runs `work` in one transaction, once, also if the caller is cancelled.

        `work` may be called again after a failure that left nothing behind. With `workspace` None
        it sees all workspaces.
        """
        writing = self._in(self._writers, "write", lambda: self._write(workspace, work))
        return await asyncio.shield(asyncio.ensure_future(writing))

    async def _in(self, threads: ThreadPoolExecutor, operation: str, work: Callable[[], T]) -> T:
        self.check_open()
        with traced(SYSTEM, operation), self._figures.waiting():
            asked_time = time.monotonic()
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    threads, lambda: self._begin(operation, asked_time, work)
                )
            except RuntimeError:
                self.check_open()  # it may have been closed meanwhile
                raise

    def _begin(self, operation: str, asked_time: float, work: Callable[[], T]) -> T:
        """Does work for which a thread became free, unless that was too late."""
        if time.monotonic() - asked_time > QUEUE_S:
            reason = f"all its connections were in use for {QUEUE_S:g} s"
            raise SourceBusy(source=self.source, reason=reason)
        with self._figures.busy(operation):
            return work()

    def check_open(self) -> None:
        """Raises: SourceUnavailable when the pool is closed."""
        if self._closed:
            raise SourceUnavailable(source=self.source, reason="the database is closed")

    def _read(self, workspace: str | None, work: Callable[[Session], T]) -> T:
        def once(connection: psycopg.Connection[Row]) -> T:
            begin = [Bound(sql.BEGIN_READ, {}), self._scope(workspace)]
            return work(Session(connection, begin, self._watch.answer, keeps_open=False))

        return self._repeated(once)

    def _write(self, workspace: str | None, work: Callable[[Session], T]) -> T:
        unknown: list[T] = []  # the result of a transaction whose end is unknown

        def once(connection: psycopg.Connection[Row]) -> T:
            writer = self._writer()
            if unknown and self._has_committed(connection, writer):
                return unknown[0]
            unknown.clear()
            writer.number += 1
            mark = Bound(sql.WRITER_PUT, {"id": writer.id, "number": writer.number})
            begin = [Bound(sql.BEGIN_WRITE, {}), self._scope(workspace), mark]
            session = Session(connection, begin, self._watch.answer, keeps_open=True)
            result = work(session)
            unknown.append(result)
            session.commit()
            unknown.clear()
            return result

        try:
            return self._repeated(once)
        except (SourceError, _Unconfirmed) as exc:
            if unknown:
                self._local.writer = None  # its row may be locked until the transaction ends
                raise SourceUnavailable(source=self.source, reason=_UNKNOWN_END) from exc
            raise

    def _has_committed(self, connection: psycopg.Connection[Row], writer: _WriterMark) -> bool:
        """Returns True if the writer's last transaction was committed, once it has ended.

        It writes, because a commit that a replica has confirmed confirms those before it.
        """
        begin = [Bound(sql.BEGIN_WRITE, {}), self._scope(None)]
        session = Session(connection, begin, self._watch.answer, keeps_open=True)
        rows = session.rows(sql.WRITER_LOOK_UP, {"id": writer.id})
        session.commit()
        return rows == [(writer.number,)]

    def _repeated(self, once: Callable[[psycopg.Connection[Row]], T]) -> T:
        """Calls `once`, again on a new connection if the server went away, or others were in the
        way.
        """
        attempts = 0
        failed_time: float | None = None  # when the server was first found away
        while True:
            try:
                result = once(self._mine())
            except psycopg.Error as exc:
                self._figures.failed(exc)
                attempts += 1
                if is_elsewhere(exc):
                    self._drop()
                    failed_time = failed_time or time.monotonic()
                    if self._may_wait(failed_time):
                        time.sleep(PAUSE_S)
                        continue
                elif may_be_repeated(exc) and attempts < ATTEMPTS:
                    continue
                self._figures.is_back(failed_time)
                raise translated(exc, self.source, self._address.timeout_s) from exc
            except StopIteration as exc:  # a future cannot hold it; the caller would wait forever
                raise RuntimeError("work stopped an iteration") from exc
            else:
                self._down_since = None
                self._figures.is_back(failed_time)
                return result
            finally:
                self._settle()

    def _may_wait(self, failed_time: float) -> bool:
        """Returns True while a server that went away may still come back in time.

        Nobody waits anew for a server that others have waited for, nor longer because others still
        have connections.
        """
        if self._closed:
            return False
        since = self._down_since
        if since is None:
            since = self._down_since = failed_time
        return time.monotonic() - min(since, failed_time) < PATIENCE_S

    def _scope(self, workspace: str | None) -> Bound:
        return Bound(
            sql.SCOPE,
            {
                "workspace": workspace or "",
                "everything": "on" if workspace is None else "off",
                "timeout": f"{self._address.timeout_s * 1e3:.0f}",
                "lock": f"{LOCK_S * 1e3:.0f}",
            },
        )

    def _mine(self) -> psycopg.Connection[Row]:
        connection: psycopg.Connection[Row] | None = getattr(self._local, "connection", None)
        if connection is None:
            self.check_open()
            connection = self._local.connection = self._connected()
            [[server]] = connection.execute(sql.SERVER_START).fetchall()
            with self._lock:
                self._open.add(connection)
                # Another thread may not have noticed yet that its connection was lost.
                self.losses += self._server not in (None, server)
                self._server = server
        return connection

    def _connected(self) -> psycopg.Connection[Row]:
        """Opens a connection. While the server is away for longer than work waits, one thread tries
        and the others soon fail: to a host that does not answer, each attempt takes seconds.

        Raises: psycopg.Error, SourceUnavailable.
        """
        since = self._down_since
        if since is None or time.monotonic() - since < PATIENCE_S:
            return connect(self._address)
        if not self._trying.acquire(timeout=TRY_S):
            raise SourceUnavailable(source=self.source, reason=UNREACHABLE)
        try:
            connection = connect(self._address)
            self._down_since = None
            return connection
        finally:
            self._trying.release()

    def _writer(self) -> _WriterMark:
        writer: _WriterMark | None = getattr(self._local, "writer", None)
        if writer is None:
            writer = self._local.writer = _WriterMark(uuid.uuid4())
        return writer

    def _settle(self) -> None:
        """Ends what a failure left open on the thread's connection."""
        connection: psycopg.Connection[Row] | None = getattr(self._local, "connection", None)
        if connection is None:
            return
        if connection.closed or connection.broken:
            self._drop()
        elif connection.info.transaction_status != TransactionStatus.IDLE:
            try:
                connection.rollback()
            except psycopg.Error:
                self._drop()

    def _drop(self) -> None:
        connection: psycopg.Connection[Row] | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            with self._lock:
                self.losses += 1
                self._open.discard(connection)
            with suppress(psycopg.Error):
                connection.close()

    def close(self) -> None:
        """Waits for running work and closes every connection."""
        self._closed = True
        self._readers.shutdown(wait=True)
        self._writers.shutdown(wait=True)
        self._watch.close()
        with self._lock:
            for connection in self._open:
                with suppress(psycopg.Error):
                    connection.close()
            self._open.clear()


def connect(address: PostgresAddress) -> psycopg.Connection[Row]:
    """Opens one connection that returns JSON as stored. Raises: psycopg.Error."""
    connection = psycopg.connect(address.conninfo, autocommit=True)
    connection.adapters.register_loader("json", _StoredJson)
    connection.execute(sql.SESSION)
    return connection
