"""The provider that the `openai` and `anthropic` packages share; one tool generates both packages."""

from __future__ import annotations

import inspect
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import httpx2

from graphrag.llm.answers import AnswerReader, CallIds
from graphrag.llm.attempts import END, AnswerClock, Attempts
from graphrag.llm.base import DEFAULT_OPTIONS, Chunk, Message, ModelOptions, PromptProgress, ToolSchema
from graphrag.llm.errors import (
    ModelAnswerMalformed,
    ModelError,
    ModelStreamBroken,
    ModelTimedOut,
    ModelUnreachable,
)
from graphrag.llm.registry import ProviderChoice
from graphrag.llm.sdk_errors import Refusal, error_of

log = logging.getLogger(__name__)

CONNECT_S = 10.0
TIMEOUT = httpx2.Timeout(None, connect=CONNECT_S)
"""The pauses of an answer are `AnswerClock`'s: it also counts lines without content."""


class SdkProvider(ABC):
    """One HTTP request for each attempt at an answer; closing the stream closes the request.

    `package` is the client's, `base` what all its errors are. Units: `context_window` in tokens.
    """

    def __init__(self, choice: ProviderChoice, package: Any, base: type[Exception]) -> None:
        self.name, self.model, self.context_window = choice.entry.name, choice.model, choice.context_window
        self._choice, self._package, self._base = choice, package, base

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        request = self._request(messages, tools, options)
        timeouts = self._choice.timeouts
        attempts = Attempts(self._choice.retry, timeouts, model=self.model)
        while True:
            clock, reader = AnswerClock(self.name, timeouts), self._reader(CallIds(messages))
            try:
                pieces = await self._open(request, clock)
                try:
                    while (piece := await pieces.next(is_whole=reader.finished)) is not END:
                        for chunk in reader.feed(piece):
                            if not isinstance(chunk, PromptProgress):
                                clock.begin()
                            attempts.feed(chunk)
                            yield chunk
                except ModelError as exc:
                    if not reader.finished:
                        raise
                    log.info("model_tail_lost", extra={"provider": self.name, "error": type(exc).__name__})
                finally:
                    await pieces.aclose()
                for chunk in reader.end():
                    attempts.feed(chunk)
                    yield chunk
            except ModelError as exc:
                await attempts.failed(exc)
            else:
                attempts.succeeded()
                return

    @abstractmethod
    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], options: ModelOptions
    ) -> dict[str, Any]:
        """Return the request's body."""

    @abstractmethod
    def _reader(self, ids: CallIds) -> AnswerReader:
        """Return what reads an answer."""

    @abstractmethod
    async def _send(self, request: dict[str, Any], clock: AnswerClock) -> Any:
        """Send the request; returns its answer's beginning, raw. Raises: the package's errors."""

    async def _open(self, request: dict[str, Any], clock: AnswerClock) -> _AnswerPieces:
        """Send the request. Raises: ModelError."""
        try:
            return _AnswerPieces(await self._send(request, clock), clock, self)
        except (self._base, httpx2.HTTPError, OSError) as exc:
            raise self.translated(exc, begun=False) from exc

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What `translated` takes."""
        return (self._base, httpx2.HTTPError, httpx2.StreamError, OSError)

    def translated(self, exc: Any, *, begun: bool) -> ModelError:
        """Return what an exception of the client means. `begun`: the answer had a beginning."""
        if isinstance(exc, self._package.APIStatusError):
            refusal = Refusal(
                status=exc.status_code, message=exc.message, body=exc.body, headers=exc.response.headers
            )
            return error_of(refusal, provider=self.name, secret=self._choice.secret)
        if isinstance(exc, (self._package.APITimeoutError, httpx2.TimeoutException)):
            return ModelTimedOut(provider=self.name, seconds=CONNECT_S, reason="no connection in time")
        if isinstance(exc, (self._package.APIConnectionError, httpx2.HTTPError, httpx2.StreamError, OSError)):
            inner = exc.__cause__ or exc
            kind = ModelStreamBroken if begun else ModelUnreachable
            return kind(provider=self.name, reason=f"{type(inner).__name__}: {inner}".rstrip(": "))
        if isinstance(exc, self._package.APIError) and exc.body is not None:
            refusal = Refusal(status=0, message=exc.message, body=exc.body)
            return error_of(refusal, provider=self.name, secret=self._choice.secret)
        return ModelAnswerMalformed(provider=self.name, reason=str(exc))


class _AnswerPieces:
    """The pieces of one answer: a stream's, or the one of a server that does not stream."""

    def __init__(self, response: Any, clock: AnswerClock, provider: SdkProvider) -> None:
        self._response, self._clock, self._provider = response, clock, provider
        self._http = cast(httpx2.Response, response.http_response)
        self._stream: Any = None
        self._is_read = False

    async def next(self, *, is_whole: bool) -> object:
        """Return the next piece, or END; `is_whole`: the answer is. Raises: ModelError."""
        try:
            if self._stream is None:
                return await self._first()
            return await self._clock.next(self._stream, is_whole=is_whole)
        except self._provider.failures as exc:
            raise self._provider.translated(exc, begun=True) from exc
        except ValueError as exc:  # json.JSONDecodeError, and bytes that are no UTF-8
            raise ModelAnswerMalformed(provider=self._provider.name, reason=f"not JSON: {exc}") from exc

    async def _first(self) -> object:
        kind = self._http.headers.get("content-type", "")
        if kind.startswith("text/html"):
            reason = "a web page; is the address the one of its interface, as http://127.0.0.1:8000/v1?"
            raise ModelAnswerMalformed(provider=self._provider.name, reason=reason, retryable=False)
        if kind.startswith("application/json"):
            if self._is_read:
                return END
            self._is_read = True
            return json.loads(await self._clock.wait(self._http.aread()))
        stream = self._response.parse()
        self._stream = aiter(await stream if inspect.isawaitable(stream) else stream)
        return await self._clock.next(self._stream, is_whole=False)

    async def aclose(self) -> None:
        await self._http.aclose()
