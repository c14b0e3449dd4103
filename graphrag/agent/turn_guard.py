"""Watches over a turn: leaves a valid thread behind it however it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing

from datasources.errors import SourceError
from graphrag.agent.events import Completed, Event, Failed, TurnStarted
from graphrag.agent.failures import classify
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_store import ThreadBusy, ThreadError
from graphrag.agent.turn_lease import TurnUnwanted
from graphrag.llm.errors import ModelError

log = logging.getLogger(__name__)


async def begin(turn: RunningTurn) -> None:
    """Store that a turn is under way; cancelled meanwhile, that it is stopped.

    Raises: ThreadBusy, SourceError.
    """
    try:
        await turn.save("running")
    except asyncio.CancelledError:
        await asyncio.shield(_stored(turn, turn.stop()))
        raise


async def watched(
    turn: RunningTurn, first: Sequence[Event], events: AsyncGenerator[Event]
) -> AsyncGenerator[Event]:
    """Yield that a turn began, what is told `first`, and its events.

    Closed or cancelled, it stores the turn as stopped, as it does when a person stops it from
    elsewhere; a failure is stored and becomes `Failed`.
    """
    try:
        async with aclosing(events) as inner:
            yield TurnStarted(
                thread_id=turn.thread_id,
                turn=turn.state.number,
                retrieved=turn.retrieved,
                reasons=turn.reasons,
                words_only=turn.words_only,
            )
            for event in first:
                yield event
            while (event := await _next(turn, inner)) is not None:
                yield event
    except (asyncio.CancelledError, GeneratorExit):
        if turn.state.status == "running":
            await asyncio.shield(_stored(turn, turn.stop()))
        raise
    except TurnUnwanted:
        await _stored(turn, turn.stop())
        yield Completed(thread_id=turn.thread_id, text=turn.text, stopped=True)
    except Exception as exc:  # the one door: what a person may know of it is said
        fault = classify(exc)
        facts = {"thread_id": turn.thread_id, "code": fault.code, "error": type(exc).__name__}
        if isinstance(exc, ModelError):
            said = {"provider": exc.provider, "model": turn.stored.thread.model, "code": fault.code}
            log.log(logging.ERROR, "llm_error", extra=said | {"statusCode": exc.status})
        log.warning("turn_failed", extra=facts, exc_info=exc if fault.code == "internal" else None)
        if not isinstance(exc, ThreadBusy):
            await _stored(turn, turn.fail())
        yield Failed(thread_id=turn.thread_id, fault=fault)


async def _next(turn: RunningTurn, events: AsyncGenerator[Event]) -> Event | None:
    with turn.hold.step():
        return await anext(events, None)


async def _stored(turn: RunningTurn, leaving: Awaitable[None]) -> None:
    try:
        await leaving
    except (ThreadError, SourceError) as exc:
        log.warning("turn_not_stored", extra={"thread_id": turn.thread_id, "error": type(exc).__name__})
