"""What happens to messages between a telephone and the service: delay, jitter, and faults on demand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFaults:
    """What goes wrong. `loses`, `doubles`, `delays`: shares of the caller's sound messages.

    `hangs_up_at_s`, `breaks_at_s`: seconds after the stream began at which the caller hangs up, or the
    connection breaks without a word. `seed`: the same faults each time.
    """

    loses: float = 0.0
    doubles: float = 0.0
    delays: float = 0.0
    delayed_by_s: float = 0.3
    ignores_clear: bool = False
    hangs_up_at_s: float | None = None
    breaks_at_s: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LineDelay:
    """The time on the line, each way: `each_way_s`, more or less by up to `jitter_s`."""

    each_way_s: float = 0.0
    jitter_s: float = 0.0


class DelayedLine:
    """One way of a line: hands messages on in their order, each after its delay."""

    def __init__(
        self, hand_on: Callable[[str], Awaitable[None]], delay: LineDelay, chance: random.Random
    ) -> None:
        self._hand_on, self._delay, self._chance = hand_on, delay, chance
        self._queue: asyncio.Queue[tuple[float, str]] = asyncio.Queue()
        self._last = 0.0

    def put(self, message: str, *, later_s: float = 0.0) -> None:
        """Take in a message; `later_s` more for this one, and so for those behind it."""
        wanted = self._delay.each_way_s + self._delay.jitter_s * self._chance.uniform(-1, 1)
        now = asyncio.get_running_loop().time()
        self._last = max(self._last, now + max(0.0, wanted) + later_s)
        self._queue.put_nowait((self._last, message))

    async def run(self) -> None:
        """Hand messages on until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due, message = await self._queue.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            await self._hand_on(message)
            self._queue.task_done()

    async def empty(self) -> None:
        """Return when all that was put has been handed on."""
        await self._queue.join()
