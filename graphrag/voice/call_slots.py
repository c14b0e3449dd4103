"""Limits the calls of this process, over all workspaces, and ends them when it stops.

A call takes a slot when it rings. The slot expires if no stream is opened. One caller may hold only
a share of the slots; callers who withhold their number may hold half of them together.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final, Protocol, final

from graphrag.agent.thread_agent import EndReason
from graphrag.shares import share_of_one
from graphrag.voice.call_feed import CallFeed
from graphrag.voice.errors import CallsFull

log = logging.getLogger(__name__)

LAST_WORDS_S: Final = 30.0  # before the process stops, calls are asked to end
_EXPIRY_CHECK_S: Final = 1.0  # slots expire without an event


class RunningCall(Protocol):
    """A call that this process serves."""

    @property
    def feed(self) -> CallFeed:
        """The messages of the call, for its followers."""
        ...

    def end_soon(self, reason: EndReason) -> None:
        """Ends the call after a goodbye."""
        ...

    async def decided(self, approval_id: str) -> None:
        """Tells the model the decision about a proposal. Raises: SourceError, ApprovalNotFound."""
        ...


@final
class CallSlots:
    """Slots for calls. `clock`: seconds of a monotonic clock."""

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._clock = clock
        self._is_draining = False
        self._freed = asyncio.Event()
        self._held: dict[str, tuple[float, str | None]] = {}
        self._serving: dict[str, tuple[RunningCall, asyncio.Task[None] | None]] = {}

    @property
    def taken(self) -> int:
        """Number of slots in use."""
        now = self._clock()
        self._held = {call_id: slot for call_id, slot in self._held.items() if slot[0] > now}
        return len(self._held)

    @property
    def is_draining(self) -> bool:
        """Whether new calls are refused because the process stops."""
        return self._is_draining

    def stop_accepting(self) -> None:
        """Refuses new calls from now on."""
        self._is_draining = True

    def reserve(self, call_id: str, held_s: float, *, caller: str | None) -> None:
        """Takes a slot for `held_s` seconds, or extends the slot of the call.

        `caller` is the person or the number that calls, None if it is withheld.
        Raises: CallsFull.
        """
        is_full = self.taken >= self.most
        if call_id not in self._held:
            of_caller = sum(each == caller for _, each in self._held.values())
            most = share_of_one(self.most) if caller else -(-self.most // 2)
            if self._is_draining or is_full or of_caller >= most:
                raise CallsFull
        until, _ = self._held.get(call_id, (0.0, None))
        self._held[call_id] = max(until, self._clock() + held_s), caller

    def give_back(self, call_id: str) -> None:
        """Frees the slot of a call that is not being served."""
        if call_id not in self._serving:
            self._held.pop(call_id, None)
            self._freed.set()

    @contextmanager
    def serving(self, call_id: str, call: RunningCall, *, caller: str | None) -> Generator[None]:
        """Holds the slot of a call, served by the current task, until the end of the block."""
        self._held[call_id] = math.inf, caller
        self._serving[call_id] = (call, asyncio.current_task())
        try:
            yield
        finally:
            del self._serving[call_id]
            self.give_back(call_id)

    def running(self, call_id: str) -> RunningCall | None:
        """Returns a call that this process serves."""
        return self._serving[call_id][0] if call_id in self._serving else None

    async def drain(self, within_s: float) -> None:
        """Refuses new calls and waits for the running ones.

        In the last `LAST_WORDS_S` seconds calls are asked to end; at the end they are cancelled.
        """
        self.stop_accepting()
        await self._wait_until_free(max(0.0, within_s - LAST_WORDS_S))
        for call, _ in list(self._serving.values()):
            try:
                call.end_soon("draining")
            except Exception:  # the other calls are asked all the same; this one is cancelled
                log.exception("call_end_incomplete")
        await self._wait_until_free(min(within_s, LAST_WORDS_S))
        left = [task for _, task in self._serving.values() if task is not None]
        if left:
            log.warning("calls_cut", extra={"calls": len(left)})
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=LAST_WORDS_S)

    async def _wait_until_free(self, timeout_s: float) -> None:
        """Waits until no slot is taken, at most `timeout_s`."""
        until = self._clock() + timeout_s
        while self.taken and (left := until - self._clock()) > 0:
            self._freed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_EXPIRY_CHECK_S, left)):
                    await self._freed.wait()
