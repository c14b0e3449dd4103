"""Counts the round trips to an ArangoDB server, one after the other, that something takes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from datasources.arango.connection import BoundedHttp


@dataclass(slots=True)
class RoundTrips:
    """`requests` in all, and `steps`: how many of them waited for the one before."""

    requests: int = 0
    steps: int = 0
    under_way: int = 0


@contextmanager
def counted_round_trips() -> Iterator[RoundTrips]:
    """Count what the adapter's own HTTP client sends. Requests that overlap are one step."""
    round_trips = RoundTrips()
    lock = threading.Lock()
    send = BoundedHttp.send_request

    def counting(self: BoundedHttp, *args: Any, **options: Any) -> Any:
        with lock:
            round_trips.requests += 1
            if not round_trips.under_way:
                round_trips.steps += 1
            round_trips.under_way += 1
        try:
            return send(self, *args, **options)
        finally:
            with lock:
                round_trips.under_way -= 1

    with patch.object(BoundedHttp, "send_request", counting):
        yield round_trips


async def round_trips_of(work: Callable[[], Awaitable[Any]]) -> RoundTrips:
    with counted_round_trips() as round_trips:
        await work()
    return round_trips
