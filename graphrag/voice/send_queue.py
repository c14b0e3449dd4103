"""Sends frames to one side of a call, in their order, without anybody waiting for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

MOST_CHARS: Final = 4_000_000
"""What may wait to be sent: six minutes of sound. A side that takes less is gone."""
CLEAR: Final = '{"event":"clear"'


class SendQueue:
    """What waits to be sent to a side. `on_full` is called once, when it takes too little.

    `on_sent` is called once, when all that waits has been sent.
    """

    def __init__(
        self, send: Callable[[str], Awaitable[None]], on_full: Callable[[], object]
    ) -> None:
        self._send = send
        self._on_full = on_full
        self._waiting: deque[str] = deque()
        self._chars = 0
        self._is_gone = False
        self._wake = asyncio.Event()
        self.on_sent: Callable[[], None] | None = None

    def put(self, text: str) -> None:
        """Have a frame sent after those before it; a `clear` takes their place.

        Nothing is sent to a side that is gone.
        """
        if self._is_gone:
            return
        if text.startswith(CLEAR):  # what waits is older than the interruption
            self._waiting.clear()
            self._chars = 0
        self._waiting.append(text)
        self._chars += len(text)
        self._wake.set()
        if self._chars > MOST_CHARS:
            self.leave()
            self._on_full()

    async def run(self) -> None:
        """Send until cancelled, or until the side is gone."""
        while not self._is_gone:
            self._wake.clear()
            while self._waiting:
                text = self._waiting.popleft()
                self._chars -= len(text)
                try:
                    await self._send(text)
                except Exception:  # noqa: BLE001 - who reads the side finds out why
                    self.leave()
                    return
            if self.on_sent is not None:
                on_sent = self.on_sent
                self.on_sent = None
                on_sent()
            await self._wake.wait()

    def leave(self) -> None:
        """Send nothing any more: the side is gone."""
        self._is_gone = True
        self._waiting.clear()
        self._chars = 0
        self._wake.set()
