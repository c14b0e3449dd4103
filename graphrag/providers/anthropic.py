"""Asks Anthropic's models, through the `anthropic` package."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

import anthropic
import httpx2

from graphrag.providers.anthropic_reader import MessageReader
from graphrag.providers.anthropic_wire import to_request
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
from graphrag.providers.translate import Refusal, error_of

log = logging.getLogger(__name__)

ANTHROPIC_URL = "https://api.anthropic.com"
CONNECT_S = 10.0


class AnthropicProvider(Identified):
    """One HTTP request for each attempt at an answer; closing the stream closes the request.

    `max_tokens` is always sent: the format demands it.
    """

    def __init__(
        self,
        *,
        model: str,
        api_key: str,
        name: str = "anthropic",
        base_url: str = ANTHROPIC_URL,
        context_window: int = 200_000,
        max_tokens: int = 8_192,
        temperature: float | None = None,
        silence_s: float = 60.0,
        total_s: float = 300.0,
        retry: RetryPolicy | None = None,
    ) -> None:
        super().__init__(name=name, model=model, context_window=context_window)
        self._key, self._max_tokens, self._temperature = api_key, max_tokens, temperature
        self._silence_s, self._total_s = silence_s, total_s
        self._retry = retry or RetryPolicy()
        # Key and address are both given, or the client would look for them in the environment.
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=base_url,
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(follow_redirects=False),  # no prompt goes elsewhere
        )

    async def aclose(self) -> None:
        await self._client.close()

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        request = to_request(messages, tools, options)
        request |= {
            "model": self._model,
            "max_tokens": options.max_tokens or self._max_tokens,
            "stream": True,
        }
        temperature = self._temperature if options.temperature is None else options.temperature
        if temperature is not None:
            # The format's scale ends at 1, OpenAI's at 2; newer clients know the setting no longer.
            request["extra_body"] = {"temperature": min(temperature, 1.0)}

        def attempt() -> AsyncGenerator[Chunk]:
            clock = Clock(
                self._name,
                silence_s=options.silence_s or self._silence_s,
                total_s=options.total_s or self._total_s,
            )
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

    async def _attempt(self, request: dict[str, Any], ids: CallIds, clock: Clock) -> AsyncGenerator[Chunk]:
        reader = MessageReader(self._name, ids)
        create = cast(Any, self._client.messages.with_raw_response.create)
        try:
            response = await clock.wait(create(**request))
        except (anthropic.AnthropicError, httpx2.HTTPError, OSError) as exc:
            raise self._translated(exc, begun=False) from exc
        http = cast(httpx2.Response, response.http_response)
        try:
            if http.headers.get("content-type", "").startswith("application/json"):
                for chunk in reader.feed_whole(json.loads(await clock.wait(http.aread()))):
                    yield chunk
            else:
                stream = cast(anthropic.AsyncStream[object], await response.parse())
                async with aclosing(clock.each(aiter(stream), done=lambda: reader.finished)) as events:
                    async for event in events:
                        for chunk in reader.feed(event):
                            yield chunk
        except (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError, OSError) as exc:
            if not reader.finished:
                raise self._translated(exc, begun=True) from exc
            log.info("model_tail_lost", extra={"provider": self._name, "error": type(exc).__name__})
        except ValueError as exc:  # json.JSONDecodeError, and bytes that are no UTF-8
            raise ModelAnswerMalformed(provider=self._name, reason=f"not JSON: {exc}") from exc
        finally:
            await http.aclose()
        for chunk in reader.end():
            yield chunk

    def _translated(self, exc: Exception, *, begun: bool) -> ModelError:
        """Return what an exception of the client means. `begun`: the answer had a beginning."""
        if isinstance(exc, anthropic.APIStatusError):
            refusal = Refusal(
                status=exc.status_code, message=exc.message, body=exc.body, headers=exc.response.headers
            )
            return error_of(refusal, provider=self._name, secret=self._key)
        if isinstance(exc, anthropic.APITimeoutError | httpx2.TimeoutException):
            return ModelTimedOut(provider=self._name, seconds=CONNECT_S, reason="no connection in time")
        if isinstance(exc, anthropic.APIConnectionError | httpx2.HTTPError | httpx2.StreamError | OSError):
            inner = exc.__cause__ or exc
            kind = ModelStreamBroken if begun else ModelUnreachable
            return kind(provider=self._name, reason=f"{type(inner).__name__}: {inner}".rstrip(": "))
        return ModelAnswerMalformed(provider=self._name, reason=str(exc))
