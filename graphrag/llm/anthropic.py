"""The provider for Anthropic's models, through the `anthropic` package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anthropic

from graphrag.llm.anthropic_messages import MessageReader, to_request
from graphrag.llm.base import Message, ModelOptions, ToolSchema
from graphrag.llm.registry import ProviderChoice
from graphrag.llm.sdk import SdkProvider

MAX_TOKENS = 8_192


class AnthropicProvider(SdkProvider):
    """Calls Anthropic's messages API. `max_tokens` is always sent, as the API requires it."""

    def __init__(self, choice: ProviderChoice) -> None:
        super().__init__(choice, anthropic, anthropic.AnthropicError)
        # Both are passed: otherwise the client reads them from the environment.
        self._client = anthropic.AsyncAnthropic(api_key=choice.secret, **self._settings)

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], options: ModelOptions
    ) -> dict[str, Any]:
        request = to_request(messages, tools, options)
        request |= {
            "model": self.model,
            "max_tokens": options.max_tokens or self._choice.max_tokens or MAX_TOKENS,
            "stream": True,
        }
        temperature = (
            self._choice.temperature if options.temperature is None else options.temperature
        )
        if temperature is not None:
            # The scale ends at 1 here, at 2 for OpenAI. Newer clients have no such parameter.
            request["extra_body"] = {"temperature": min(temperature, 1.0)}
        return request

    def _reader(self, messages: Sequence[Message]) -> MessageReader:
        return MessageReader(self.name, messages, origin=self._choice.origin)

    async def _send(self, request: dict[str, Any], clock: Any) -> Any:
        return await clock.wait(self._client.messages.with_raw_response.create(**request))
