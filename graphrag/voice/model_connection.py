"""Keeps a call connected to its model: one connection at a time, read until it is gone
or given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from graphrag.voice.call_opening import CallOpening
from graphrag.voice.model_side import ModelSide, RealtimeRefused, RealtimeUnreachable
from graphrag.voice.send_queue import SendQueue
from graphrag.voice.signals import ModelEvent, ModelLost, Signal

log = logging.getLogger(__name__)

CONNECT_S: Final = 5.0
RECONNECT_S: Final = 3.0
FAIR_EVENTS: Final = 16
"""After so many events at once of one side the others have their turn."""

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Runs something beside, within the call's life."""


class ModelConnection:
    """The model side of a call. `take` is given its events, and that it is lost."""

    def __init__(self, opening: CallOpening, take: Callable[[Signal], None], spawn: Spawn) -> None:
        self.line: SendQueue | None = None
        """What is sent to it; None while it is being opened."""
        self._opening = opening
        self._take = take
        self._spawn = spawn
        self._number = 0
        self._reading: asyncio.Task[None] | None = None

    def put(self, text: str) -> None:
        """Have a frame sent; while there is no connection nobody wants one."""
        if self.line is not None:
            self.line.put(text)

    def begin(self) -> None:
        """Read the connection that was opened for the call."""
        self._reading = self._spawn(self._read(self._number))

    def again(self, after_s: float) -> None:
        """Leaves the connection for another one, which is opened after so many seconds."""
        self._number += 1
        self.line = None
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()
        self._reading = self._spawn(self._read(self._number, after_s))

    async def _read(self, number: int, after_s: float = 0.0) -> None:
        side: ModelSide | None = None
        line: SendQueue | None = None
        lost = ModelLost()
        events = 0
        loop = asyncio.get_running_loop()
        try:
            if after_s:
                await asyncio.sleep(after_s)
            side = await self._connected(number)
            line = self.line = SendQueue(side.send, lambda: loop.call_soon(self._take, ModelLost()))
            self._spawn(line.run())
            async for event in side.events():
                if number == self._number:
                    self._take(ModelEvent(event))
                if number != self._number:  # it was given up, for that event or before
                    return
                if (events := events + 1) % FAIR_EVENTS == 0:
                    await asyncio.sleep(0)
        except RealtimeRefused as exc:
            lost = ModelLost(fatal=True, refusal=exc.refusal)
        except (RealtimeUnreachable, TimeoutError, OSError) as exc:
            lost = ModelLost(refusal=exc.refusal if isinstance(exc, RealtimeUnreachable) else None)
            facts = {"call_id": self._opening.thread.key, "error": type(exc).__name__}
            log.warning("model_lost", extra=facts)
        finally:
            if line is not None:
                line.leave()
            if side is not None:
                with suppress(Exception):
                    await side.close()
        if number == self._number:
            self._take(lost)

    async def _connected(self, number: int) -> ModelSide:
        """Return the side, open. Raises: RealtimeRefused, RealtimeUnreachable, TimeoutError."""
        if number == 0:
            async with asyncio.timeout(CONNECT_S):
                return await self._opening.connected()
        side = self._opening.new_side()
        try:
            async with asyncio.timeout(RECONNECT_S):
                await side.open()
        except BaseException:
            with suppress(Exception):
                await side.close()
            raise
        return side
