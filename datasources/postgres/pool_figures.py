"""Counts what the threads of a pool do, for metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

import psycopg

from datasources.base import Figure


@final
class PoolFigures:
    """The work of a pool: waiting, under way, failed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._busy = Counter({"read": 0, "write": 0})
        self._errors: Counter[str] = Counter()
        self._away_s = 0.0

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Counts work from when it is asked for until its thread is done with it."""
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    @contextmanager
    def busy(self, kind: str) -> Generator[None]:
        """Counts a thread that does work."""
        with self._lock:
            self._busy[kind] += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy[kind] -= 1

    def failed(self, exc: psycopg.Error) -> None:
        """Counts an error by the class of its code, the first two characters."""
        with self._lock:
            self._errors[exc.sqlstate[:2] if exc.sqlstate else "connection"] += 1

    def is_back(self, failed_time: float | None) -> None:
        """Counts the time since work began to wait for a server that went away, if it did."""
        if failed_time is not None:
            with self._lock:
                self._away_s += time.monotonic() - failed_time

    def read(self, *, connections: int, round_trips: int) -> list[Figure]:
        """Returns the figures with those of the connections."""
        with self._lock:
            busy = dict(self._busy)
            errors = dict(self._errors)
            waiting = max(0, self._waiting - sum(busy.values()))
            away_s = self._away_s
        return [
            Figure("connections", "Open connections of the pool", {"": connections}),
            Figure("busy", "Connections that do work", busy, label="kind"),
            Figure("waiting", "Work that waits for a connection", {"": waiting}),
            Figure("round_trips", "Round trips to the database", {"": round_trips}, is_total=True),
            Figure("errors", "Errors by the class of SQLSTATE", errors, "code", is_total=True),
            Figure(
                "away_seconds",
                "Time that work waited for a server that went away",
                {"": away_s},
                is_total=True,
            ),
        ]
