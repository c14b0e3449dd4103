"""What sources of a database share (connections, what is held in memory, indexes), and
a graph's moment.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Hashable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasources.sqlite import statements as sql
from datasources.sqlite.cache import Cache, Name, T
from datasources.sqlite.graph_moment import CachedGraph, NotHeld, StoredGraph
from datasources.sqlite.index_manager import IndexFiles, IndexManager
from datasources.sqlite.link_index import LinkIndex
from datasources.sqlite.pool import Pool
from datasources.sqlite.rows import GraphRow, graph_row_by_id
from datasources.sqlite.schema import connect, translate
from datasources.sqlite.text_index import TEXT_INDEX

MAX_NOTED = 1_000
"""Rows, counts and documents of graphs, some four of each graph that is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where small ends. Units: nodes and edges together; `memory` is bytes for all that is
    held of graphs.

    Words and vectors of a graph of up to `small` are held in memory, those of a larger one are
    searched by indexes beside the file. Nodes and edges of one of up to `linked` are held too, once
    it was asked for `asked` times while unchanged, and read from the file until then; so are
    vectors of up to `components` numbers in all, and the edges alone, without their documents, of
    one of up to `walked`. One of up to `tiny` is held from the first time on: to load it takes
    about as long as two reads. Questions about one of up to `light` are answered in the event loop
    once all that they need is held: that takes a few milliseconds. The words and vectors of a graph
    of more than `at_once` nodes are searched beside each other.
    """

    small: int = 25_000
    components: int = 8_000_000
    linked: int = 60_000
    walked: int = 1_000_000
    tiny: int = 500
    light: int = 5_000
    at_once: int = 50_000
    asked: int = 3
    memory: int = 512 << 20


class Engine:
    """One opened database. To be used in one event loop; made in a thread, for it reads files."""

    def __init__(self, path: Path, limits: Limits) -> None:
        """Raises: SourceError."""
        self.limits = limits
        try:
            with closing(connect(path)) as connection:
                files = _index_files(connection, path)
        except sqlite3.Error as exc:
            raise translate(exc, path) from exc
        self.pool = Pool(path)
        self.indexes = IndexManager(self.pool, files)
        self.cache = Cache(limits.memory)
        self._changes: str | None = None
        self._current: dict[Hashable, Any] = {}
        self._is_asked = False

    def current(self) -> dict[Hashable, Any]:
        """Return what was noted here since anybody last changed a graph, or the types of nodes.

        What is read after this call may be noted in the result: it is of this moment or a
        later one. SQLite is asked once in a step of the event loop: what the step can know of
        was committed before.
        """
        if self._is_asked:
            return self._current
        changes = self.pool.graph_changes()
        if changes is None:
            return {}
        if changes != self._changes or len(self._current) > MAX_NOTED:
            self._changes = changes
            self._current = {}
        self._is_asked = True
        asyncio.get_running_loop().call_soon(self._ask_again)
        return self._current

    def _ask_again(self) -> None:
        self._is_asked = False

    def close(self) -> None:
        """Stop background work and close the file."""
        self.indexes.close()
        self.pool.close()


def _index_files(connection: sqlite3.Connection, path: Path) -> IndexFiles:
    (identity,) = connection.execute(sql.IDENTITY).fetchone()
    files = IndexFiles(path, identity)

    def is_known(graph: int, name: str, number: int) -> bool:
        """Tell whether an index can be of this database as it is: of a version that
        there has been.
        """
        row = graph_row_by_id(connection, graph)
        return row is not None and number <= (
            row.text_version if name == TEXT_INDEX.name else row.vector_version
        )

    files.remove_leftovers()
    files.remove_unknown(is_known)
    return files


LIGHT_BYTES = 6 << 20
LIGHT_NODES = 500
"""What the event loop reads by itself: parsing more would hold it up."""


@dataclass(frozen=True, slots=True)
class Moment:
    """`reader` is None in the event loop, where nothing is read from the file.

    `stored` is what `documents` made.
    """

    engine: Engine
    row: GraphRow
    reader: sqlite3.Connection | None = None
    stored: list[StoredGraph] = field(default_factory=list[StoredGraph])

    @property
    def size(self) -> int:
        """How many nodes and edges the graph has."""
        return self.row.nodes + self.row.edges

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection to read with. Raises: NotHeld."""
        if self.reader is None:
            raise NotHeld
        return self.reader

    def held(
        self, name: Name, version: int, load: Callable[[sqlite3.Connection, T | None], T]
    ) -> T:
        """Return a part of the graph, which is loaded if it may be. Raises: NotHeld."""
        reader = self.reader
        if reader is not None:
            return self.engine.cache.get(name, version, lambda older: load(reader, older))
        return self._found(name, version)

    def held_if_frequent(
        self,
        name: Name,
        version: int,
        load: Callable[[sqlite3.Connection], T],
        *,
        times: int | None = None,
    ) -> T | None:
        """Return a part of the graph, loaded once it was asked for so often
        unchanged. Raises: NotHeld.
        """
        reader = self.reader
        times = times or self.engine.limits.asked
        if reader is not None:
            return self.engine.cache.get_if_frequent(name, version, times, lambda: load(reader))
        return self._found(name, version)

    def _found(self, name: Name, version: int) -> Any:
        found = self.engine.cache.find(name, version)
        if found is None:
            raise NotHeld
        return found

    def cached(self) -> CachedGraph:
        """Return nodes and edges as held, and nothing else. Raises: NotHeld."""
        held: CachedGraph = self._found(("graph", self.row.id), self.row.revision)
        return held

    def documents(self, nodes: int = 0) -> CachedGraph | StoredGraph:
        """Return nodes and edges, as held or as stored; so many will be parsed. Raises: NotHeld."""
        row = self.row
        reader = self.reader
        if reader is None:
            light = self.cached()
            if light.nbytes > LIGHT_BYTES or nodes > LIGHT_NODES:
                raise NotHeld
            return light
        limits = self.engine.limits
        if self.size <= limits.linked:
            times = 1 if self.size <= limits.tiny else limits.asked
            name = ("graph", row.id)
            version = row.revision
            held = self.held_if_frequent(
                name, version, lambda c: CachedGraph.load(c, row), times=times
            )
            if held is not None:
                return held
        if not self.stored:
            index = self.engine.indexes.opened(row, TEXT_INDEX)
            table = None if index is None else index.nodes
            self.stored.append(StoredGraph(reader, row, table, self._links()))
        return self.stored[0]

    def pages(self, size: int) -> CachedGraph | StoredGraph:
        """Return what lists the graph's nodes or edges, of which there are
        `size`. Raises: NotHeld.
        """
        return (
            self.documents(size) if size <= LIGHT_NODES else StoredGraph(self.connection, self.row)
        )

    def _links(self) -> LinkIndex | None:
        row = self.row
        limits = self.engine.limits
        if not limits.linked < self.size <= limits.walked:
            return None
        return self.held_if_frequent(
            ("links", row.id), row.revision, lambda c: LinkIndex.load(c, row)
        )
