"""Asks a server whether it is alive, again and again, while something else keeps it busy."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from itertools import pairwise
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

EVERY_S = 0.02
PATIENCE_S = 60.0


class HealthProbe:
    """Polls `/healthz` every 20 ms on one connection, from a thread of its own.

    Units: milliseconds.
    """

    def __init__(self, base_url: str) -> None:
        address = urlsplit(base_url)
        self._host = address.hostname or "127.0.0.1"
        self._port = address.port or 80
        self._latencies: list[float] = []
        self._answered: list[float] = []
        self._failures: list[str] = []
        self._end, self._news = threading.Event(), threading.Condition()
        self._thread = threading.Thread(target=self._poll, name="health-probe", daemon=True)

    async def __aenter__(self) -> Self:
        self._answered.append(time.perf_counter())
        self._thread.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._end.set()
        await asyncio.to_thread(self._thread.join, PATIENCE_S + 1)
        self._answered.append(time.perf_counter())

    @property
    def samples(self) -> list[float]:
        """How long each answer took, in order."""
        return list(self._latencies)

    @property
    def failures(self) -> list[str]:
        """Asks that got no answer, or another one than 200."""
        return list(self._failures)

    @property
    def p95_ms(self) -> float:
        """What 95 % of the asks had to wait, with those that a slow answer held up;
        infinity without one.

        Source: the expected-interval correction of HdrHistogram.
        """
        every_ms = EVERY_S * 1000
        held_up = (
            ms - i * every_ms for ms in self._latencies for i in range(1, int(ms / every_ms) + 1)
        )
        ordered = sorted([*self._latencies, *held_up])
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] if ordered else float("inf")

    @property
    def longest_gap_ms(self) -> float:
        """The longest time without a good answer; a time still without one counts at the end."""
        return max((after - before for before, after in pairwise(self._answered)), default=0) * 1000

    async def answered(self, times: int) -> None:
        """Wait for so many more good answers. Raises: TimeoutError."""
        wanted = len(self._latencies) + times
        if not await asyncio.to_thread(self._wait, wanted):
            raise TimeoutError

    def _wait(self, wanted: int) -> bool:
        with self._news:
            return self._news.wait_for(lambda: len(self._latencies) >= wanted, PATIENCE_S)

    def _poll(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._end.is_set():
            began = time.perf_counter()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(
                        self._host, self._port, timeout=PATIENCE_S
                    )
                connection.request("GET", "/healthz")
                answer = connection.getresponse()
                answer.read()
                now = time.perf_counter()
                if answer.status == 200:
                    self._latencies.append((now - began) * 1000)
                    self._answered.append(now)
                    with self._news:
                        self._news.notify_all()
                else:
                    self._failures.append(str(answer.status))
            except (OSError, http.client.HTTPException) as exc:
                self._failures.append(type(exc).__name__)
                if connection is not None:
                    connection.close()
                connection = None
            self._end.wait(max(0.0, began + EVERY_S - time.perf_counter()))
        if connection is not None:
            connection.close()
