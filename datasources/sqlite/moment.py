"""A graph at one moment: what is held of it in memory, and the file, where a reader's thread looks at it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from datasources.sqlite.cache import Name, T
from datasources.sqlite.cached_graph import CachedGraph
from datasources.sqlite.engine import Engine
from datasources.sqlite.rows import GraphRow
from datasources.sqlite.stored_graph import StoredGraph
from datasources.sqlite.text_index import TEXT_INDEX

LIGHT_BYTES = 6 << 20
LIGHT_NODES = 500
"""What the event loop reads by itself: parsing more would hold it up."""


class NotHeld(Exception):
    """What was asked for is not in memory, and there is no connection to read it with."""


@dataclass(frozen=True, slots=True)
class Moment:
    """`reader` is None in the event loop, where nothing is read from the file."""

    engine: Engine
    row: GraphRow
    reader: sqlite3.Connection | None = None

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

    def held(self, name: Name, version: int, load: Callable[[sqlite3.Connection, T | None], T]) -> T:
        """Return a part of the graph, which is loaded if it may be. Raises: NotHeld."""
        reader, cache = self.reader, self.engine.cache
        if reader is not None:
            return cache.get(name, version, lambda older: load(reader, older))
        found: T | None = cache.find(name, version)
        if found is None:
            raise NotHeld
        return found

    def documents(self, nodes: int = 0) -> CachedGraph | StoredGraph:
        """Return nodes and edges, as held or as stored; so many `nodes` will be parsed. Raises: NotHeld."""
        row, reader = self.row, self.reader
        name = ("graph", row.id)
        if reader is None:
            held: CachedGraph | None = self.engine.cache.find(name, row.revision)
            if held is None or held.nbytes > LIGHT_BYTES or nodes > LIGHT_NODES:
                raise NotHeld
            return held
        limits = self.engine.limits
        if self.size <= limits.linked:
            held = self.engine.cache.get_if_frequent(
                name, row.revision, limits.asked, lambda: CachedGraph.load(reader, row)
            )
            if held is not None:
                return held
        index = self.engine.indexes.opened(row, TEXT_INDEX)
        return StoredGraph(reader, row, None if index is None else index.nodes)
