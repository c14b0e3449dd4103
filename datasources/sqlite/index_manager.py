"""Keeps the indexes of large graphs open, and brings them up to date in the background."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from datasources.sqlite.change_log import ChangeLog
from datasources.sqlite.index_files import IndexFiles, is_whole, remove
from datasources.sqlite.pool import Pool
from datasources.sqlite.rows import GraphRow, graph_row_by_id

REBUILD_AT = 1_000
"""Changes that are worth a new index."""

_log = logging.getLogger(__name__)


class OpenIndex(Protocol):
    """An opened index: `number` is the version of the graph (of its text, its vectors) that it knows."""

    @property
    def number(self) -> int: ...


X = TypeVar("X", bound=OpenIndex)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKind(Generic[X]):
    """How one index is read, made and kept true.

    `open` returns None for a folder of something else. `write` fills a new folder with the index of the
    graph as it is in the transaction; its last argument raises when the work should end. `log` knows
    the nodes that changed since a version.
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
        """Return an index and the nodes it does not know as they are now; None: there is none to use.

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
