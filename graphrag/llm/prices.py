"""What a request costs: the prices of the `genai-prices` package, else the registry's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphrag.llm.base import UsageReport

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Units: US dollars a million tokens. `cached` is for prompt tokens that the provider remembered."""

    input: float
    output: float = 0.0
    cached: float | None = None
    cache_write: float | None = None

    def cost_usd(self, usage: UsageReport) -> float:
        plain = max(0, usage.prompt - usage.cached - usage.cache_written)
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        total = plain * self.input + usage.cached * cached + usage.cache_written * written
        return (total + usage.completion * self.output) / 1_000_000


FREE = Price(input=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """How to price one model: `fixed` by the settings, else by `genai_provider`, else by `fallback`."""

    model: str
    genai_provider: str | None = None
    fixed: Price | None = None
    fallback: Price | None = None

    def cost_usd(self, usage: UsageReport) -> float | None:
        """Return the cost of a request, or None where nobody knows the price."""
        if self.fixed is not None:
            return self.fixed.cost_usd(usage)
        found = None
        if self.genai_provider is not None:
            found = _calculated(
                self.genai_provider,
                self.model,
                input_tokens=usage.prompt,
                output_tokens=usage.completion,
                cache_read_tokens=usage.cached,
                cache_write_tokens=usage.cache_written,
            )
        if found is not None:
            return float(found.total_price)
        return self.fallback.cost_usd(usage) if self.fallback else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeTokens:
    """Tokens of one answer by voice, by kind; `cached` are among those that went in."""

    audio_in: int = 0
    text_in: int = 0
    cached: int = 0
    audio_out: int = 0
    text_out: int = 0

    def report(self) -> UsageReport:
        """Return them as those of any request."""
        prompt, completion = self.audio_in + self.text_in, self.audio_out + self.text_out
        return UsageReport(prompt=prompt, completion=completion, cached=min(self.cached, prompt))

    def cost_usd(self, model: str) -> float | None:
        """Return what they cost, None where nobody knows the price. The first time it reads a large table."""
        total = self.report()
        found = _calculated(
            "openai",
            model,
            input_tokens=total.prompt,
            output_tokens=total.completion,
            input_audio_tokens=self.audio_in,
            output_audio_tokens=self.audio_out,
            cache_read_tokens=total.cached,
        )
        return None if found is None else float(found.total_price)


def known_context_window(provider: str | None, model: str) -> int | None:
    """Return a model's window in tokens, where `genai-prices` knows it."""
    found = None if provider is None else _calculated(provider, model, input_tokens=0, output_tokens=0)
    return None if found is None else found.model.context_window


def _calculated(provider: str, model: str, **counts: int) -> PriceCalculation | None:
    """Return what `genai-prices` says of a request; None for a model that it does not know."""
    from genai_prices import Usage, calc_price  # loaded late: it reads a large table

    try:
        return calc_price(Usage(**counts), model, provider_id=provider)
    except (LookupError, ValueError):  # an unknown model, or counts that contradict each other
        return None
