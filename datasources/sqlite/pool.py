"""Connections and the threads that use them: several readers, one writer."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from datasources.errors import SourceUnavailable
from datasources.sqlite.schema import connect, translate

T = TypeVar("T")
READERS = 4


class Pool:
    """Runs work on connections of one file. Reads see one moment: each is one transaction.

    `here` is a connection for the event loop's own thread: look-ups of a few microseconds are not
    worth a change of thread. A WAL reader never waits for a writer, so it cannot block the loop.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-read")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="sqlite-write")
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False
        self.here = self._connect()

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
        return await self._submit(self._readers, lambda: self._read(work))

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._mine()
        try:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as exc:
            raise translate(exc, self.path) from exc

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in the writer's thread, in one transaction: whole, or not at all.

        It goes on to its end when the caller is cancelled meanwhile.
        """
        return await asyncio.shield(self._submit(self._writer, lambda: self._write(work)))

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._mine()
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
        return result

    def background(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Run long reading work in a reader's thread, without a transaction of its own."""
        return self._submit(self._readers, lambda: work(self._mine()))

    def _submit(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> asyncio.Future[T]:
        self.check_open()
        return asyncio.get_running_loop().run_in_executor(executor, work)

    def check_open(self) -> None:
        """Raises: SourceUnavailable when the pool is closed."""
        if self._closed:
            raise SourceUnavailable(source=str(self.path), reason="the database is closed")

    def close(self) -> None:
        """Wait for work under way and close every connection."""
        self._closed = True
        self._readers.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        with self._lock:
            for connection in self._open:
                with suppress(sqlite3.Error):
                    connection.close()
            self._open.clear()
