"""An INSERT that takes many rows: a hundred in one statement, for a statement costs as much as its row."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

ROWS = 100
"""Rows of at most nine values, so that no SQLite finds too many variables (older ones take 999)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkInsert:
    """One statement, for a row and for a hundred rows."""

    one: str
    many: str

    @staticmethod
    def of(statement: str) -> BulkInsert:
        """Take an INSERT with `VALUES (?, …)`, and perhaps what to do on a conflict."""
        head, values, rest = statement.partition("VALUES ")
        row, end, tail = rest.partition(")")
        return BulkInsert(one=statement, many=head + values + ", ".join([row + end] * ROWS) + tail)

    def put(self, connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert all rows. Raises: sqlite3.Error, some rows may be in then: the transaction must end."""
        full = len(rows) - len(rows) % ROWS
        for start in range(0, full, ROWS):
            connection.execute(self.many, list(chain.from_iterable(rows[start : start + ROWS])))
        connection.executemany(self.one, rows[full:])
