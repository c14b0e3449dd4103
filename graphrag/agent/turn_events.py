"""The events of a turn that is under way, and how the turn is stored when it breaks off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager

from datasources.errors import SourceError
from graphrag.agent.events import Completed, Ending, Event, Failed, TurnFault, classify
from graphrag.agent.thread_store import ThreadBusy, ThreadError
from graphrag.agent.turn import Turn
from graphrag.agent.turn_lease import TurnUnwanted
from graphrag.llm.errors import ModelError

log = logging.getLogger(__name__)


async def turn_events(
    turn: Turn, steps: AsyncGenerator[Event], first: Sequence[Event] = ()
) -> AsyncGenerator[Event]:
    """Yields the events of a leased turn, except the last one, which becomes `turn.ending`.

    If it is closed or cancelled, or a person stops the turn elsewhere, the turn is stored as
    stopped. A failure is stored and becomes `Failed`. The trace is kept with a turn that could be
    stored.
    """
    is_stored = True
    try:
        async with aclosing(steps):
            for event in (turn.started, *first):
                yield event
            while True:
                with turn.hold.step(), turn.trace.within():
                    event = await anext(steps, None)
                if event is None:
                    break
                if isinstance(event, Ending):
                    turn.end(event)
                else:
                    yield event
    except (asyncio.CancelledError, GeneratorExit):
        if turn.state.status == "running":
            is_stored = await asyncio.shield(_is_stored(turn, turn.kind.stop(turn, None)))
        raise
    except TurnUnwanted as exc:
        is_stored = await _is_stored(turn, turn.kind.stop(turn, exc.reason))
        turn.end(Completed(thread_id=turn.thread_id, text=turn.text, stopped=True))
    except Exception as exc:  # noqa: BLE001 - whatever it was, a person is shown what they may know of it
        fault = _log_failure(turn, exc)
        turn.end(Failed(thread_id=turn.thread_id, fault=fault))
        is_stored = not isinstance(exc, ThreadBusy) and await _is_stored(
            turn, turn.kind.fail(turn, fault)
        )
    finally:
        facts = turn.trace.close(turn.stored.thread, turn.text, is_stored=is_stored)
        if facts is not None and turn.trace.traces is not None:
            await asyncio.shield(turn.trace.traces.keep(facts, turn.trace))


@asynccontextmanager
async def opening(turn: Turn) -> AsyncGenerator[None]:
    """Opens a turn in the block. If it is cancelled after the turn took its message, the turn is
    stored as stopped.
    """
    before = turn.state.number
    try:
        with turn.trace.within():
            yield
    except BaseException as exc:
        turn.trace.end(failed=True)
        if turn.state.number > before and isinstance(exc, asyncio.CancelledError):
            await asyncio.shield(_is_stored(turn, turn.kind.stop(turn, None)))
        raise


async def _is_stored(turn: Turn, storing: Awaitable[None]) -> bool:
    """Waits for a turn to be stored. Returns whether it was."""
    try:
        await storing
    except (ThreadError, SourceError) as exc:
        log.warning(
            "turn_not_stored", extra={"thread_id": turn.thread_id, "error": type(exc).__name__}
        )
        return False
    return True


def _log_failure(turn: Turn, exc: Exception) -> TurnFault:
    """Logs why a turn failed. Returns the fault that people are shown."""
    fault = classify(exc)
    if isinstance(exc, ModelError):
        model = turn.stored.thread.model
        facts = {"provider": exc.provider, "model": model, "code": fault.code}
        log.error("llm_error", extra=facts | {"statusCode": exc.status})
    facts = {"thread_id": turn.thread_id, "code": fault.code, "error": type(exc).__name__}
    log.warning("turn_failed", extra=facts, exc_info=exc if fault.code == "internal" else None)
    return fault
