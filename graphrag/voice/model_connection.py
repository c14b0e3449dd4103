"""Keeps a call connected to its model, by one connection at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from graphrag.bridge.signals import ModelEvent, ModelLost, Signal
from graphrag.realtime.model_side import ModelSide, RealtimeRefused, RealtimeUnreachable
from graphrag.voice.call_engine import Spawn
from graphrag.voice.call_setup import CallSetup
from graphrag.voice.send_queue import SendQueue

log = logging.getLogger(__name__)

CONNECT_S: Final = 5.0
RECONNECT_S: Final = 3.0
FAIR_EVENTS: Final = 16  # events read from one side before other tasks run


@final
class ModelConnection:
    """The model side of a call. `take` receives its events and the loss of the connection."""

    def __init__(self, setup: CallSetup, take: Callable[[Signal], None], spawn: Spawn) -> None:
        self.queue: SendQueue | None = None  # None while the connection is being opened
        self._setup = setup
        self._take = take
        self._spawn = spawn
        self._number = 0
        self._reading: asyncio.Task[None] | None = None

    def put(self, text: str) -> None:
        """Queues a frame. Without a connection it is dropped: a new session starts afresh."""
        if self.queue is not None:
            self.queue.put(text)

    def begin(self) -> None:
        """Starts reading the connection that was opened for the call."""
        self._reading = self._spawn(self._read(self._number))

    def reconnect(self, after_s: float) -> None:
        """Replaces the connection by another one, opened after `after_s` seconds."""
        self._number += 1
        self.queue = None
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()
        self._reading = self._spawn(self._read(self._number, after_s))

    async def _read(self, number: int, after_s: float = 0.0) -> None:
        side: ModelSide | None = None
        queue: SendQueue | None = None
        lost = ModelLost()
        events = 0
        loop = asyncio.get_running_loop()
        try:
            if after_s:
                await asyncio.sleep(after_s)
            side = await self._connected(number)
            queue = self.queue = SendQueue(
                side.send, lambda: loop.call_soon(self._take, ModelLost())
            )
            self._spawn(queue.run())
            async for event in side.events():
                if number == self._number:
                    self._take(ModelEvent(event))
                if number != self._number:  # replaced meanwhile
                    return
                if (events := events + 1) % FAIR_EVENTS == 0:
                    await asyncio.sleep(0)
        except RealtimeRefused as exc:
            lost = ModelLost(fatal=True, refusal=exc.refusal)
        except (RealtimeUnreachable, TimeoutError, OSError) as exc:
            lost = ModelLost(refusal=exc.refusal if isinstance(exc, RealtimeUnreachable) else None)
            facts = {"call_id": self._setup.thread.key, "agent_id": self._setup.agent.agent_id}
            log.warning("model_lost", extra=facts | {"error": type(exc).__name__})
        finally:
            if queue is not None:
                queue.close()
            if side is not None:
                with suppress(Exception):
                    await side.close()
        if number == self._number:
            self._take(lost)

    async def _connected(self, number: int) -> ModelSide:
        """Returns an open side. Raises: RealtimeRefused, RealtimeUnreachable, TimeoutError."""
        if number == 0:
            async with asyncio.timeout(CONNECT_S):
                return await self._setup.connected()
        side = self._setup.new_side()
        try:
            async with asyncio.timeout(RECONNECT_S):
                await side.open()
        except BaseException:
            with suppress(Exception):
                await side.close()
            raise
        return side
