"""Which nodes of a graph changed since an index file was made: in their text, or in their vectors.

One row a node, with the version at which it last changed. A write that changes more nodes than an
index would ever look through itself only raises the floor: every older file is then of no use.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from datasources.sqlite import statements as sql
from datasources.sqlite.rows import GraphRow

MAX_BEHIND = 2_000
"""Changes that a search looks through itself; an index that lags further behind is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLog:
    """The statements of one log."""

    add: str
    floor: str
    raise_floor: str
    since: str
    clean: str

    def note(self, connection: sqlite3.Connection, graph: int, rids: Sequence[int], number: int) -> None:
        """Note inside a write that nodes change with version `number`."""
        if len(rids) > MAX_BEHIND:
            connection.execute(self.raise_floor, {"graph": graph, "number": number})
        else:
            connection.executemany(self.add, ((rid, graph, number) for rid in rids))

    def changed(self, connection: sqlite3.Connection, row: GraphRow, number: int) -> list[int] | None:
        """Return the nodes that changed after a version; None: too many, or no longer known."""
        (floor,) = connection.execute(self.floor, {"graph": row.id}).fetchone()
        if number < floor:
            return None
        values = {"graph": row.id, "number": number, "limit": MAX_BEHIND + 1}
        rows = connection.execute(self.since, values).fetchall()
        return None if len(rows) > MAX_BEHIND else [rid for (rid,) in rows]

    def trim(self, connection: sqlite3.Connection, graph: int, number: int) -> None:
        """Forget changes up to a version, inside a write, once every file in use knows them."""
        connection.execute(self.clean, {"graph": graph, "number": number})
        connection.execute(self.raise_floor, {"graph": graph, "number": number})


TEXT_LOG = ChangeLog(
    add=sql.TEXT_LOG_ADD,
    floor=sql.TEXT_LOG_FLOOR,
    raise_floor=sql.TEXT_LOG_RAISE,
    since=sql.TEXT_LOG_SINCE,
    clean=sql.TEXT_LOG_CLEAN,
)
VECTOR_LOG = ChangeLog(
    add=sql.VECTOR_LOG_ADD,
    floor=sql.VECTOR_LOG_FLOOR,
    raise_floor=sql.VECTOR_LOG_RAISE,
    since=sql.VECTOR_LOG_SINCE,
    clean=sql.VECTOR_LOG_CLEAN,
)
