"""Asks Anthropic's models, through the `anthropic` package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import anthropic

from graphrag.llm.answers import AnswerReader, CallIds
from graphrag.llm.anthropic_messages import MessageReader, to_request
from graphrag.llm.attempts import AnswerClock, AnswerTimeouts, RetryPolicy
from graphrag.llm.base import Message, ModelOptions, ToolSchema
from graphrag.llm.sdk import TIMEOUT, SdkErrors, SdkProvider

ANTHROPIC_URL = "https://api.anthropic.com"

_ERRORS = SdkErrors(
    base=anthropic.AnthropicError,
    api=anthropic.APIError,
    status=anthropic.APIStatusError,
    timeout=anthropic.APITimeoutError,
    connection=anthropic.APIConnectionError,
)


class AnthropicProvider(SdkProvider):
    """`max_tokens` is always sent: the format demands it."""

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
        timeouts: AnswerTimeouts | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        super().__init__(
            name=name,
            model=model,
            context_window=context_window,
            key=api_key,
            errors=_ERRORS,
            timeouts=timeouts or AnswerTimeouts(),
            retry=retry,
        )
        self._max_tokens, self._temperature = max_tokens, temperature
        # Key and address are both given, or the client would look for them in the environment.
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=base_url,
            timeout=TIMEOUT,
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(follow_redirects=False),  # no prompt goes elsewhere
        )

    async def aclose(self) -> None:
        await self._client.close()

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], options: ModelOptions
    ) -> dict[str, Any]:
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
        return request

    def _reader(self, ids: CallIds) -> AnswerReader:
        return MessageReader(self._name, ids)

    async def _send(self, request: dict[str, Any], clock: AnswerClock) -> Any:
        create = cast(Any, self._client.messages.with_raw_response.create)
        return await clock.wait(create(**request))
