"""An event loop whose clock is the test's: waiting for a timer costs no time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any


class _Timeless(asyncio.SelectorEventLoop):
    """A loop that jumps to the next timer when nothing else is to be done, in no thread either."""

    ahead_s = 0.0
    threads = 0

    def time(self) -> float:
        return super().time() + self.ahead_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        self.threads += 1
        made = super().run_in_executor(executor, func, *args)
        made.add_done_callback(self._thread_done)
        return made

    def _thread_done(self, _: Any) -> None:
        self.threads -= 1

    def _run_once(self) -> None:
        inside: Any = self
        if not inside._ready and inside._scheduled and not inside._stopping and not self.threads:
            self.ahead_s += max(0.0, min(float(inside._scheduled[0].when()) - self.time(), 60.0))
        super()._run_once()  # type: ignore[misc]


def by_clock(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in a loop where waiting takes no time."""

    @wraps(test)
    def run(**given: Any) -> None:
        with asyncio.Runner(loop_factory=_Timeless) as runner:
            runner.run(test(**given))

    return run
