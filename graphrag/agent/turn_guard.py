"""Holds the thread of a turn, and stores it valid however the turn ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from datasources.errors import SourceError
from graphrag.agent.events import Completed, Event, Failed, TurnStarted
from graphrag.agent.failures import classify
from graphrag.agent.pending_question import AlreadyAnswered, PendingQuestion, standing_answer
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_store import ThreadBusy, ThreadError, Threads
from graphrag.agent.turn_lease import TurnLease, TurnLeases, TurnUnwanted
from graphrag.llm.errors import ModelError
from graphrag.roles import Person

log = logging.getLogger(__name__)


@asynccontextmanager
async def held(
    threads: Threads, leases: TurnLeases, thread_id: str, person: Person, *, is_answering: bool = False
) -> AsyncGenerator[TurnLease]:
    """Hold a thread that was not read yet. Raises: ThreadBusy, or AlreadyAnswered where somebody was
    faster; ThreadNotFound to all but its owner."""
    async with AsyncExitStack() as stack:
        try:
            hold = await stack.enter_async_context(leases.held(thread_id))
        except ThreadBusy:
            thread = (await threads.get(thread_id, person)).thread
            standing = standing_answer(thread.messages) if is_answering else None
            if standing is not None and PendingQuestion.of(thread) is None:
                raise AlreadyAnswered(thread_id=thread_id, answer=standing) from None
            raise
        yield hold


async def begin(turn: RunningTurn) -> None:
    """Store that a turn is under way; cancelled meanwhile, that it is stopped.

    Raises: ThreadBusy, SourceError.
    """
    try:
        await turn.save("running")
    except asyncio.CancelledError:
        await asyncio.shield(_stored(turn, turn.abandon()))
        raise


async def watched(
    turn: RunningTurn, first: Sequence[Event], events: AsyncGenerator[Event]
) -> AsyncGenerator[Event]:
    """Yield that a turn began, the `first` events, and its own.

    Closed or cancelled, it stores the turn as stopped, as it does when a person stops it from
    elsewhere; a failure is stored and becomes `Failed`. How it came about is kept with the turn: nothing
    stays of one that cannot be stored, as its thread was deleted meanwhile.
    """
    is_stored = True
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
            is_stored = await asyncio.shield(_stored(turn, turn.abandon()))
        raise
    except TurnUnwanted as exc:
        is_stored = await _stored(turn, turn.stop(exc.reason))
        yield Completed(thread_id=turn.thread_id, text=turn.text, stopped=True)
    except Exception as exc:  # whatever it was, a person is shown what they may know of it
        fault = classify(exc)
        facts = {"thread_id": turn.thread_id, "code": fault.code, "error": type(exc).__name__}
        if isinstance(exc, ModelError):
            said = {"provider": exc.provider, "model": turn.stored.thread.model, "code": fault.code}
            log.log(logging.ERROR, "llm_error", extra=said | {"statusCode": exc.status})
        log.warning("turn_failed", extra=facts, exc_info=exc if fault.code == "internal" else None)
        is_stored = not isinstance(exc, ThreadBusy) and await _stored(turn, turn.fail(fault))
        yield Failed(thread_id=turn.thread_id, fault=fault)
    finally:
        if turn.trace is not None:
            if is_stored:
                await asyncio.shield(turn.trace.keep(turn))
            else:
                turn.trace.broken_off()


async def _next(turn: RunningTurn, events: AsyncGenerator[Event]) -> Event | None:
    with turn.hold.step(), turn.traced():
        return await anext(events, None)


async def _stored(turn: RunningTurn, leaving: Awaitable[None]) -> bool:
    try:
        await leaving
    except (ThreadError, SourceError) as exc:
        log.warning("turn_not_stored", extra={"thread_id": turn.thread_id, "error": type(exc).__name__})
        return False
    return True
