"""Attempts at an answer: how long one may take, and when it is made again."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from graphrag.llm.base import Chunk, PromptProgress, ToolCallSetAside, UsageReport
from graphrag.llm.errors import ModelEmptyReply, ModelError, ModelTimedOut

log = logging.getLogger(__name__)

TAIL_S = 5.0
"""How long to wait for what follows the end of an answer: the count of its tokens, the connection's end."""

END = object()
"""Stands for the end of a stream."""

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently to try again.

    Units: seconds. A provider that asks for a pause longer than `max_wait_s` is not asked again:
    coming back earlier would only prolong the refusal.
    """

    attempts: int = 4
    first_wait_s: float = 0.5
    max_wait_s: float = 30.0
    sleep: Sleep = asyncio.sleep

    def pause_s(self, attempt: int, retry_after_s: float | None) -> float | None:
        """Return how long to wait after the given attempt (from 1), or None not to try again."""
        if attempt >= self.attempts:
            return None
        if retry_after_s is not None:
            return retry_after_s if retry_after_s <= self.max_wait_s else None
        growing = self.first_wait_s * 2 ** (attempt - 1)
        return min(growing * (1 + random.random()), self.max_wait_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTimeouts:
    """How long to wait. Units: seconds, for each piece, for the first one, and for all of the answer.

    A local server may read a prompt for minutes: `total_s` then counts from the first piece, and what
    timed out is not asked again (`repeats_timeouts`), for it would be read from the beginning.
    """

    silence_s: float = 60.0
    total_s: float = 300.0
    first_s: float | None = None
    repeats_timeouts: bool = True


class AnswerClock:
    """The time one answer may take."""

    def __init__(self, provider: str, timeouts: AnswerTimeouts) -> None:
        self._provider, self._timeouts = provider, timeouts
        self._silence_s = timeouts.first_s or timeouts.silence_s
        self._total_s = timeouts.total_s + (timeouts.first_s or 0.0)
        self._begun = False
        self._end = asyncio.get_running_loop().time() + self._total_s

    def begin(self) -> None:
        """Note that something of the answer came: the next pieces must come faster."""
        if not self._begun:
            self._begun, self._silence_s = True, self._timeouts.silence_s
            if self._timeouts.first_s is not None:
                self._total_s = self._timeouts.total_s
                self._end = asyncio.get_running_loop().time() + self._total_s

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Return what is awaited. Raises: ModelTimedOut; the work waited for is cancelled then."""
        now = asyncio.get_running_loop().time()
        by = min(now + self._silence_s, self._end)
        limit = asyncio.timeout_at(by)
        try:
            async with limit:
                return await awaitable
        except TimeoutError as exc:
            if not limit.expired():
                raise
            if by < self._end:
                raise ModelTimedOut(provider=self._provider, seconds=self._silence_s) from exc
            late = f"the answer was not whole after {self._total_s:g} s"
            raise ModelTimedOut(provider=self._provider, seconds=self._total_s, reason=late) from exc

    async def next(self, source: AsyncIterator[object], *, is_whole: bool) -> object:
        """Return what comes next, or END. After a whole answer, what comes late is not waited for.

        Raises: ModelTimedOut.
        """
        if not is_whole:
            return await self.wait(anext(source, END))
        with suppress(TimeoutError):
            async with asyncio.timeout(TAIL_S):
                return await anext(source, END)
        return END


class Attempts:
    """The attempts at one answer. Once a piece of an answer went out, a failure is final: it was seen."""

    def __init__(self, policy: RetryPolicy, timeouts: AnswerTimeouts, *, model: str) -> None:
        self._policy, self._timeouts, self._model = policy, timeouts, model
        self._number = 0
        self.begin()

    def begin(self) -> None:
        """Count another attempt."""
        self._number += 1
        self._begun, self._began = False, time.perf_counter()

    def feed(self, chunk: Chunk) -> None:
        """Note what an attempt brings, before it goes out."""
        if not self._begun and not isinstance(chunk, UsageReport | ToolCallSetAside | PromptProgress):
            self._begun = True
            log.debug("model_first_piece", extra={"model": self._model, "ms": _ms_since(self._began)})

    def succeeded(self) -> None:
        """Log that the answer is whole."""
        facts = {"model": self._model, "attempt": self._number, "ms": _ms_since(self._began)}
        log.debug("model_answered", extra=facts)

    async def failed(self, exc: ModelError) -> None:
        """Wait until the next attempt may begin. Raises: the error, where there is none."""
        facts = {"provider": exc.provider, "model": self._model, "error": type(exc).__name__}
        facts |= {"status": exc.status, "attempt": self._number}
        # Silence is often what a model means: it is paid for, and asking twice is enough.
        final = self._begun or not exc.retryable or (isinstance(exc, ModelEmptyReply) and self._number > 1)
        final = final or (isinstance(exc, ModelTimedOut) and not self._timeouts.repeats_timeouts)
        pause_s = None if final else self._policy.pause_s(self._number, exc.retry_after_s)
        if pause_s is None:
            log.warning("model_failed", extra=facts | {"begun": self._begun})
            raise exc
        log.info("model_retry", extra=facts | {"pause_s": round(pause_s, 2)})
        await self._policy.sleep(pause_s)
        self.begin()


def _ms_since(start: float) -> int:
    return round((time.perf_counter() - start) * 1000)
