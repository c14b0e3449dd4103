"""Wraps a provider or an embedder so that a meter counts what is asked of it."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np
from numpy.typing import NDArray

from graphrag.embedding.base import EmbeddingProvider, ReportsTokens
from graphrag.llm.base import (
    DEFAULT_OPTIONS,
    AssistantMessage,
    Chunk,
    LLMProvider,
    Message,
    ModelOptions,
    ReasoningDelta,
    TextDelta,
    ToolCallCut,
    ToolCallReady,
    ToolCallSetAside,
    ToolSchema,
    UsageReport,
    add_usage,
)
from graphrag.llm.identity import Identified
from graphrag.llm.prices import Pricing
from graphrag.llm.tokens import count_tokens
from graphrag.llm.usage_accounts import Payer
from graphrag.llm.usage_meter import NOBODY, CallUsage, UsageMeter
from tools.toon import compact_json

TOKENS_A_MESSAGE = 4
"""What the formats spend on a message beside its text. Source: OpenAI's cookbook on counting tokens."""

log = logging.getLogger(__name__)


def count_prompt(messages: Sequence[Message], tools: Sequence[ToolSchema] = ()) -> int:
    """Return about how many tokens a request has."""
    total = sum(count_tokens(compact_json(dict(tool))) for tool in tools)
    for message in messages:
        total += TOKENS_A_MESSAGE + count_tokens(message.content)
        if isinstance(message, AssistantMessage):
            total += sum(count_tokens(call.name + call.arguments) for call in message.tool_calls)
    return total


class MeteredProvider(Identified):
    """Checks the limits before each call and records it after, also one that broke or was stopped."""

    def __init__(
        self,
        inner: LLMProvider,
        meter: UsageMeter,
        pricing: Pricing,
        *,
        thread: str | None = None,
        payer: Payer = NOBODY,
    ) -> None:
        super().__init__(name=inner.name, model=inner.model, context_window=inner.context_window)
        self._inner, self._meter, self._pricing = inner, meter, pricing
        self._thread, self._payer = thread, payer

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        """Yield what the provider yields. Raises: ModelError; UsageLimitReached, before it is asked."""
        bounded = self._meter.limits.count_tokens
        await self._meter.check(count_prompt(messages, tools) if bounded else 0, self._payer)
        told: UsageReport | None = None
        written: list[str] = []
        calls, began = 0, time.perf_counter()
        log.debug("llm_call_start", extra={"messageCount": len(messages), "toolCount": len(tools)})
        try:
            async with aclosing(self._inner.stream(messages, tools, options)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, UsageReport):
                        told = add_usage(told, chunk)
                    elif isinstance(chunk, TextDelta | ReasoningDelta):
                        written.append(chunk.text)
                    elif isinstance(chunk, ToolCallReady | ToolCallCut | ToolCallSetAside):
                        written.append(chunk.call.name + chunk.call.arguments)
                        calls += 1
                    yield chunk
        finally:
            tokens = told.prompt + told.completion if told else None
            ms = round((time.perf_counter() - began) * 1e3, 2)
            log.debug("llm_call_done", extra={"tokens": tokens, "ms": ms, "toolCalls": calls})
            self._record(told, written, messages, tools)

    def _record(
        self,
        told: UsageReport | None,
        written: Sequence[str],
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
    ) -> None:
        if told is None and not written:
            return  # refused before it began: nothing is charged
        tokens = told or UsageReport(
            prompt=count_prompt(messages, tools), completion=count_tokens("".join(written))
        )
        facts = {"provider": self.name, "model": self.model, "prompt": tokens.prompt}
        log.info("token_usage", extra=facts | {"completion": tokens.completion, "cached": tokens.cached})
        self._meter.record(
            CallUsage(
                kind="chat",
                provider=self.name,
                model=self.model,
                tokens=tokens,
                cost_usd=self._pricing.cost_usd(tokens),
                thread=self._thread,
                estimated=told is None,
                payer=self._payer,
            )
        )


class MeteredEmbedder:
    """Records the tokens of embedded texts: as the service reports them, else counted by us."""

    def __init__(
        self,
        inner: EmbeddingProvider,
        meter: UsageMeter,
        pricing: Pricing,
        *,
        provider: str,
        payer: Payer = NOBODY,
    ) -> None:
        self._inner, self._meter, self._pricing = inner, meter, pricing
        self._provider, self._payer = provider, payer

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dim(self) -> int | None:
        return self._inner.dim

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        await self._meter.check(payer=self._payer)
        reported: int | None = None
        if isinstance(self._inner, ReportsTokens):
            vectors, reported = await self._inner.embed_counted(texts)
        else:
            vectors = await self._inner.embed(texts)
        counted = sum(count_tokens(text) for text in texts) if reported is None else reported
        tokens = UsageReport(prompt=counted)
        self._meter.record(
            CallUsage(
                kind="embedding",
                provider=self._provider,
                model=self.model,
                tokens=tokens,
                cost_usd=self._pricing.cost_usd(tokens),
                estimated=reported is None,
                payer=self._payer,
            )
        )
        return vectors

    async def aclose(self) -> None:
        await self._inner.aclose()
