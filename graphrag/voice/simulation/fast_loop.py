"""An event loop whose time runs faster, so that nobody waits for a call that nobody listens to.

What is in one process - phone, service, model side - keeps its proportions: every wait by `asyncio` and
every `loop.time()` is shortened by the same factor. Work of the processor is not.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _FastSelector(selectors.SelectSelector):
    """Waits a fraction of the time; by `select`, which knows microseconds."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else timeout / self._speed)


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop in which `speed` seconds pass in one."""

    def __init__(self, speed: float) -> None:
        super().__init__(_FastSelector(speed))
        self._speed = speed

    def time(self) -> float:
        return super().time() * self._speed


def run_fast(work: Coroutine[Any, Any, T], speed: float) -> T:
    """Return what `work` returns, run in a loop of its own `speed` times as fast as the clock."""
    with asyncio.Runner(loop_factory=lambda: FastLoop(speed)) as runner:
        return runner.run(work)
