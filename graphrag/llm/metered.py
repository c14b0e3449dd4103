"""Counts what is asked of a model or an embedder, with a meter that keeps the limits."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphrag.embedding.embedder import EmbeddingProvider, ReportsTokens
from graphrag.llm import base as llm
from graphrag.llm.registry import Pricing
from graphrag.llm.tokens import count_tokens, prompt_tokens
from graphrag.llm.usage_meter import NOBODY, CallUsage, Payer, UsageMeter, UsedAmount

log = logging.getLogger(__name__)

COMPLETION_RESERVED = 4_000
"""Tokens of an answer that are reserved before a call whose answer has no limit of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked."""

    messages: Sequence[llm.Message]
    tools: Sequence[llm.ToolSchema]
    options: llm.ModelOptions


class CallCount:
    """What has come of a call: tokens as they were reported, and all that was written."""

    def __init__(self) -> None:
        self.reported: llm.UsageReport | None = None
        self.written: list[str] = []
        self.calls = 0

    def feed(self, chunk: llm.Chunk) -> None:
        """Count a chunk."""
        if isinstance(chunk, llm.UsageReport):
            self.reported = llm.add_usage(self.reported, chunk)
        elif isinstance(chunk, llm.TextDelta | llm.ReasoningDelta):
            self.written.append(chunk.text)
        elif isinstance(chunk, llm.ToolCallReady | llm.ToolCallCut | llm.ToolCallSetAside):
            self.written.append(chunk.call.name + chunk.call.arguments)
            self.calls += 1


@asynccontextmanager
async def metered_call(
    provider: llm.LLMProvider,
    request: ModelRequest,
    meter: UsageMeter,
    pricing: Pricing,
    *,
    payer: Payer = NOBODY,
    used: list[CallUsage] | None = None,
) -> AsyncGenerator[CallCount]:
    """Check the limits before a call and record it after, also one that broke or was stopped.

    Feed what is yielded every chunk. What is recorded is also added to `used`.
    Raises: UsageLimitReached; a call that is refused before it begins is not recorded.
    """
    messages = request.messages
    tools = request.tools
    prompt = prompt_tokens(messages, tools) if meter.limits.count_tokens else 0
    most = llm.UsageReport(
        prompt=prompt, completion=request.options.max_tokens or COMPLETION_RESERVED
    )
    cost = (pricing.cost_usd(most) or 0.0) if meter.limits.monthly else 0.0
    reserved = UsedAmount(tokens=most.prompt + most.completion, cost_usd=cost)
    async with (
        meter.reserved(prompt, reserved, payer),
        _counted_call(provider, request, meter, pricing, payer=payer, used=used) as counted,
    ):
        yield counted


@asynccontextmanager
async def _counted_call(
    provider: llm.LLMProvider,
    request: ModelRequest,
    meter: UsageMeter,
    pricing: Pricing,
    *,
    payer: Payer,
    used: list[CallUsage] | None,
) -> AsyncGenerator[CallCount]:
    messages = request.messages
    tools = request.tools
    log.debug("llm_call_start", extra={"messageCount": len(messages), "toolCount": len(tools)})
    counted = CallCount()
    began = time.perf_counter()
    try:
        yield counted
    finally:
        reported = counted.reported
        written = counted.written
        total = reported.prompt + reported.completion if reported else None
        ms = round((time.perf_counter() - began) * 1e3, 2)
        log.debug("llm_call_done", extra={"tokens": total, "ms": ms, "toolCalls": counted.calls})
        if reported or written:
            tokens = reported or llm.UsageReport(
                prompt=prompt_tokens(messages, tools), completion=count_tokens("".join(written))
            )
            call = _usage(provider, tokens, pricing, payer, estimated=reported is None)
            meter.record(call)
            if used is not None:
                used.append(call)


def _usage(
    provider: llm.LLMProvider,
    tokens: llm.UsageReport,
    pricing: Pricing,
    payer: Payer,
    *,
    estimated: bool,
) -> CallUsage:
    name = provider.name
    model = provider.model
    facts = {"provider": name, "model": model, "prompt": tokens.prompt}
    log.info(
        "token_usage", extra=facts | {"completion": tokens.completion, "cached": tokens.cached}
    )
    return CallUsage(
        kind="chat",
        provider=name,
        model=model,
        tokens=tokens,
        cost_usd=pricing.cost_usd(tokens),
        estimated=estimated,
        payer=payer,
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
        self._inner = inner
        self._meter = meter
        self._pricing = pricing
        self._provider = provider
        self._payer = payer

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
        tokens = llm.UsageReport(prompt=counted)
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
