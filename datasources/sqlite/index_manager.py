"""Keeps the indexes of large graphs open, and brings them up to date in the background.

An index is a folder beside the database and can be built from it again. Its name says what it is of
and which version of the graph it knows, so its files never change once it is in place, and one that
is older than the graph is known to be. It says the checksum of the files too: they are mapped into
memory, so all are read through once before they are first used.
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
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from datasources.sqlite.pool import Pool
from datasources.sqlite.rows import ChangeLog, GraphRow, graph_row_by_id
from datasources.sqlite.schema import make_folder

LEFTOVER_S = 3600.0
READ_BYTES = 4 << 20
Rids = NDArray[np.int64]


class IndexFiles:
    """The index folders of one database, known by its `identity`."""

    def __init__(self, database: Path, identity: str) -> None:
        self.folder = database.with_name(database.name + "-indexes")
        self._identity = identity[:12]

    def versions(self, graph: int, name: str) -> list[tuple[int, Path]]:
        """Return the folders of one index as (version, path), newest first."""
        found = [
            (int(number), path)
            for path in self.folder.glob(f"{self._identity}-{graph}-{name}-*.index")
            if (number := path.stem.split("-")[-2]).isdigit()
        ]
        return sorted(found, reverse=True)

    def place(self, graph: int, name: str, number: int, write: Callable[[Path], None]) -> None:
        """Put a version in place, whole or not at all, and keep the newest alone.

        Another process may have placed a newer one meanwhile: whichever looks last sees both.
        """
        make_folder(self.folder)
        stem = f"{self._identity}-{graph}-{name}-{number}"
        # Not by process id: that of two containers on one volume may be the same.
        temporary = self.folder / f"{stem}.{uuid.uuid4().hex[:12]}.tmp"
        try:
            temporary.mkdir()
            write(temporary)
            try:
                temporary.rename(self.folder / f"{stem}-{_checksum(temporary)}.index")
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise  # else another process has placed the same
        finally:
            remove(temporary)
        versions = self.versions(graph, name)
        for older, path in versions:
            if older < versions[0][0]:
                remove(path)

    def remove_graph(self, graph: int) -> None:
        """Remove every index of a deleted graph."""
        for path in self.folder.glob(f"{self._identity}-{graph}-*.index"):
            remove(path)

    def remove_unknown(self, is_known: Callable[[int, str, int], bool]) -> None:
        """Remove every index but those whose graph, name and version are known.

        A folder may know more than the database: when an older copy has been put in place.
        """
        for path in self.folder.glob(f"{self._identity}-*.index"):
            graph, *parts = path.stem.removeprefix(f"{self._identity}-").split("-")
            number = parts[-2] if len(parts) > 2 else ""
            is_ours = path.is_dir() and graph.isdigit() and number.isdigit()
            if not (is_ours and is_known(int(graph), "-".join(parts[:-2]), int(number))):
                remove(path)

    def remove_leftovers(self) -> None:
        """Remove what a process left behind that was killed while it wrote."""
        old = time.time() - LEFTOVER_S
        for path in self.folder.glob("*.tmp"):
            with suppress(OSError):
                if path.stat().st_mtime < old:
                    remove(path)


def remove(path: Path) -> None:
    """Remove a folder, or a file where one stands in its place; nothing where there is none."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def is_whole(path: Path) -> bool:
    """Tell whether a folder is as it was written. Reads all of it."""
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeTable:
    """The nodes that an index knows: their row ids and keys, so that hits need no look-up
    in the database.

    A node keeps its row id and its key for as long as it exists, and a row id is never given again.
    Shapes: `rids` int64[n] ascending; the key of row i is UTF-8, `text[ends[i]:ends[i + 1]]`.
    """

    rids: Rids
    ends: NDArray[np.int64]
    text: NDArray[np.uint8]
    held: Sequence[str] | None = None
    """The keys, in a table that was made in memory."""

    @staticmethod
    def of(rids: Rids, keys: Sequence[str]) -> NodeTable:
        """Make a table in memory. `rids` ascend, `keys` are in their order."""
        encoded = [key.encode() for key in keys]
        ends = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=ends[1:])
        text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return NodeTable(rids=rids, ends=ends, text=text, held=keys)

    @staticmethod
    def open(folder: Path) -> NodeTable:
        """Map the table of an index. Raises: OSError, ValueError."""
        return NodeTable(
            rids=mapped(folder / "rids.npy"),
            ends=mapped(folder / "key_ends.npy"),
            text=mapped(folder / "key_text.npy"),
        )

    def save(self, folder: Path) -> None:
        np.save(folder / "rids.npy", self.rids)
        np.save(folder / "key_ends.npy", self.ends)
        np.save(folder / "key_text.npy", self.text)

    def __len__(self) -> int:
        return len(self.rids)

    def keys(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the keys of some rows."""
        if self.held is not None:
            return list(map(self.held.__getitem__, rows.tolist()))
        text = self.text.data
        starts = self.ends[rows].tolist()
        ends = self.ends[rows + 1].tolist()
        return [str(text[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]

    def rows(self, rids: Sequence[int] | Rids) -> NDArray[np.int64]:
        """Return the rows of those of these nodes that are known."""
        wanted = np.asarray(rids, dtype=np.int64)
        if not len(self.rids):
            return wanted[:0]
        place = np.minimum(np.searchsorted(self.rids, wanted), len(self.rids) - 1)
        return place[self.rids[place] == wanted]


def mapped(path: Path) -> NDArray[Any]:
    """Map an array of a file into memory, read-only. Raises: OSError, ValueError."""
    # Slices of a memmap are made much slower than those of an array.
    return np.asarray(np.load(path, mmap_mode="r"))


REBUILD_AT = 1_000
"""Changes that are worth a new index."""

_log = logging.getLogger(__name__)


class OpenIndex(Protocol):
    """An opened index: `number` is the version of the graph (of its text, its vectors)
    that it knows.
    """

    @property
    def number(self) -> int: ...


X = TypeVar("X", bound=OpenIndex)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKind(Generic[X]):
    """How one index is read, made and kept true.

    `open` returns None for a folder of something else. `write` fills a new folder with the index of
    the graph as it is in the transaction; its last argument raises when the work should end. `log`
    knows the nodes that changed since a version.
    """

    name: str
    open: Callable[[Path, int], X | None]
    write: Callable[[sqlite3.Connection, GraphRow, Path, Callable[[], None]], None]
    version: Callable[[GraphRow], int]
    log: ChangeLog


class _Closing(Exception):
    pass


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
        """Return an index and the nodes it does not know as they are now; None: there is
        none to use.

        An update is begun where it is due.
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
        """Return an index if it is open, of whatever version."""
        return self._opened.get((row.id, kind.name))  # pyright: ignore[reportReturnType] - a name has one kind

    def _open_newer(self, row: GraphRow, kind: IndexKind[X]) -> X | None:
        with self._lock:
            known = self.opened(row, kind)
            for number, path in self._files.versions(row.id, kind.name):
                if known is not None and number <= known.number:
                    return None
                index = kind.open(path, number) if is_whole(path) else None
                if index is not None:
                    self._opened[row.id, kind.name] = index
                    return index
                remove(path)  # damaged: it will be made again
        return None

    def schedule(self, row: GraphRow, kind: IndexKind[X]) -> Future[None]:
        """Bring one index up to date in the background, once at a time; return its end."""
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
            known = self.opened(row, kind)
            if known is None or known.number < version:
                self._files.place(
                    graph,
                    kind.name,
                    version,
                    lambda path: kind.write(connection, row, path, self._stop_if_closing),
                )
            connection.execute("ROLLBACK")
            if graph_row_by_id(connection, graph) is None:
                self.forget(graph)  # deleted meanwhile: nobody else would remove the new files
            else:
                self._open_newer(row, kind)

    def _stop_if_closing(self) -> None:
        if self._closing:
            raise _Closing

    def forget(self, graph: int) -> None:
        """Drop the indexes of a deleted graph, and their files."""
        with self._lock:
            for name in [name for name in self._opened if name[0] == graph]:
                del self._opened[name]
        self._files.remove_graph(graph)

    def close(self) -> None:
        """Ask updates under way to stop at their next block."""
        self._closing = True


def _note_failure(done: Future[None]) -> None:
    """Log that an update failed; a later search asks for it again, and until then does without."""
    error = None if done.cancelled() else done.exception()
    if error is not None:
        _log.warning("index_update_failed", extra={"reason": str(error)})
