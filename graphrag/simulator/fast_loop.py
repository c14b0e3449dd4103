"""An event loop with a faster clock, so that a simulated call takes less time than a real one.

Phone, service and model side in one process keep their proportions: every wait by `asyncio` and
every `loop.time()` uses the same clock. Computation is not sped up, and late wake-ups of the
process do not advance the clock.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _FastSelector(selectors.SelectSelector):
    """Waits a fraction of the time, by `select` with its microsecond resolution.

    `ahead_s`: the time saved so far.
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
    """An event loop in which waiting for a second takes 1/`speed` seconds."""

    def __init__(self, speed: float) -> None:
        self._fast = _FastSelector(speed)
        super().__init__(self._fast)

    def time(self) -> float:
        """Returns the accelerated time in seconds."""
        return super().time() + self._fast.ahead_s


def run_fast(work: Coroutine[Any, Any, T], speed: float) -> T:
    """Runs `work` in a new loop that waits `speed` times as fast. Returns its result."""
    with asyncio.Runner(loop_factory=lambda: FastLoop(speed)) as runner:
        return runner.run(work)
