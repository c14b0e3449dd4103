"""The provider that the `openai` and `anthropic` packages share: attempts at an answer, and how
long one may take. One tool generates both packages.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import httpx2

from graphrag.llm import base as llm
from graphrag.llm import errors
from graphrag.llm.answers import AnswerReader
from graphrag.llm.receiver import fitted_to, learned
from graphrag.llm.registry import AnswerTimeouts, ProviderChoice
from tools.trace_context import TRACED

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkTimeouts:
    """Timeouts of calls through a provider's SDK. Units: seconds."""

    connect_s: float = 10.0
    loading_pause_s: float = 2.0
    """Wait before a server that loads its model is called again."""
    tail_s: float = 5.0
    """Wait for the token counts and the end of the stream after the answer."""


SDK_TIMEOUTS: Final = SdkTimeouts()

END = object()
"""Stands for the end of a stream."""


class SdkProvider(ABC):
    """One HTTP request for each attempt at an answer; closing the stream closes the request.

    `package` is the client's, `base` what all its errors are. Units: `context_window` in tokens.
    """

    def __init__(self, choice: ProviderChoice, package: Any, base: type[Exception]) -> None:
        self.name = choice.entry.name
        self.model = choice.model
        self.context_window = choice.context_window
        self._choice = choice
        self._package = package
        self._base = base
        self._rules = choice.entry.history
        self._settings: dict[str, Any] = {
            "base_url": choice.base_url,
            # The pauses of an answer are `_Clock`'s: it also counts lines without content.
            "timeout": httpx2.Timeout(None, connect=SDK_TIMEOUTS.connect_s),
            "max_retries": 0,
            # No prompt goes elsewhere.
            "http_client": package.DefaultAsyncHttpxClient(
                follow_redirects=False, **TRACED, **choice.client_options
            ),
        }
        """What every client is made with, beside its key."""
        self._client: Any = None

    @property
    def separates_thinking(self) -> bool:
        """Whether the provider's own service is asked, which sends thinking apart from answers."""
        return self._choice.base_url == self._choice.entry.base_url

    async def aclose(self) -> None:
        await self._client.close()

    async def stream(
        self,
        messages: Sequence[llm.Message],
        tools: Sequence[llm.ToolSchema] = (),
        options: llm.ModelOptions = llm.DEFAULT_OPTIONS,
    ) -> AsyncGenerator[llm.Chunk]:
        request = self._request(self._fitted(messages), tools, options)
        # Once a piece of an answer went out, a failure is final: it was seen. So it is once tokens
        # were counted: the caller checks its limits before the next request.
        number, begun, loading_s = 0, False, 0.0
        while True:
            number += 1
            clock = _Clock(self.name, self._choice.timeouts)
            reader = self._reader(messages)
            began = time.perf_counter()
            try:
                try:
                    async with aclosing(self._pieces(request, clock, reader)) as pieces:
                        async for piece in pieces:
                            for chunk in reader.feed(piece):
                                if not isinstance(chunk, llm.PromptRead):
                                    clock.begin()
                                begun = begun or self._begins(chunk, began)
                                yield chunk
                except errors.ModelError as exc:
                    if not reader.finished:
                        raise
                    log.info(
                        "model_tail_lost",
                        extra={"provider": self.name, "error": type(exc).__name__},
                    )
                for last in (reader.counted, reader.end):
                    for chunk in last():
                        begun = begun or self._begins(chunk, began)
                        yield chunk
            except errors.ModelError as exc:
                if not begun and self._learns(exc):
                    request = self._request(self._fitted(messages), tools, options)
                    continue
                pause_s = None if begun else self._loading_pause_s(exc, loading_s)
                if pause_s is None:
                    await self._failed(exc, number, begun=begun)
                    continue
                if not loading_s:
                    yield llm.PromptRead(done=0, total=0, loading=True)
                number = number - 1
                loading_s = loading_s + pause_s
                await self._choice.retry.sleep(pause_s)
            else:
                facts = {"model": self.model, "attempt": number, "ms": _ms_since(began)}
                log.debug("model_answered", extra=facts)
                return

    def _begins(self, chunk: llm.Chunk, began: float) -> bool:
        """Return whether an attempt that brought a chunk is not repeated."""
        if isinstance(chunk, llm.UsageReport):
            return chunk.prompt + chunk.completion > 0
        if isinstance(chunk, llm.ToolCallSetAside | llm.PromptRead):
            return False
        log.debug("model_first_piece", extra={"model": self.model, "ms": _ms_since(began)})
        return True

    def _loading_pause_s(self, exc: errors.ModelError, waited_s: float) -> float | None:
        """Return how long to wait for a server that loads its model; None where an answer's
        time is over.
        """
        if not isinstance(exc, errors.ModelFailed) or not exc.loading:
            return None
        timeouts = self._choice.timeouts
        pause_s = max(SDK_TIMEOUTS.loading_pause_s, exc.retry_after_s or 0.0)
        return (
            pause_s if waited_s + pause_s <= timeouts.total_s + (timeouts.first_s or 0.0) else None
        )

    async def _failed(self, exc: errors.ModelError, number: int, *, begun: bool) -> None:
        """Wait until the next attempt may begin. Raises: the error, where there is none."""
        facts = {"provider": exc.provider, "model": self.model, "error": type(exc).__name__}
        facts |= {"status": exc.status, "attempt": number}
        final = begun or not exc.retryable
        final = final or (
            isinstance(exc, errors.ModelTimedOut) and not self._choice.timeouts.repeats_timeouts
        )
        pause_s = None if final else self._choice.retry.pause_s(number, exc.retry_after_s)
        if pause_s is None:
            log.warning("model_failed", extra=facts | {"begun": begun})
            raise exc
        log.info("model_retry", extra=facts | {"pause_s": round(pause_s, 2)})
        await self._choice.retry.sleep(pause_s)

    def _fitted(self, messages: Sequence[llm.Message]) -> list[llm.Message]:
        return fitted_to(messages, self._rules, self._choice.origin)

    def _learns(self, exc: errors.ModelError) -> bool:
        """Return whether a refusal taught something about the histories that the server takes."""
        rules = (
            learned(self._rules, exc.reason)
            if isinstance(exc, errors.ModelRequestRefused)
            else None
        )
        if rules is None:
            return False
        self._rules = rules
        log.info("history_rule_learnt", extra={"provider": self.name, "model": self.model})
        return True

    @abstractmethod
    def _request(
        self,
        messages: Sequence[llm.Message],
        tools: Sequence[llm.ToolSchema],
        options: llm.ModelOptions,
    ) -> dict[str, Any]:
        """Return the request's body."""

    @abstractmethod
    def _reader(self, messages: Sequence[llm.Message]) -> AnswerReader:
        """Return what reads an answer in a conversation."""

    @abstractmethod
    async def _send(self, request: dict[str, Any], clock: _Clock) -> Any:
        """Send the request; returns its answer's beginning, raw. Raises: the package's errors."""

    async def _pieces(
        self, request: dict[str, Any], clock: _Clock, reader: AnswerReader
    ) -> AsyncGenerator[object]:
        """Yield the pieces of an answer: a stream's, or the one of a server that does not stream.

        Raises: ModelError.
        """
        try:
            response = await self._send(request, clock)
        except (self._base, httpx2.HTTPError, OSError) as exc:
            raise self.translated(exc, begun=False) from exc
        http = cast(httpx2.Response, response.http_response)
        kind = http.headers.get("content-type", "")
        try:
            if kind.startswith("text/html"):
                reason = "a web page; is the address the one of its interface, as http://127.0.0.1:8000/v1?"
                raise errors.ModelAnswerMalformed(
                    provider=self.name, reason=reason, retryable=False
                )
            if kind.startswith("application/json"):
                yield json.loads(await clock.wait(http.aread()))
                return
            parsed = response.parse()
            stream = aiter(await parsed if inspect.isawaitable(parsed) else parsed)
            while (piece := await _next(stream, clock, is_whole=reader.finished)) is not END:
                yield piece
        except self.failures as exc:
            raise self.translated(exc, begun=True) from exc
        except ValueError as exc:  # json.JSONDecodeError, and bytes that are no UTF-8
            raise errors.ModelAnswerMalformed(
                provider=self.name, reason=f"not JSON: {exc}"
            ) from exc
        finally:
            await http.aclose()

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What `translated` takes."""
        return (self._base, httpx2.HTTPError, httpx2.StreamError, OSError)

    def translated(self, exc: Any, *, begun: bool) -> errors.ModelError:
        """Return what an exception of the client means. `begun`: the answer had a beginning."""
        who: dict[str, Any] = {"provider": self.name, "secret": self._choice.secret}
        if isinstance(exc, self._package.APIStatusError):
            said = {"status": exc.status_code, "headers": exc.response.headers}
            return errors.error_of(**who, **said, message=exc.message, body=exc.body)
        if isinstance(exc, (self._package.APITimeoutError, httpx2.TimeoutException)):
            return errors.ModelTimedOut(
                provider=self.name, seconds=SDK_TIMEOUTS.connect_s, reason="no connection in time"
            )
        if isinstance(
            exc, (self._package.APIConnectionError, httpx2.HTTPError, httpx2.StreamError, OSError)
        ):
            inner = exc.__cause__ or exc
            kind = errors.ModelStreamBroken if begun else errors.ModelUnreachable
            return kind(provider=self.name, reason=f"{type(inner).__name__}: {inner}".rstrip(": "))
        if isinstance(exc, self._package.APIError) and exc.body is not None:
            return errors.error_of(**who, status=0, message=exc.message, body=exc.body)
        return errors.ModelAnswerMalformed(provider=self.name, reason=str(exc))


class _Clock:
    """The time one answer may take."""

    def __init__(self, provider: str, timeouts: AnswerTimeouts) -> None:
        self._provider = provider
        self._timeouts = timeouts
        self._silence_s = timeouts.first_s or timeouts.silence_s
        self._total_s = timeouts.total_s + (timeouts.first_s or 0.0)
        self._begun = False
        self._end = asyncio.get_running_loop().time() + self._total_s

    def begin(self) -> None:
        """Note that something of the answer came: the next pieces must come faster."""
        if not self._begun:
            self._begun = True
            self._silence_s = self._timeouts.silence_s
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
                raise errors.ModelTimedOut(
                    provider=self._provider, seconds=self._silence_s
                ) from exc
            late = f"the answer was not whole after {self._total_s:g} s"
            raise errors.ModelTimedOut(
                provider=self._provider, seconds=self._total_s, reason=late
            ) from exc


async def _next(stream: AsyncIterator[object], clock: _Clock, *, is_whole: bool) -> object:
    """Return the next piece, or END. After a whole answer, what comes late is not waited for."""
    if not is_whole:
        return await clock.wait(anext(stream, END))
    try:
        async with asyncio.timeout(SDK_TIMEOUTS.tail_s):
            return await anext(stream, END)
    except TimeoutError:
        return END


def _ms_since(start: float) -> int:
    return round((time.perf_counter() - start) * 1000)
