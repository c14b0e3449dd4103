"""Connections and the threads that use them: several readers, one writer.

Decision: SQLite commits without waiting for the disk (synchronous NORMAL). A durable write then
waits for one sync of the log, together with all writes committed meanwhile. With synchronous FULL
each would wait for its own: 64 decisions at once would take 64 syncs.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar, final

from datasources.errors import SourceUnavailable
from datasources.sqlite.schema import connect, translate
from datasources.store_spans import traced

T = TypeVar("T")
READERS = 4  # threads
BUILDERS = 2  # threads that build indexes, apart from the readers: a build takes seconds

# Rows of a write from which the log is moved to the file at once, before the next large write.
MANY_ROWS = 2_000


@final
class Pool:
    """Runs work on connections of one file, in threads. Each read is one transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-read")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="sqlite-write")
        self._builders = ThreadPoolExecutor(BUILDERS, thread_name_prefix="sqlite-index")
        self._mover = ThreadPoolExecutor(1, thread_name_prefix="sqlite-checkpoint")
        self._moved: Future[None] | None = None
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="sqlite-sync")
        self._sync_lock = asyncio.Lock()
        self._syncing: asyncio.Future[None] | None = None
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = connect(self.path)
        except sqlite3.Error as exc:
            raise translate(exc, self.path) from exc
        with self._lock:
            self._open.append(connection)
        return connection

    def _mine(self) -> sqlite3.Connection:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        return connection

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in a reader's thread, on a snapshot of the database."""
        with self._traced("read"):
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)

    @contextmanager
    def _traced(self, operation: str) -> Generator[None]:
        """Traces the work of the block. Raises: SourceUnavailable if the pool is closed by now."""
        self.check_open()
        with traced("sqlite", operation):
            try:
                yield
            except RuntimeError:
                self.check_open()  # it may have been closed meanwhile
                raise

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection = self._mine()
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:  # SQLite ends it itself after a disk error
                    connection.execute("ROLLBACK")
        except sqlite3.Error as exc:
            raise translate(exc, self.path) from exc
        except StopIteration as exc:  # a future cannot hold it; the caller would wait forever
            raise RuntimeError("a read stopped an iteration") from exc

    async def write(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        """Runs `work` in the writer's thread, in one transaction, also if the caller is cancelled.

        A `durable` write survives a power cut once this returns, with all writes before it. Others
        survive a crash of the process; the next durable write makes them durable.
        """
        with self._traced("write"):
            writing = asyncio.get_running_loop().run_in_executor(self._writer, self._write, work)
            result = await asyncio.shield(writing)
        if durable:
            if self._syncing is None:
                self._syncing = asyncio.ensure_future(self._sync())
            await asyncio.shield(self._syncing)
        return result

    async def _sync(self) -> None:
        """Waits for a running sync, then makes all commits so far durable."""
        async with self._sync_lock:
            self._syncing = None  # later commits wait for the next sync
            if not self._closed:  # otherwise `close` does it
                with self._traced("sync"):
                    await asyncio.get_running_loop().run_in_executor(self._syncer, self._sync_log)

    def _sync_log(self) -> None:
        try:
            with self.path.with_name(self.path.name + "-wal").open("r+b") as log:
                os.fsync(log.fileno())
        except OSError as exc:
            raise SourceUnavailable(source=str(self.path), reason=exc.strerror or str(exc)) from exc

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._mine()
        rows = connection.total_changes
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as exc:
            raise translate(exc, self.path) from exc
        if connection.total_changes - rows >= MANY_ROWS and (
            self._moved is None or self._moved.done()
        ):
            self._moved = self._mover.submit(self._checkpoint)
        return result

    def _checkpoint(self) -> None:
        """Moves the log to the file, to spare the next large write this work."""
        # If this fails, a later write does it: SQLite moves the log at CHECKPOINT_PAGES.
        with suppress(sqlite3.Error), closing(connect(self.path, once_through=True)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def background(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Runs long reading work apart from the readers, on a connection of its own and without a
        transaction. From any thread.
        """
        self.check_open()
        return self._builders.submit(self._once_through, work)

    def _once_through(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with closing(connect(self.path, once_through=True)) as connection:
            return work(connection)

    def check_open(self) -> None:
        """Raises: SourceUnavailable when the pool is closed."""
        if self._closed:
            raise SourceUnavailable(source=str(self.path), reason="the database is closed")

    def close(self) -> None:
        """Waits for running work and closes every connection."""
        self._closed = True
        self._readers.shutdown(wait=True)
        self._builders.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        self._mover.shutdown(wait=True)
        self._syncer.shutdown(wait=True)
        with suppress(SourceUnavailable):  # there is no log if nothing was written
            self._sync_log()
        with self._lock:
            for connection in self._open:
                with suppress(sqlite3.Error):
                    connection.close()
            self._open.clear()
