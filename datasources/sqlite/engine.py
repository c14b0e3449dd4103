"""The parts that sources of one database file share: connections, indexes and the cache."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import final

from datasources.cache import Cache
from datasources.held_elements import HeldGraphReads
from datasources.moment_reads import GraphReads
from datasources.sqlite import statements as sql
from datasources.sqlite.held_graph import HeldFileGraph
from datasources.sqlite.index_manager import IndexFiles, IndexManager
from datasources.sqlite.pool import Pool
from datasources.sqlite.rows import GraphRow, graph_row_by_id
from datasources.sqlite.schema import connect, translate
from datasources.sqlite.stored_graph import StoredGraph
from datasources.sqlite.text_index import TEXT_INDEX


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for graphs in memory.

    A graph of up to `held` nodes and edges together is held whole. A larger one is searched by SQL
    and by indexes beside the file. `memory` is the maximum number of bytes for all held graphs.

    After a write, the documents of a held graph are read again at its next read: 50 ms at 24,000
    nodes and edges.
    """

    held: int = 25_000
    memory: int = 512 << 20


@final
class Engine:
    """One opened database. Create it in a worker thread, because it reads files."""

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

    def is_held(self, row: GraphRow) -> bool:
        """Returns True if a graph is small enough to be held in memory."""
        return row.size <= self.limits.held

    def graph(self, connection: sqlite3.Connection, row: GraphRow) -> GraphReads:
        """Returns the reads of a graph at the moment of the connection's transaction."""
        if self.is_held(row):
            return HeldGraphReads(HeldFileGraph(connection, row, self.cache))
        return StoredGraph(connection, row, self.indexes)

    def close(self) -> None:
        """Stops background work and closes the file."""
        self.indexes.close()
        self.pool.close()


def _index_files(connection: sqlite3.Connection, path: Path) -> IndexFiles:
    (identity,) = connection.execute(sql.IDENTITY).fetchone()
    files = IndexFiles(path, identity)

    def is_known(graph: int, name: str, number: int) -> bool:
        """Returns True if this version is not newer than the graph's text or vectors."""
        row = graph_row_by_id(connection, graph)
        return row is not None and number <= (
            row.text_version if name == TEXT_INDEX.name else row.vector_version
        )

    files.remove_leftovers()
    files.remove_unknown(is_known)
    return files
