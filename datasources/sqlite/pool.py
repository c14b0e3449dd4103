"""Connections and the threads that use them: several readers, one writer.

Decision: SQLite commits without waiting for the disk (synchronous NORMAL), and a durable write
waits until the log was then synced, together with all others that were committed meanwhile. Each
would wait as long with synchronous FULL, but one after the other: 64 decisions at once would
take 64 syncs.
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
from typing import TypeVar

from datasources.errors import SourceUnavailable
from datasources.sqlite.schema import connect, translate
from datasources.store_spans import traced

T = TypeVar("T")
READERS = 4
BUILDERS = 2
"""Threads that build indexes: a build takes minutes for a huge graph, and must not
hold up the readers.
"""

MANY_ROWS = 2_000
"""A write of so many rows leaves so much in the log that it is worth moving to the file at once."""


class Pool:
    """Runs work on connections of one file, in threads. Reads see one moment:
    each is one transaction.
    """

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
        self._trusts_rows = False
        """Whether the writer's connection does not look up the rows that others refer to."""
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
        """Run `work` in a reader's thread, on a snapshot of the database."""
        with self._asked("read"):
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)

    @contextmanager
    def _asked(self, operation: str) -> Generator[None]:
        """Trace what the block asks. Raises: SourceUnavailable where the pool is closed by now."""
        self.check_open()
        with traced("sqlite", operation):
            try:
                yield
            except RuntimeError:
                self.check_open()  # closed between the asking and now
                raise

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection = self._mine()
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:  # an error of the disk ends it by itself
                    connection.execute("ROLLBACK")
        except sqlite3.Error as exc:
            raise translate(exc, self.path) from exc
        except (
            StopIteration
        ) as exc:  # a future takes none, and who waits for it would wait for ever
            raise RuntimeError("a read stopped an iteration") from exc

    async def write(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        checked: bool = False,
        durable: bool = True,
    ) -> T:
        """Run `work` in the writer's thread, in one transaction: whole, or not at all.

        What is `durable` survives a power cut once this returns, with all that was written before;
        the rest survives a crash of the process, and the next durable write makes it durable.

        It goes on to its end when the caller is cancelled meanwhile. `checked` work deletes nothing
        and has looked up whatever its rows refer to, so SQLite need not do so for every row.
        """
        with self._asked("write"):
            writing = asyncio.get_running_loop().run_in_executor(
                self._writer, self._write, work, checked
            )
            result = await asyncio.shield(writing)
        if durable:
            if self._syncing is None:
                self._syncing = asyncio.ensure_future(self._sync())
            await asyncio.shield(self._syncing)
        return result

    async def _sync(self) -> None:
        """Make all durable that is committed when the sync before has ended."""
        async with self._sync_lock:
            self._syncing = None  # what is committed from now on waits for the next one
            if not self._closed:  # else `close` does it
                with self._asked("sync"):
                    await asyncio.get_running_loop().run_in_executor(self._syncer, self._sync_log)

    def _sync_log(self) -> None:
        try:
            with self.path.with_name(self.path.name + "-wal").open("r+b") as log:
                os.fsync(log.fileno())
        except OSError as exc:
            raise SourceUnavailable(source=str(self.path), reason=exc.strerror or str(exc)) from exc

    def _write(self, work: Callable[[sqlite3.Connection], T], checked: bool) -> T:
        connection = self._mine()
        rows = connection.total_changes
        try:
            if checked != self._trusts_rows:  # SQLite compiles all statements again after it
                connection.execute(f"PRAGMA foreign_keys = {'OFF' if checked else 'ON'}")
                self._trusts_rows = checked
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
        """Move what was written from the log to the file, so that the next large write need not."""
        # What fails here is done by a later write, which SQLite lets do it at CHECKPOINT_PAGES.
        with suppress(sqlite3.Error), closing(connect(self.path, once_through=True)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def background(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Run long reading work apart from the readers, on a connection of its own,
        without a transaction.

        From any thread.
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
        """Wait for work under way and close every connection."""
        self._closed = True
        self._readers.shutdown(wait=True)
        self._builders.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        self._mover.shutdown(wait=True)
        self._syncer.shutdown(wait=True)
        with suppress(SourceUnavailable):  # where nothing was written there is no log
            self._sync_log()
        with self._lock:
            for connection in self._open:
                with suppress(sqlite3.Error):
                    connection.close()
            self._open.clear()
