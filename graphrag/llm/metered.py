"""Calls of models and embedders that are checked against the usage limits and recorded."""

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

COMPLETION_RESERVED = 4_000  # Tokens reserved for the answer of a call without `max_tokens`.


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request to a model."""

    messages: Sequence[llm.Message]
    tools: Sequence[llm.ToolSchema]
    options: llm.ModelOptions


class CallTally:
    """The usage of a call: the reported tokens, and the texts and calls that were written."""

    def __init__(self) -> None:
        self.reported: llm.UsageReport | None = None
        self.written: list[str] = []
        self.calls = 0

    def feed(self, chunk: llm.Chunk) -> None:
        """Counts a chunk."""
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
) -> AsyncGenerator[CallTally]:
    """Checks the limits before a call and records it afterwards, also if it failed or was stopped.

    Pass every chunk to the yielded object. The record is also appended to `used`. Raises:
    UsageLimitReached; then nothing is recorded.
    """
    messages = request.messages
    tools = request.tools
    prompt = prompt_tokens(messages, tools) if meter.limits.count_tokens else 0
    maximum = llm.UsageReport(
        prompt=prompt, completion=request.options.max_tokens or COMPLETION_RESERVED
    )
    cost = (pricing.cost_usd(maximum) or 0.0) if meter.limits.monthly else 0.0
    reserved = UsedAmount(tokens=maximum.prompt + maximum.completion, cost_usd=cost)
    async with (
        meter.reserved(prompt, reserved, payer),
        _counted_call(provider, request, meter, pricing, payer=payer, used=used) as tally,
    ):
        yield tally


@asynccontextmanager
async def _counted_call(
    provider: llm.LLMProvider,
    request: ModelRequest,
    meter: UsageMeter,
    pricing: Pricing,
    *,
    payer: Payer,
    used: list[CallUsage] | None,
) -> AsyncGenerator[CallTally]:
    messages = request.messages
    tools = request.tools
    log.debug("llm_call_start", extra={"messageCount": len(messages), "toolCount": len(tools)})
    tally = CallTally()
    began = time.perf_counter()
    try:
        yield tally
    finally:
        reported = tally.reported
        written = tally.written
        total = reported.prompt + reported.completion if reported else None
        ms = round((time.perf_counter() - began) * 1e3, 2)
        log.debug("llm_call_done", extra={"tokens": total, "ms": ms, "toolCalls": tally.calls})
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
    """Records the tokens of embedded texts, as reported by the service or else counted here."""

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
