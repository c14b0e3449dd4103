"""Counts what is asked of a model or an embedder, with a meter that keeps the limits."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from graphrag.embedding.base import EmbeddingProvider, ReportsTokens
from graphrag.llm.base import (
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
from graphrag.llm.registry import Pricing
from graphrag.llm.tokens import count_tokens, prompt_tokens
from graphrag.llm.usage_meter import NOBODY, CallUsage, Payer, UsageMeter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked."""

    messages: Sequence[Message]
    tools: Sequence[ToolSchema]
    options: ModelOptions


class MeteredCall:
    """Checks the limits before a call and records it after, also one that broke or was stopped.

    Use it as `async with`, which raises UsageLimitReached, and feed it every chunk. What is recorded is
    also added to `used`; a call that was refused before it began is not recorded.
    """

    def __init__(
        self,
        provider: LLMProvider,
        request: ModelRequest,
        meter: UsageMeter,
        pricing: Pricing,
        *,
        payer: Payer = NOBODY,
        used: list[CallUsage] | None = None,
    ) -> None:
        self._provider, self._request, self._meter, self._pricing = provider, request, meter, pricing
        self._payer, self._used = payer, used
        self._reported: UsageReport | None = None
        self._written: list[str] = []
        self._calls, self._began = 0, 0.0

    async def __aenter__(self) -> Self:
        messages, tools = self._request.messages, self._request.tools
        bounded = self._meter.limits.count_tokens
        await self._meter.check(prompt_tokens(messages, tools) if bounded else 0, self._payer)
        log.debug("llm_call_start", extra={"messageCount": len(messages), "toolCount": len(tools)})
        self._began = time.perf_counter()
        return self

    def feed(self, chunk: Chunk) -> None:
        """Count a chunk."""
        if isinstance(chunk, UsageReport):
            self._reported = add_usage(self._reported, chunk)
        elif isinstance(chunk, TextDelta | ReasoningDelta):
            self._written.append(chunk.text)
        elif isinstance(chunk, ToolCallReady | ToolCallCut | ToolCallSetAside):
            self._written.append(chunk.call.name + chunk.call.arguments)
            self._calls += 1

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        tokens = self._reported.prompt + self._reported.completion if self._reported else None
        ms = round((time.perf_counter() - self._began) * 1e3, 2)
        log.debug("llm_call_done", extra={"tokens": tokens, "ms": ms, "toolCalls": self._calls})
        if self._reported or self._written:
            self._record()

    def _record(self) -> None:
        tokens = self._reported or UsageReport(
            prompt=prompt_tokens(self._request.messages, self._request.tools),
            completion=count_tokens("".join(self._written)),
        )
        name, model = self._provider.name, self._provider.model
        facts = {"provider": name, "model": model, "prompt": tokens.prompt}
        log.info("token_usage", extra=facts | {"completion": tokens.completion, "cached": tokens.cached})
        call = CallUsage(
            kind="chat",
            provider=name,
            model=model,
            tokens=tokens,
            cost_usd=self._pricing.cost_usd(tokens),
            estimated=self._reported is None,
            payer=self._payer,
        )
        self._meter.record(call)
        if self._used is not None:
            self._used.append(call)


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
