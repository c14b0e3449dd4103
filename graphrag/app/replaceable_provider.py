"""A language model that can be exchanged for another while the service runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import final

from graphrag.llm.base import (
    DEFAULT_OPTIONS,
    Chunk,
    LearnsWindow,
    LLMProvider,
    Message,
    ModelOptions,
    ServerFacts,
    ToolSchema,
)
from graphrag.llm.model_text import SeparatesThinking


@final
class ReplaceableProvider:
    """Passes every request to the provider that is in use when the request begins."""

    def __init__(self, provider: LLMProvider) -> None:
        self._current = provider
        self._running = Counter[LLMProvider]()

    @property
    def name(self) -> str:
        return self._current.name

    @property
    def model(self) -> str:
        return self._current.model

    @property
    def context_window(self) -> int:
        return self._current.context_window

    @property
    def separates_thinking(self) -> bool:
        """As `graphrag.llm.model_text.SeparatesThinking`; True of providers that do not say it."""
        current = self._current
        return current.separates_thinking if isinstance(current, SeparatesThinking) else True

    async def use(self, provider: LLMProvider) -> None:
        """Requests that begin from now on go to this provider. Running ones end at the previous
        provider, which is closed when the last of them has ended.
        """
        previous, self._current = self._current, provider
        if not self._running[previous]:
            await previous.aclose()

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        provider = self._current
        self._running[provider] += 1
        try:
            async with aclosing(provider.stream(messages, tools, options)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self._running[provider] -= 1
            if not self._running[provider]:
                del self._running[provider]
                if provider is not self._current:
                    await provider.aclose()

    async def facts(self) -> ServerFacts:
        if isinstance(self._current, LearnsWindow):
            return await self._current.facts()
        return ServerFacts(models=(self.model,), window=None)

    async def learn_window(self) -> None:
        if isinstance(self._current, LearnsWindow):
            await self._current.learn_window()

    async def aclose(self) -> None:
        await self._current.aclose()
