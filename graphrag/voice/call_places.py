"""The calls of this process, of all workspaces: how many there may be, and how they end
when it stops.

A place is taken when a call rings and given back by itself when no stream comes for it. One caller
has a share of the places; callers who withhold their number have half of them together, as
strangers have of the connections.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

from graphrag.shares import share_of_one
from graphrag.voice.call_errors import CallsFull
from graphrag.voice.call_runner import CallRunner

log = logging.getLogger(__name__)

LAST_WORDS_S: Final = 30.0
"""So long before the process stops calls are asked to end."""


class CallPlaces:
    """Places for calls. `clock`: seconds of a clock that never goes back."""

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._clock = clock
        self.is_draining = False
        self._freed = asyncio.Event()
        self._held: dict[str, tuple[float, str | None]] = {}
        self._serving: dict[str, tuple[CallRunner, asyncio.Task[None] | None]] = {}

    @property
    def taken(self) -> int:
        """How many places are taken now."""
        now = self._clock()
        self._held = {call_id: place for call_id, place in self._held.items() if place[0] > now}
        return len(self._held)

    def reserve(self, call_id: str, held_s: float, *, caller: str | None) -> None:
        """Takes a place for so many seconds, or holds a call's own for longer.

        `caller` is the person or the number that calls, None if it is withheld.
        Raises: CallsFull.
        """
        is_full = self.taken >= self.most
        if call_id not in self._held:
            of_caller = sum(each == caller for _, each in self._held.values())
            most = share_of_one(self.most) if caller else -(-self.most // 2)
            if self.is_draining or is_full or of_caller >= most:
                raise CallsFull
        until, _ = self._held.get(call_id, (0.0, None))
        self._held[call_id] = max(until, self._clock() + held_s), caller

    def give_back(self, call_id: str) -> None:
        """Free the place of a call that does not come."""
        if call_id not in self._serving:
            self._held.pop(call_id, None)
            self._freed.set()

    @contextmanager
    def serving(self, call_id: str, call: CallRunner, *, caller: str | None) -> Generator[None]:
        """Hold the place of a call that runs, in the current task, until the end of the block."""
        self._held[call_id] = math.inf, caller
        self._serving[call_id] = (call, asyncio.current_task())
        try:
            yield
        finally:
            del self._serving[call_id]
            self.give_back(call_id)

    def running(self, call_id: str) -> CallRunner | None:
        """Return a call that runs here."""
        return self._serving[call_id][0] if call_id in self._serving else None

    async def drain(self, within_s: float) -> None:
        """Take no call any more; let those that run go on, tell them to end in the last
        seconds, then cut.
        """
        self.is_draining = True
        await self._idle(max(0.0, within_s - LAST_WORDS_S))
        for call, _ in list(self._serving.values()):
            try:
                call.end_soon("draining")
            except Exception:  # the other calls end all the same, and this one is cut
                log.exception("call_end_incomplete")
        await self._idle(min(within_s, LAST_WORDS_S))
        left = [task for _, task in self._serving.values() if task is not None]
        if left:
            log.warning("calls_cut", extra={"calls": len(left)})
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=LAST_WORDS_S)

    async def _idle(self, timeout_s: float) -> None:
        """Wait until no call rings or runs, at most so long."""
        until = self._clock() + timeout_s
        while self.taken and (left := until - self._clock()) > 0:
            self._freed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    min(1.0, left)
                ):  # places that nobody came for end by themselves
                    await self._freed.wait()
