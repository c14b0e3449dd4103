"""Many rows in few statements: each row is stored once, whatever their number."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from datasources.sqlite.bulk import ROWS, BulkInsert

ADD = BulkInsert.of("INSERT INTO t (k, n) VALUES (?, ?)\nON CONFLICT (k) DO UPDATE SET n = n + excluded.n")


@pytest.mark.parametrize("count", [0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 7])
def test_every_row_is_stored(count: int) -> None:
    rows = [(f"k{i:04d}", i) for i in range(count)]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID")
        ADD.put(connection, rows)
        assert connection.execute("SELECT k, n FROM t ORDER BY k").fetchall() == rows


def test_what_to_do_on_a_conflict_holds_for_each_row() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID")
        ADD.put(connection, [("k", 1)] * (ROWS + 1))
        assert connection.execute("SELECT k, n FROM t").fetchall() == [("k", ROWS + 1)]
