"""Asks any server that speaks OpenAI's chat completions or Responses, through the `openai` package."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Literal, Protocol, cast

import httpx2
import openai

from graphrag.providers.attempts import Clock, RetryPolicy, with_attempts
from graphrag.providers.base import DEFAULT_OPTIONS, Chunk, Message, ModelOptions, ToolSchema
from graphrag.providers.calls import CallIds
from graphrag.providers.errors import (
    ModelAnswerMalformed,
    ModelError,
    ModelStreamBroken,
    ModelTimedOut,
    ModelUnreachable,
)
from graphrag.providers.identity import Identified
from graphrag.providers.openai_reader import ChatReader
from graphrag.providers.openai_wire import LateSystem, to_messages
from graphrag.providers.responses_reader import ResponsesReader
from graphrag.providers.responses_wire import to_functions, to_input
from graphrag.providers.translate import Refusal, error_of, too_long

log = logging.getLogger(__name__)

Api = Literal["chat", "responses"]
CONNECT_S = 10.0
_OPTIONAL = (
    *("stream_options", "temperature", "tool_choice", "max_tokens", "max_completion_tokens"),
    *("max_output_tokens", "store"),
)
_UNKNOWN = re.compile(
    r"unsupported|not supported|unknown|unrecognized|unexpected|not permitted|extra (?:fields|inputs)|"
    r"does not support|invalid (?:parameter|argument|field)|not allowed",
    re.IGNORECASE,
)


class Reader(Protocol):
    """Reads the pieces of an answer; `finished`: whatever fails from here on, the answer is whole."""

    @property
    def finished(self) -> bool: ...

    def feed(self, piece: object, /) -> Iterator[Chunk]: ...

    def end(self) -> Iterator[Chunk]: ...


class OpenAICompatibleProvider(Identified):
    """One HTTP request for each attempt at an answer; closing the stream closes the request.

    A setting that the server says it does not know (of `_OPTIONAL`) is left out from then on.
    """

    def __init__(
        self,
        *,
        name: str,
        model: str,
        base_url: str,
        api_key: str | None = None,
        context_window: int = 32_000,
        max_tokens: int | None = None,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        temperature: float | None = None,
        late_system: LateSystem = "system",
        resend_reasoning: bool = False,
        finish_required: bool = True,
        api: Api = "chat",
        silence_s: float = 60.0,
        total_s: float = 300.0,
        retry: RetryPolicy | None = None,
    ) -> None:
        super().__init__(name=name, model=model, context_window=context_window)
        self._key, self._api = api_key, api
        self._defaults = ModelOptions(
            max_tokens=max_tokens, temperature=temperature, silence_s=silence_s, total_s=total_s
        )
        self._max_tokens_field = max_tokens_field
        self._late_system: LateSystem = late_system
        self._resend_reasoning, self._finish_required = resend_reasoning, finish_required
        self._retry = retry or RetryPolicy()
        self._unknown: set[str] = set()
        # A local server needs no key, but the client insists on one. Both are given, or it would
        # look for them in the environment. Pauses are ours: `Clock` also counts lines without content.
        self._client = openai.AsyncOpenAI(
            api_key=api_key or "no-key",
            base_url=base_url,
            organization="",
            project="",
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),  # no prompt goes elsewhere
        )

    async def aclose(self) -> None:
        await self._client.close()

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        request = self._request(messages, tools, options)
        clock_s = (options.silence_s or self._defaults.silence_s, options.total_s or self._defaults.total_s)

        def attempt() -> AsyncGenerator[Chunk]:
            clock = Clock(self._name, silence_s=clock_s[0] or 60.0, total_s=clock_s[1] or 300.0)
            return self._attempt(request, CallIds(messages), clock)

        log.debug(
            "model_request",
            extra={
                "provider": self._name,
                "model": self._model,
                "messages": len(messages),
                "tools": len(tools),
            },
        )
        async with aclosing(with_attempts(attempt, self._retry, model=self._model)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], options: ModelOptions
    ) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self._model, "stream": True}
        if self._api == "responses":
            request |= {"input": to_input(messages, late_system=self._late_system), "store": False}
        else:
            late, thinking = self._late_system, self._resend_reasoning
            request["messages"] = to_messages(messages, late_system=late, resend_reasoning=thinking)
            request["stream_options"] = {"include_usage": True}
        max_tokens = options.max_tokens or self._defaults.max_tokens
        if max_tokens:
            request[self._max_tokens_field if self._api == "chat" else "max_output_tokens"] = max_tokens
        temperature = self._defaults.temperature if options.temperature is None else options.temperature
        if temperature is not None:
            request["temperature"] = temperature
        if tools:
            request["tools"] = [dict(t) for t in tools] if self._api == "chat" else to_functions(tools)
            if options.tool_choice != "auto":
                request["tool_choice"] = options.tool_choice
        return request

    async def _attempt(self, request: dict[str, Any], ids: CallIds, clock: Clock) -> AsyncGenerator[Chunk]:
        reader: Reader = ResponsesReader(self._name, ids)
        if self._api == "chat":
            reader = ChatReader(self._name, ids, finish_required=self._finish_required)
        response = await self._open(request, clock)
        try:
            async with aclosing(self._pieces(response, clock, reader)) as pieces:
                async for piece in pieces:
                    for chunk in reader.feed(piece):
                        yield chunk
        except ModelError as exc:
            if not reader.finished:
                raise
            log.info("model_tail_lost", extra={"provider": self._name, "error": type(exc).__name__})
        for chunk in reader.end():
            yield chunk

    async def _open(self, request: dict[str, Any], clock: Clock) -> Any:
        """Send the request, without what the server does not know; returns its answer's beginning."""
        asked = self._client.responses if self._api == "responses" else self._client.chat.completions
        create = cast(Any, asked.with_raw_response.create)
        while True:
            sent = self._known(request)
            try:
                return await clock.wait(create(**sent))
            except openai.APIStatusError as exc:
                unknown = _unknown_setting(exc, sent)
                if unknown is None:
                    raise self._translated(exc, begun=False) from exc
                self._unknown.add(unknown)
                log.info("model_setting_left_out", extra={"provider": self._name, "setting": unknown})
            except (openai.OpenAIError, httpx2.HTTPError, OSError) as exc:
                raise self._translated(exc, begun=False) from exc

    def _known(self, request: dict[str, Any]) -> dict[str, Any]:
        sent = {name: value for name, value in request.items() if name not in self._unknown}
        limit = request.get("max_tokens") or request.get("max_completion_tokens")
        other = {"max_tokens", "max_completion_tokens"} - self._unknown - set(request)
        if limit and len(other) == 1 and not sent.keys() & {"max_tokens", "max_completion_tokens"}:
            sent[other.pop()] = limit  # the one setting has two names, and servers that know only one
        return sent

    async def _pieces(self, response: Any, clock: Clock, reader: Reader) -> AsyncGenerator[object]:
        """Yield the stream's pieces, or the one piece of a server that does not stream."""
        http = cast(httpx2.Response, response.http_response)
        try:
            if http.headers.get("content-type", "").startswith("application/json"):
                yield json.loads(await clock.wait(http.aread()))
                return
            stream = cast(openai.AsyncStream[object], response.parse())
            async with aclosing(clock.each(aiter(stream), done=lambda: reader.finished)) as pieces:
                async for piece in pieces:
                    yield piece
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, OSError) as exc:
            raise self._translated(exc, begun=True) from exc
        except ValueError as exc:  # json.JSONDecodeError, and bytes that are no UTF-8
            raise ModelAnswerMalformed(provider=self._name, reason=f"not JSON: {exc}") from exc
        finally:
            await http.aclose()

    def _translated(self, exc: Exception, *, begun: bool) -> ModelError:
        """Return what an exception of the client means. `begun`: the answer had a beginning."""
        if isinstance(exc, openai.APIStatusError):
            refusal = Refusal(
                status=exc.status_code, message=exc.message, body=exc.body, headers=exc.response.headers
            )
            return error_of(refusal, provider=self._name, secret=self._key)
        if isinstance(exc, openai.APITimeoutError | httpx2.TimeoutException):
            return ModelTimedOut(provider=self._name, seconds=CONNECT_S, reason="no connection in time")
        if isinstance(exc, openai.APIConnectionError | httpx2.HTTPError | httpx2.StreamError | OSError):
            kind = ModelStreamBroken if begun else ModelUnreachable
            return kind(provider=self._name, reason=_cause(exc))
        if isinstance(exc, openai.APIError) and exc.body is not None:
            refusal = Refusal(status=0, message=exc.message, body=exc.body)
            return error_of(refusal, provider=self._name, secret=self._key)
        return ModelAnswerMalformed(provider=self._name, reason=str(exc))


def _cause(exc: Exception) -> str:
    inner = exc.__cause__ or exc
    return f"{type(inner).__name__}: {inner}".rstrip(": ")


def _unknown_setting(exc: openai.APIStatusError, sent: dict[str, Any]) -> str | None:
    """Return which optional setting a refusal is about, if it is about one."""
    if exc.status_code not in (400, 422) or too_long(exc.message) or not _UNKNOWN.search(exc.message):
        return None
    named = [name for name in _OPTIONAL if name in sent and name in exc.message]
    if exc.param in sent and exc.param in _OPTIONAL:
        return exc.param
    return named[0] if named else None
