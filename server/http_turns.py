"""Turns that a request waits for: they are counted, and stopped when the client disconnects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import Request

from graphrag.agent.events import Event
from graphrag.workers import end_tasks
from server.channels.rest_answers import ChatAnswer, chat_answer
from server.errors import TurnStopped
from server.request_language import language_of
from server.server_state import ServerState

T = TypeVar("T")


async def collect(
    state: ServerState, request: Request, events: AsyncGenerator[Event]
) -> ChatAnswer:
    """Returns how a turn ended. When the client disconnects, the turn is stopped and stored.

    Raises: TurnBroken, TurnStopped, and what the generator raises before its first event.
    """
    return chat_answer(await until_gone(request, _gathered(state, events)), language_of(request))


async def until_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of the work, which is cancelled when the client disconnects.

    Raises: TurnStopped.
    """
    turn = asyncio.create_task(work)
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({turn, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not turn.done():
            turn.cancel()
        return await turn
    except asyncio.CancelledError as exc:  # the request is over either way, and that is no fault
        raise TurnStopped from exc
    finally:
        await end_tasks(turn, gone)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _gathered(state: ServerState, events: AsyncGenerator[Event]) -> list[Event]:
    async with aclosing(metered(state, events)) as stream:
        return [event async for event in stream]


async def metered(state: ServerState, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """Yields the events of a turn and counts them."""
    began = time.perf_counter()
    state.monitoring.metrics.turn_began()
    try:
        async with aclosing(events) as stream:
            async for event in stream:
                state.monitoring.metrics.event(event)
                yield event
    finally:
        state.monitoring.metrics.turn_ended(time.perf_counter() - began)
