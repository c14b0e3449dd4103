"""The log of nodes whose text or vectors changed, so that an index can be brought up to date.

It has one row per node, with the version of the graph's text (or vectors) at which the node last
changed. A write that changes more than `MAX_BEHIND` nodes is not logged node by node. It raises the
floor instead, and indexes older than the floor are no longer used.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Literal, final

from datasources.sqlite.rows import GraphRow

# Changed nodes that a search scores from their rows; an index that lags further is not used.
MAX_BEHIND = 2_000


@final
class ChangeLog:
    """The log of one kind of change: the table `KIND_log`, and its floor in `graphs`."""

    def __init__(self, kind: Literal["text", "vector"]) -> None:
        self.add = f"""INSERT INTO {kind}_log (rid, graph, number) VALUES (?, ?, ?)
            ON CONFLICT (rid) DO UPDATE SET number = excluded.number"""
        self.floor = f"SELECT {kind}_log_floor FROM graphs WHERE id = :graph"
        self.raise_floor = f"UPDATE graphs SET {kind}_log_floor = :number WHERE id = :graph"
        self.since = (
            f"SELECT rid FROM {kind}_log WHERE graph = :graph AND number > :number LIMIT :limit"
        )

    def note(
        self, connection: sqlite3.Connection, graph: int, rids: Sequence[int], number: int
    ) -> None:
        """Logs, inside a write, that nodes change with version `number`."""
        if len(rids) > MAX_BEHIND:
            connection.execute(self.raise_floor, {"graph": graph, "number": number})
        else:
            connection.executemany(self.add, ((rid, graph, number) for rid in rids))

    def changed(
        self, connection: sqlite3.Connection, row: GraphRow, number: int
    ) -> list[int] | None:
        """Returns the nodes changed after a version, None if too many or no longer in the log."""
        (floor,) = connection.execute(self.floor, {"graph": row.id}).fetchone()
        if number < floor:
            return None
        values = {"graph": row.id, "number": number, "limit": MAX_BEHIND + 1}
        rows = connection.execute(self.since, values).fetchall()
        return None if len(rows) > MAX_BEHIND else [rid for (rid,) in rows]


TEXT_LOG = ChangeLog("text")
VECTOR_LOG = ChangeLog("vector")
