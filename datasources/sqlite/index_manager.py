"""Keeps the index files of large graphs open, and brings them up to date in the background."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from datasources.errors import GraphNotFound
from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import ChangeLog
from datasources.sqlite.pool import Pool
from datasources.sqlite.rows import GraphRow, graph_row
from datasources.sqlite.side_files import SideFiles

_log = logging.getLogger(__name__)


class OpenIndex(Protocol):
    """An index as opened: `number` is the version of the graph (of its text, its vectors) that it knows."""

    @property
    def number(self) -> int: ...


X = TypeVar("X", bound=OpenIndex)
Older = tuple[int, Path] | None
"""The version and the place of the newest file there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKind(Generic[X]):
    """How one index is read, made and kept true.

    `open` returns None for a file that is damaged. `write` makes a new file of the graph as it is
    in the transaction, from an older file where that helps; `stop` raises when the work should
    end. `log` knows the nodes that changed since a version; more than `repair_at` of them are
    worth a new file.
    """

    name: str
    open: Callable[[Path, int], X | None]
    write: Callable[[sqlite3.Connection, GraphRow, Path, Older, Callable[[], None]], None]
    version: Callable[[GraphRow], int]
    log: ChangeLog
    repair_at: int


class _Closing(Exception):
    pass


class IndexManager:
    """The opened indexes of one database."""

    def __init__(self, pool: Pool, files: SideFiles) -> None:
        self._pool = pool
        self.files = files
        self._opened: dict[tuple[int, str], OpenIndex] = {}
        self._lock = threading.Lock()
        self._updates: dict[tuple[int, str], asyncio.Future[None]] = {}
        self._closing = False

    def usable(
        self, connection: sqlite3.Connection, row: GraphRow, kind: IndexKind[X]
    ) -> tuple[X, list[int]] | None:
        """Return an index and the nodes it does not know as they are now; None: there is none to use.

        For a reader's thread.
        """
        for find in (self.opened, self._open_newer):
            index = find(row, kind)
            if index is None:
                continue
            if index.number >= kind.version(row):
                return index, []
            changed = kind.log.changed(connection, row, index.number)
            if changed is not None:
                return index, changed
        return None

    def opened(self, row: GraphRow, kind: IndexKind[X]) -> X | None:
        """Return an index as it is held, of whatever version."""
        return self._opened.get((row.id, kind.name))  # pyright: ignore[reportReturnType] - a name has one kind

    def _open_newer(self, row: GraphRow, kind: IndexKind[X]) -> X | None:
        with self._lock:
            held = self.opened(row, kind)
            for number, path in self.files.versions(row.id, kind.name):
                if held is not None and number <= held.number:
                    return None
                opened = kind.open(path, number) if self.files.is_whole(path) else None
                if opened is not None:
                    self._opened[row.id, kind.name] = opened
                    return opened
                path.unlink(missing_ok=True)  # damaged: it will be made again
        return None

    def schedule(
        self, workspace: str, graph_key: str, row: GraphRow, kind: IndexKind[X]
    ) -> asyncio.Future[None]:
        """Bring one index up to date in the background, once at a time; return its end."""
        running = self._updates.get((row.id, kind.name))
        if running is None or running.done():
            running = self._pool.background(lambda c: self._update(c, workspace, graph_key, kind))
            self._updates[row.id, kind.name] = running
            running.add_done_callback(_note_failure)
        return running

    def _update(
        self, connection: sqlite3.Connection, workspace: str, graph_key: str, kind: IndexKind[X]
    ) -> None:
        with suppress(_Closing, GraphNotFound):
            connection.execute("BEGIN")
            try:
                row = graph_row(connection, workspace, graph_key)
                version = kind.version(row)
                self._open_newer(row, kind)
                held = self.opened(row, kind)
                if held is None or held.number < version:
                    older = next(iter(self.files.versions(row.id, kind.name)), None)
                    self.files.place(
                        row.id,
                        kind.name,
                        version,
                        lambda path: kind.write(connection, row, path, older, self._stop_if_closing),
                    )
            finally:
                connection.execute("ROLLBACK")
            if connection.execute(sql.GRAPH_TEXT_VERSION, {"graph": row.id}).fetchone() is None:
                self.forget(row.id)  # deleted meanwhile: nobody else would remove the new file
                return
            self._open_newer(row, kind)

    def _stop_if_closing(self) -> None:
        if self._closing:
            raise _Closing

    def trim_logs(
        self, connection: sqlite3.Connection, row: GraphRow, kinds: Iterable[IndexKind[Any]]
    ) -> None:
        """Forget the changes that every index file of a log knows. Inside a write."""
        known: dict[ChangeLog, list[int]] = {}
        for kind in kinds:
            known.setdefault(kind.log, []).append(self.files.newest(row.id, kind.name))
        for log, numbers in known.items():
            if min(numbers) > 0:
                log.trim(connection, row.id, min(numbers))

    def forget(self, graph: int) -> None:
        """Drop the indexes of a deleted graph, and their files."""
        with self._lock:
            for name in [name for name in self._opened if name[0] == graph]:
                del self._opened[name]
        self.files.remove_graph(graph)

    def close(self) -> None:
        """Ask updates under way to stop at their next block."""
        self._closing = True


def _note_failure(done: asyncio.Future[None]) -> None:
    """Say that an update failed; a later search asks for it again, and until then does without."""
    error = None if done.cancelled() else done.exception()
    if error is not None:
        _log.warning("index_update_failed", extra={"reason": str(error)})
