"""Keeps the approximate vector indexes open, and brings them up to date in the background."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from contextlib import suppress

from datasources.errors import GraphNotFound
from datasources.sqlite import statements as sql
from datasources.sqlite.pool import Pool
from datasources.sqlite.rows import GraphRow, graph_row
from datasources.sqlite.vector_index import (
    REPAIR_AT,
    IndexFiles,
    IndexName,
    VectorIndex,
    build,
    changed_since,
    repair,
)
from datasources.sqlite.vector_search import VectorQuery, search_exactly, search_index
from datasources.types import Hit, SearchField

_log = logging.getLogger(__name__)
FIELDS: tuple[SearchField, ...] = ("content", "name")


class _Closing(Exception):
    pass


class VectorKeeper:
    """The vector indexes of one database. `exact` is the number of vectors up to which a scan is used."""

    def __init__(self, pool: Pool, files: IndexFiles, identity: str, *, exact: int) -> None:
        self._pool = pool
        self._files = files
        self._identity = identity
        self._exact = exact
        self._opened: dict[IndexName, VectorIndex] = {}
        self._lock = threading.Lock()
        self._updates: dict[IndexName, asyncio.Future[None]] = {}
        self._closing = False

    def name(self, row: GraphRow, model: str, dim: int, search_field: SearchField) -> IndexName:
        """Return the name of the index of one graph, model, length and field."""
        return IndexName(identity=self._identity, graph=row.id, model=model, dim=dim, field=search_field)

    def search(
        self, connection: sqlite3.Connection, row: GraphRow, query: VectorQuery
    ) -> tuple[list[Hit], bool]:
        """Return the hits, and whether the index should be brought up to date. For a reader's thread."""
        values = {"graph": row.id, "model": query.name.model, "dim": query.name.dim}
        found = connection.execute(sql.VECTOR_COUNT, values).fetchone()
        if found is None:
            return [], False
        if found[0] <= self._exact:
            return search_exactly(connection, row, query), False
        for index in (self._opened.get(query.name), self._open_newer(query.name)):
            changed = None if index is None else _changed(connection, row, index)
            if index is not None and changed is not None:
                return search_index(connection, query, index, changed), len(changed) > REPAIR_AT
        return search_exactly(connection, row, query), True

    def _open_newer(self, name: IndexName) -> VectorIndex | None:
        with self._lock:
            held = self._opened.get(name)
            if self._files.newest(name) <= (held.number if held else -1):
                return None
            opened = self._files.open(name)
            if opened is not None:
                self._opened[name] = opened
            return opened

    def schedule(self, workspace: str, graph_key: str, name: IndexName) -> asyncio.Future[None]:
        """Bring one index up to date in the background, once at a time; return its end."""
        running = self._updates.get(name)
        if running is None or running.done():
            running = self._pool.background(lambda c: self._update(c, workspace, graph_key, name))
            self._updates[name] = running
            running.add_done_callback(_note_failure)
        return running

    def _update(
        self, connection: sqlite3.Connection, workspace: str, graph_key: str, name: IndexName
    ) -> None:
        """Build or repair an index and put it in place. Runs outside the event loop's thread."""
        with suppress(_Closing, GraphNotFound):
            connection.execute("BEGIN")
            try:
                row = graph_row(connection, workspace, graph_key)
                if self._files.newest(name) >= row.vector_version and self._files.open(name):
                    return
                held = self._files.load(name)
                changed = changed_since(connection, row.id, held.number) if held else None
                if held is None or changed is None:
                    index = build(connection, row, name, lambda _done: self._stop_if_closing())
                else:
                    index = held.index
                    repair(connection, name, index, changed)
            finally:
                connection.execute("ROLLBACK")
            saved = self._files.save(name, index, row.vector_version)
            if saved is not None:
                with self._lock:
                    self._opened[name] = saved

    def _stop_if_closing(self) -> None:
        if self._closing:
            raise _Closing

    async def build_all(self, workspace: str, graph_key: str, row: GraphRow) -> None:
        """Bring every index that a graph is large enough for up to date, and trim the log of changes."""
        groups = await self._pool.read(lambda c: c.execute(sql.VECTOR_GROUPS, {"graph": row.id}).fetchall())
        names = [
            self.name(row, model, dim, search_field)
            for model, dim, count in groups
            if count > self._exact
            for search_field in FIELDS
        ]
        for name in names:
            await asyncio.shield(self.schedule(workspace, graph_key, name))
        if names:
            oldest = min(self._files.newest(name) for name in names)
            if oldest > 0:
                await self._pool.write(lambda c: _trim_log(c, row.id, oldest))

    def forget(self, graph: int) -> None:
        """Drop the indexes of a deleted graph, and their files."""
        with self._lock:
            for name in [name for name in self._opened if name.graph == graph]:
                del self._opened[name]
        self._files.remove_graph(self._identity, graph)

    def close(self) -> None:
        """Ask updates under way to stop at their next block."""
        self._closing = True


def _trim_log(connection: sqlite3.Connection, graph: int, number: int) -> None:
    connection.execute(sql.VECTOR_LOG_CLEAN, {"graph": graph, "number": number})
    connection.execute(sql.VECTOR_LOG_RAISE, {"graph": graph, "number": number})


def _changed(connection: sqlite3.Connection, row: GraphRow, index: VectorIndex) -> list[int] | None:
    if index.number >= row.vector_version:
        return []
    return changed_since(connection, row.id, index.number)


def _note_failure(done: asyncio.Future[None]) -> None:
    """Say that an update failed; a later search asks for it again, and until then scans."""
    error = None if done.cancelled() else done.exception()
    if error is not None:
        _log.warning("vector_index_update_failed", extra={"reason": str(error)})
