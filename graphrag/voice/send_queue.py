"""Sends frames to one side of a call in the background, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, final

from graphrag.voice.call_metrics import CallMetrics

MAX_CHARS: Final = 4_000_000  # queued, about six minutes of sound; then the side is given up
CLEAR: Final = '{"event":"clear"'


@final
class SendQueue:
    """Frames to be sent to a side. `on_full` is called once, when the queue is full."""

    def __init__(
        self, send: Callable[[str], Awaitable[None]], on_full: Callable[[], object]
    ) -> None:
        self._send = send
        self._on_full = on_full
        self._waiting: deque[str] = deque()
        self._chars = 0
        self._is_closed = False
        self._wake = asyncio.Event()
        self._on_sent: Callable[[], None] | None = None

    def put(self, text: str) -> None:
        """Queues a frame. A `clear` replaces all queued frames. Does nothing after `close`."""
        if self._is_closed:
            return
        if text.startswith(CLEAR):  # queued sound is older than the interruption
            self._waiting.clear()
            self._chars = 0
        self._waiting.append(text)
        self._chars += len(text)
        self._wake.set()
        if self._chars > MAX_CHARS:
            self.close()
            self._on_full()

    def when_sent(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once, when all queued frames were sent. Replaces an earlier one."""
        self._on_sent = callback

    def measure(
        self,
        metrics: CallMetrics,
        name: str,
        *,
        since: float,
        measured: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Measures the time from `since` until all queued frames are sent, and calls `measured`
        with it. Units: seconds.
        """
        loop = asyncio.get_running_loop()

        def count() -> None:
            seconds = loop.time() - since
            metrics.counted(name, seconds)
            measured(seconds)

        self.when_sent(count)

    async def run(self) -> None:
        """Sends until it is cancelled, or until the side is closed."""
        while not self._is_closed:
            self._wake.clear()
            while self._waiting:
                text = self._waiting.popleft()
                self._chars -= len(text)
                try:
                    await self._send(text)
                except Exception:  # noqa: BLE001 - the reader of the side learns the reason
                    self.close()
                    return
            if (on_sent := self._on_sent) is not None:
                self._on_sent = None
                on_sent()
            await self._wake.wait()

    def close(self) -> None:
        """Discards the queue; nothing more is sent."""
        self._is_closed = True
        self._waiting.clear()
        self._chars = 0
        self._wake.set()
