"""Counts the journeys to an ArangoDB server, one after the other, that something takes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from datasources.arango.http import BoundedHttp


@dataclass(slots=True)
class Journeys:
    """`requests` in all, and `steps`: how many of them waited for the one before."""

    requests: int = 0
    steps: int = 0
    under_way: int = 0


@contextmanager
def counted_journeys() -> Iterator[Journeys]:
    """Count what the adapter's own HTTP client sends. Requests that overlap are one step."""
    journeys, lock = Journeys(), threading.Lock()
    send = BoundedHttp.send_request

    def counting(self: BoundedHttp, *args: Any, **options: Any) -> Any:
        with lock:
            journeys.requests += 1
            if not journeys.under_way:
                journeys.steps += 1
            journeys.under_way += 1
        try:
            return send(self, *args, **options)
        finally:
            with lock:
                journeys.under_way -= 1

    with patch.object(BoundedHttp, "send_request", counting):
        yield journeys


async def journeys_of(work: Callable[[], Awaitable[Any]]) -> Journeys:
    with counted_journeys() as journeys:
        await work()
    return journeys
