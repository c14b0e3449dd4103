"""Watches over turns: one at a time in a thread, and a valid thread behind it however it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing, contextmanager

from datasources.errors import SourceError
from graphrag.events import Event, Failed
from graphrag.faults import classify
from graphrag.threads import ThreadBusy, ThreadError
from graphrag.turns import RunningTurn

log = logging.getLogger(__name__)


class Alone:
    """Holds threads for one turn each of this process."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    @contextmanager
    def in_thread(self, thread_id: str) -> Generator[None]:
        """Raises: ThreadBusy when a turn of the thread is under way here."""
        if thread_id in self._held:
            raise ThreadBusy(thread_id=thread_id)
        self._held.add(thread_id)
        try:
            yield
        finally:
            self._held.discard(thread_id)


async def watched(turn: RunningTurn, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """Yield the events of a turn. Closed or cancelled, it stores the turn as stopped; a failure is
    stored and becomes `Failed`."""
    try:
        async with aclosing(events) as inner:
            async for event in inner:
                yield event
    except (asyncio.CancelledError, GeneratorExit):
        if turn.state.status == "running":
            await asyncio.shield(_stored(turn, turn.stop()))
        raise
    except Exception as exc:  # the one door: what a person may know of it is said
        fault = classify(exc)
        facts = {"thread_id": turn.thread_id, "code": fault.code, "error": type(exc).__name__}
        log.warning("turn_failed", extra=facts, exc_info=exc if fault.code == "internal" else None)
        if not isinstance(exc, ThreadBusy):
            await _stored(turn, turn.fail())
        yield Failed(thread_id=turn.thread_id, fault=fault)


async def _stored(turn: RunningTurn, leaving: Awaitable[None]) -> None:
    try:
        await leaving
    except (ThreadError, SourceError) as exc:
        log.warning("turn_not_stored", extra={"thread_id": turn.thread_id, "error": type(exc).__name__})
