"""Counts what a process changes in PostgreSQL databases, by the calls of its driver."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

_WRITE = re.compile(r"\b(INSERT|UPDATE|DELETE|COPY|TRUNCATE)\b", re.IGNORECASE)


def count_postgres_writes(count: Callable[[], None]) -> None:
    """Calls `count` before each statement that writes, and before the end of each transaction with
    such a statement, for the rest of the process.
    """
    import psycopg

    written = WeakSet[Any]()  # connections whose transaction has written

    def counts(cursor: psycopg.Cursor[Any], statement: object) -> bool:
        text = str(statement)
        if text.strip().upper() == "COMMIT":
            had_written = cursor.connection in written
            written.discard(cursor.connection)
            return had_written
        if _WRITE.search(text) is None:
            return False
        written.add(cursor.connection)
        return True

    for name in ("execute", "executemany", "copy"):
        method = getattr(psycopg.Cursor, name)

        def counted(
            self: psycopg.Cursor[Any],
            statement: object,
            *arguments: Any,
            method: Callable[..., Any] = method,
            **more: Any,
        ) -> Any:
            if counts(self, statement):
                count()
            return method(self, statement, *arguments, **more)

        setattr(psycopg.Cursor, name, counted)
