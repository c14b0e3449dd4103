"""An event loop with shortened waits, so that a simulated call takes less time than a real one.

What is in one process - phone, service, model side - keeps its proportions: every wait by `asyncio`
and every `loop.time()` follows the same clock. Work takes the time that it takes, and a machine
that wakes the loop too late does not make it late.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _FastSelector(selectors.SelectSelector):
    """Waits a fraction of the time; by `select`, which knows microseconds. `ahead_s`: what
    it has saved.
    """

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed
        self.ahead_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        began = time.monotonic()
        ready = super().select(None if timeout is None else timeout / self._speed)
        waited = time.monotonic() - began
        passed = waited * self._speed
        self.ahead_s += (passed if timeout is None else min(passed, max(timeout, 0.0))) - waited
        return ready


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting for a second takes one of `speed` parts of it."""

    def __init__(self, speed: float) -> None:
        self._fast = _FastSelector(speed)
        super().__init__(self._fast)

    def time(self) -> float:
        return super().time() + self._fast.ahead_s


def run_fast(work: Coroutine[Any, Any, T], speed: float) -> T:
    """Return what `work` returns, run in a loop of its own that waits `speed` times as fast."""
    with asyncio.Runner(loop_factory=lambda: FastLoop(speed)) as runner:
        return runner.run(work)
