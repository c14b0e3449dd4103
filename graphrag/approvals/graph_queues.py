"""Lets work on one graph be done one after the other in this process, in the order it was asked for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from graphrag.approvals.errors import ApprovalBusy

T = TypeVar("T")

MAX_QUEUED = 1_000
"""Decisions of one graph that wait at most; one more is refused."""


class GraphQueues:
    """One queue for each graph. Who goes away before their turn leaves it."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._asked: Counter[str] = Counter()

    async def run(self, graph_key: str, approval_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` in its turn; once begun it goes on to its end, also when the caller is cancelled.

        Raises: ApprovalBusy when too many wait, and what `work` raises.
        """
        if self._asked[graph_key] >= MAX_QUEUED:
            raise ApprovalBusy(approval_id=approval_id)
        lock = self._locks.setdefault(graph_key, asyncio.Lock())
        self._asked[graph_key] += 1
        try:
            await lock.acquire()
        except asyncio.CancelledError:
            self._left(graph_key)
            raise
        task = asyncio.ensure_future(work())
        task.add_done_callback(lambda _: (lock.release(), self._left(graph_key)))
        return await asyncio.shield(task)

    def _left(self, graph_key: str) -> None:
        self._asked[graph_key] -= 1
        if not self._asked[graph_key]:
            del self._asked[graph_key], self._locks[graph_key]
