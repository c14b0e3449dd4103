"""Keeps the indexes of large graphs open, and brings them up to date in the background.

An index is a folder beside the database and can be built from it again. Its name holds the graph,
the kind of index, the version of the graph and a checksum of the files. Files never change once a
folder is in place. They are mapped into memory, so the checksum is compared once, before their
first use.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
import threading
import time
import uuid
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar, final

from datasources.sqlite.change_log import ChangeLog
from datasources.sqlite.pool import Pool
from datasources.sqlite.rows import GraphRow, graph_row_by_id
from datasources.sqlite.schema import make_folder

LEFTOVER_S = 3600.0  # age from which an unfinished index is attributed to a killed process
READ_BYTES = 4 << 20  # block size for the checksum of a file
REBUILD_AT = 1_000  # number of changed nodes at which a new index is built

_log = logging.getLogger(__name__)


@final
class IndexFiles:
    """The index folders of one database; `identity` tells it from others at the same path."""

    def __init__(self, database: Path, identity: str) -> None:
        self.folder = database.with_name(database.name + "-indexes")
        self._identity = identity[:12]

    def versions(self, graph: int, name: str) -> list[tuple[int, Path]]:
        """Returns the folders of one index as (version, path), newest first."""
        folders = [
            (int(number), path)
            for path in self.folder.glob(f"{self._identity}-{graph}-{name}-*.index")
            if (number := path.stem.split("-")[-2]).isdigit()
        ]
        return sorted(folders, reverse=True)

    def place(self, graph: int, name: str, number: int, write: Callable[[Path], None]) -> None:
        """Puts a version in place atomically and removes older ones.

        Another process may place a newer version meanwhile. The later process sees both versions.
        """
        make_folder(self.folder)
        stem = f"{self._identity}-{graph}-{name}-{number}"
        # No process id: two containers on one volume may have the same.
        temporary = self.folder / f"{stem}.{uuid.uuid4().hex[:12]}.tmp"
        try:
            temporary.mkdir()
            write(temporary)
            try:
                temporary.rename(self.folder / f"{stem}-{_checksum(temporary)}.index")
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise  # otherwise another process has placed the same index
        finally:
            remove(temporary)
        versions = self.versions(graph, name)
        for older, path in versions:
            if older < versions[0][0]:
                remove(path)

    def remove_graph(self, graph: int) -> None:
        """Removes every index of a deleted graph."""
        for path in self.folder.glob(f"{self._identity}-{graph}-*.index"):
            remove(path)

    def remove_unknown(self, is_known: Callable[[int, str, int], bool]) -> None:
        """Removes every index but those whose graph, name and version are known.

        An index may be newer than the database: when an older copy was put in place.
        """
        for path in self.folder.glob(f"{self._identity}-*.index"):
            graph, *parts = path.stem.removeprefix(f"{self._identity}-").split("-")
            number = parts[-2] if len(parts) > 2 else ""
            is_ours = path.is_dir() and graph.isdigit() and number.isdigit()
            if not (is_ours and is_known(int(graph), "-".join(parts[:-2]), int(number))):
                remove(path)

    def remove_leftovers(self) -> None:
        """Removes unfinished indexes of processes that were killed."""
        old = time.time() - LEFTOVER_S
        for path in self.folder.glob("*.tmp"):
            with suppress(OSError):
                if path.stat().st_mtime < old:
                    remove(path)


def remove(path: Path) -> None:
    """Removes a folder, or a file in its place. Does nothing if there is none."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def is_whole(path: Path) -> bool:
    """Returns True if the files of a folder are unchanged. Reads all of them."""
    try:
        return path.stem.rpartition("-")[2] == _checksum(path)
    except OSError:
        return False


def _checksum(folder: Path) -> str:
    value = 0
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith("."):  # locks
            continue
        value = zlib.crc32(entry.name.encode(), value)
        with Path(entry.path).open("rb") as file:
            while block := file.read(READ_BYTES):
                value = zlib.crc32(block, value)
    return f"{value:08x}"


class OpenIndex(Protocol):
    """An opened index. `number` is the version of the graph's text or vectors in it."""

    @property
    def number(self) -> int: ...


X = TypeVar("X", bound=OpenIndex)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKind(Generic[X]):
    """How one index is read, made and brought up to date.

    `open` returns None for a folder of another format. `write` fills a new folder with the index of
    the graph as it is in the transaction; its last argument raises when the work should end. `log`
    returns the nodes that changed since a version.
    """

    name: str
    open: Callable[[Path, int], X | None]
    write: Callable[[sqlite3.Connection, GraphRow, Path, Callable[[], None]], None]
    version: Callable[[GraphRow], int]
    log: ChangeLog


class _Closing(Exception):
    pass


@final
class IndexManager:
    """The opened indexes of one database. Thread-safe."""

    def __init__(self, pool: Pool, files: IndexFiles) -> None:
        self._pool = pool
        self._files = files
        self._opened: dict[tuple[int, str], OpenIndex] = {}
        self._lock = threading.Lock()
        self._updates: dict[tuple[int, str], Future[None]] = {}
        self._closing = False

    def usable(
        self, connection: sqlite3.Connection, row: GraphRow, kind: IndexKind[X]
    ) -> tuple[X, list[int]] | None:
        """Returns an index and the nodes that changed since; None: there is none to use.

        Starts an update where one is due.
        """
        for find in (self.opened, self._open_newer):
            index = find(row, kind)
            if index is None:
                continue
            if index.number >= kind.version(row):
                return index, []
            changed = kind.log.changed(connection, row, index.number)
            if changed is not None:
                if len(changed) > REBUILD_AT:
                    self.schedule(row, kind)
                return index, changed
        self.schedule(row, kind)
        return None

    def opened(self, row: GraphRow, kind: IndexKind[X]) -> X | None:
        """Returns an index if it is open, of any version."""
        return self._opened.get((row.id, kind.name))  # pyright: ignore[reportReturnType] - a name has one kind

    def _open_newer(self, row: GraphRow, kind: IndexKind[X]) -> X | None:
        with self._lock:
            opened = self.opened(row, kind)
            for number, path in self._files.versions(row.id, kind.name):
                if opened is not None and number <= opened.number:
                    return None
                index = kind.open(path, number) if is_whole(path) else None
                if index is not None:
                    self._opened[row.id, kind.name] = index
                    return index
                remove(path)  # damaged: it will be built again
        return None

    def schedule(self, row: GraphRow, kind: IndexKind[X]) -> Future[None]:
        """Updates one index in the background, once at a time; returns a future of its end."""
        with self._lock:
            running = self._updates.get((row.id, kind.name))
            if running is None or running.done():
                running = self._pool.background(lambda c: self._update(c, row.id, kind))
                self._updates[row.id, kind.name] = running
                running.add_done_callback(_note_failure)
            return running

    def _update(self, connection: sqlite3.Connection, graph: int, kind: IndexKind[X]) -> None:
        with suppress(_Closing):
            connection.execute("BEGIN")
            row = graph_row_by_id(connection, graph)
            if row is None:
                return
            version = kind.version(row)
            self._open_newer(row, kind)
            opened = self.opened(row, kind)
            if opened is None or opened.number < version:
                self._files.place(
                    graph,
                    kind.name,
                    version,
                    lambda path: kind.write(connection, row, path, self._stop_if_closing),
                )
            connection.execute("ROLLBACK")
            if graph_row_by_id(connection, graph) is None:
                self.forget(graph)  # deleted meanwhile: remove the new files
            else:
                self._open_newer(row, kind)

    def _stop_if_closing(self) -> None:
        if self._closing:
            raise _Closing

    def forget(self, graph: int) -> None:
        """Drops the indexes of a deleted graph, and their files."""
        with self._lock:
            for name in [name for name in self._opened if name[0] == graph]:
                del self._opened[name]
        self._files.remove_graph(graph)

    def close(self) -> None:
        """Asks running updates to stop at their next block."""
        self._closing = True


def _note_failure(done: Future[None]) -> None:
    """Logs that an update failed. A later search starts it again and uses no index until then."""
    error = None if done.cancelled() else done.exception()
    if error is not None:
        _log.warning("index_update_failed", extra={"reason": str(error)})
