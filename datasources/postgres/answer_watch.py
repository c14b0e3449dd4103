"""Cuts connections to servers that do not answer: libpq waits for ever.

The server ends a statement at the statement time-out, but not a commit that waits for a synchronous
replica, and a server that is stopped ends nothing.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, final

import psycopg

Connection = psycopg.Connection[Any]

LOOK_S = 0.5  # between two looks for overdue answers
MARGIN_S = 5.0  # beyond what the server may take
# Allowed for each statement of a round trip: one of many writes a limited number of documents.
STATEMENT_S = 2.0


@final
class AnswerWatch:
    """Watches round trips in a thread. `timeout_s` is the statement time-out of the server."""

    def __init__(self, timeout_s: float) -> None:
        self.round_trips = 0
        self._limit_s = timeout_s + MARGIN_S
        self._lock = threading.Lock()
        self._due: dict[Connection, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="postgres-watch", daemon=True)
        self._thread.start()

    @contextmanager
    def answer(self, connection: Connection, statements: int) -> Generator[None]:
        """Cuts the connection if the block, a round trip, takes too long."""
        with self._lock:
            self.round_trips += 1
            self._due[connection] = time.monotonic() + self._limit_s + STATEMENT_S * statements
        try:
            yield
        finally:
            with self._lock:
                del self._due[connection]

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            now = time.monotonic()
            with self._lock:  # which keeps the connections from being closed meanwhile
                for connection, due in self._due.items():
                    if due < now:
                        _cut(connection)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def _cut(connection: Connection) -> None:
    """Ends the connection for the thread that waits for an answer on it."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as shared,
    ):
        shared.shutdown(socket.SHUT_RDWR)
