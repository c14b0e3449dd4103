"""The providers and their prices, and the choice of a provider from the settings.

Prices are those of the `genai-prices` package, or else of the registry.
"""

from __future__ import annotations

import asyncio
import logging
import random
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from graphrag.config import Settings, SettingsError
from graphrag.llm.base import LLMProvider, UsageReport
from graphrag.llm.errors import without_secrets
from graphrag.llm.receiver import HistoryRules
from tools.http.addresses import is_loopback

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens. `cached`: for prompt tokens from the provider's cache."""

    input: float
    output: float = 0.0
    cached: float | None = None
    cache_write: float | None = None

    def cost_usd(self, usage: UsageReport) -> float:
        uncached = max(0, usage.prompt - usage.cached - usage.cache_written)
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        total = uncached * self.input + usage.cached * cached + usage.cache_written * written
        return (total + usage.completion * self.output) / 1_000_000


FREE = Price(input=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """Prices of one model: `fixed` from the settings, else of `genai_provider`, else `fallback`."""

    model: str
    genai_provider: str | None = None
    fixed: Price | None = None
    fallback: Price | None = None

    def cost_usd(self, usage: UsageReport) -> float | None:
        """Returns the cost of a request, or None if the price is unknown."""
        if self.fixed is not None:
            return self.fixed.cost_usd(usage)
        calculated = None
        if self.genai_provider is not None:
            cached = min(usage.cached, usage.prompt)
            calculated = _calculated(
                self.genai_provider,
                self.model,
                input_tokens=usage.prompt,
                output_tokens=usage.completion,
                cache_read_tokens=cached,
                cache_write_tokens=min(usage.cache_written, usage.prompt - cached),
            )
        if calculated is not None:
            return float(calculated.total_price)
        return self.fallback.cost_usd(usage) if self.fallback else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeTokens:
    """Tokens of one answer or transcript by voice, by kind. Cached tokens are included in the
    inputs.

    `audio_s`: seconds of transcribed audio, if the service bills these instead of tokens.
    """

    audio_in: int = 0
    text_in: int = 0
    image_in: int = 0
    cached_audio: int = 0
    cached_text: int = 0
    cached_image: int = 0
    audio_out: int = 0
    text_out: int = 0
    audio_s: float = 0.0

    def report(self) -> UsageReport:
        """Returns the totals."""
        prompt = self.audio_in + self.text_in + self.image_in
        completion = self.audio_out + self.text_out
        cached = self.cached_audio + self.cached_text + self.cached_image
        return UsageReport(prompt=prompt, completion=completion, cached=min(cached, prompt))

    def cost_usd(self, model: str) -> float | None:
        """Returns the cost, or None if the price is unknown. The first call reads a large table."""
        total = self.report()
        audio = min(self.cached_audio, self.audio_in)
        image = min(self.cached_image, self.image_in)
        calculated = _calculated(
            "openai",
            model,
            input_tokens=total.prompt,
            output_tokens=total.completion,
            input_audio_tokens=self.audio_in,
            output_audio_tokens=self.audio_out,
            cache_read_tokens=audio + image + min(self.cached_text, self.text_in),
            cache_audio_read_tokens=audio,
            **(
                {"input_image_tokens": self.image_in, "cache_image_read_tokens": image}
                if self.image_in
                else {}
            ),
            **(
                {"input_audio_seconds": self.audio_s, "audio_seconds": self.audio_s}
                if self.audio_s
                else {}
            ),
        )
        price = None if calculated is None else float(calculated.total_price)
        # A price of 0 means that the model is billed in another unit than was counted.
        return None if not price and (total.prompt + total.completion or self.audio_s) else price


def _calculated(provider: str, model: str, **counts: float) -> PriceCalculation | None:
    """Returns the price that `genai-prices` calculates; None for an unknown model.

    It refuses counts for which a model has no separate price. Then all input is priced as new.
    """
    from genai_prices import Usage, calc_price  # imported late: it reads a large table

    try:
        return calc_price(Usage(**counts), model, provider_id=provider)
    except LookupError:
        return None
    except ValueError as exc:
        log.warning("price_asked_wrongly", extra={"model": model, "error": str(exc)[:200]})
        totals = {
            name: count
            for name, count in counts.items()
            if name in ("input_tokens", "output_tokens")
        }
        return calc_price(Usage(**totals), model, provider_id=provider)


OFFLINE = "offline"
COMPATIBLE = "compatible"
# Time that a local server may take to read a prompt. On a CPU, long prompts take minutes.
LOCAL_FIRST_PIECE_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEntry:
    """A provider as described in `providers.toml`. `key_variable`: the variable with its key; None:
    no key.

    `model` None: the settings must name one. `genai_provider`: its name in `genai-prices`.
    `max_tokens_field`, `history` and `finish_required`: differences of its API. `local`: a slow
    server that reports its progress and its context window; `context_window` is used if it does
    not.
    """

    name: str
    kind: Literal["openai", "anthropic", "offline"]
    model: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    context_window: int = 32_000
    max_tokens: int | None = None
    genai_provider: str | None = None
    price: Price | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    history: HistoryRules = field(default_factory=HistoryRules)
    finish_required: bool = True
    local: bool = False


def _entry(name: str, fields: dict[str, Any]) -> ProviderEntry:
    if "price" in fields:
        fields = {**fields, "price": Price(**fields["price"])}
    if "history" in fields:
        fields = {**fields, "history": HistoryRules(**fields["history"])}
    return ProviderEntry(name=name, **fields)


_TABLES = tomllib.loads(
    resources.files(__package__ or "").joinpath("providers.toml").read_text("utf-8")
)
# The entries of `providers.toml` by name, in their order.
ENTRIES: dict[str, ProviderEntry] = {name: _entry(name, fields) for name, fields in _TABLES.items()}

# Providers that are chosen if their key is set, in this order.
DETECTED = ("deepseek", "openai", "anthropic")


Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Number of attempts and pauses between them. Units: seconds.

    If a provider asks for a pause longer than `max_wait_s`, the request is not repeated: an earlier
    attempt would be refused too.
    """

    attempts: int = 4
    first_wait_s: float = 0.5
    max_wait_s: float = 30.0
    sleep: Sleep = asyncio.sleep

    def pause_s(self, attempt: int, retry_after_s: float | None) -> float | None:
        """Returns the pause after the given attempt (from 1), or None if there is no further
        attempt.
        """
        if attempt >= self.attempts:
            return None
        if retry_after_s is not None:
            return retry_after_s if retry_after_s <= self.max_wait_s else None
        growing = self.first_wait_s * 2 ** (attempt - 1)
        return min(growing * (1 + random.random()), self.max_wait_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTimeouts:
    """Timeouts for each piece of an answer, for the first one, and for the whole answer. Units:
    seconds.

    A local server may read a prompt for minutes: then `total_s` counts from the first piece, and a
    request that timed out is not repeated (`repeats_timeouts`), as the prompt would be read again.
    """

    silence_s: float = 60.0
    total_s: float = 300.0
    first_s: float | None = None
    repeats_timeouts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderChoice:
    """A provider with all parameters of its calls. `temperature` None: the server's default.

    `learns_window`: `context_window` is a guess, and the server is asked for it. `client_options`:
    additional options of its HTTP client.
    """

    entry: ProviderEntry
    model: str
    base_url: str
    key: SecretStr | None = None
    context_window: int = 32_000
    learns_window: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    api: Literal["chat", "responses"] = "chat"
    timeouts: AnswerTimeouts = field(default_factory=AnswerTimeouts)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    pricing: Pricing = field(default_factory=lambda: Pricing(model=""))
    client_options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def origin(self) -> str:
        """Identifies the API. Extra fields of an answer are sent back to the same API only."""
        return self.entry.name if self.api == "chat" else f"{self.entry.name}/{self.api}"

    @property
    def secret(self) -> str:
        """The key as it is sent; empty if the provider needs none."""
        return self.key.get_secret_value() if self.key else ""


def detect(settings: Settings) -> str:
    """Returns the name of the provider: that of the settings, else the first with a key, else the
    local server whose address is set, else the offline provider.
    """
    if settings.provider != "auto":
        return settings.provider
    for name in DETECTED:
        if _key_of(ENTRIES[name], settings, named=False):
            return name
    return COMPATIBLE if settings.llm.base_url else OFFLINE


def choose(settings: Settings, name: str | None = None, model: str | None = None) -> ProviderChoice:
    """Returns the provider of the settings, or the one called `name`, with its parameters.

    `model` overrides the settings. Raises: SettingsError for an unknown name, or if a key, a model
    or an address is missing.
    """
    provider = name or detect(settings)
    entry = _entry_of(provider)
    # The model and limits of the settings are for the provider in use, not for another `name`. If a
    # provider was detected by its key, the address belongs to another server, which must not get
    # the key.
    in_use = provider == detect(settings)
    mine = provider == (COMPATIBLE if settings.provider == "auto" else settings.provider)
    model = model or (settings.model if in_use else None) or entry.model
    base_url = (settings.llm.base_url if mine else None) or entry.base_url or ""
    if model is None:
        raise _missing("model", provider, "name the model that the server serves")
    if not base_url and entry.kind != "offline":
        what = "give the server's address, as http://127.0.0.1:8000/v1"
        raise _missing("llm_base_url", provider, what)
    window = settings.llm.context_window if in_use else None
    key = _key_of(entry, settings, named=mine)
    if key is None and entry.key_variable:
        what = f"give the provider's key, as {entry.key_variable} in the environment"
        raise _missing(entry.key_variable.lower(), provider, what)
    return ProviderChoice(
        entry=entry,
        model=model,
        base_url=base_url,
        key=key,
        context_window=window or _window(entry, model),
        learns_window=entry.local and window is None,
        max_tokens=(settings.llm.max_tokens if in_use else None) or entry.max_tokens,
        temperature=settings.llm.temperature,
        api=settings.llm.api,
        timeouts=_timeouts(settings, entry),
        pricing=_pricing(settings, entry, model, in_use=in_use),
    )


def _entry_of(provider: str) -> ProviderEntry:
    entry = ENTRIES.get(provider)
    if entry is None:
        names = ", ".join(sorted(ENTRIES))
        origin = f"value {provider[:50]!r}"
        raise SettingsError(
            name="provider", origin=origin, reason=f"must be auto or one of {names}"
        )
    return entry


def _pricing(settings: Settings, entry: ProviderEntry, model: str, *, in_use: bool) -> Pricing:
    return Pricing(
        model=model,
        genai_provider=entry.genai_provider,
        fixed=_fixed_price(settings) if in_use else None,
        fallback=entry.price if model == entry.model or entry.price == FREE else None,
    )


def embedding_pricing(settings: Settings, model: str) -> Pricing:
    """Returns the pricing of an embedding model on the server of the settings."""
    given = settings.embedder.price
    return Pricing(
        model=model,
        genai_provider="openai",
        fixed=None if given is None else Price(input=given, output=0.0),
        fallback=FREE
        if is_loopback(urlsplit(settings.embedder.base_url or "").hostname or "")
        else None,
    )


def make_provider(choice: ProviderChoice, *, offline: Callable[[], LLMProvider]) -> LLMProvider:
    """Returns the provider of a choice. `offline` makes the one without a model."""
    entry = choice.entry
    log.info("provider_chosen", extra={"provider": entry.name, "model": choice.model})
    if entry.kind == "offline":
        return offline()
    # Imported late: loading the client libraries takes longer than most commands.
    if entry.kind == "anthropic":
        from graphrag.llm.anthropic import AnthropicProvider

        return AnthropicProvider(choice)
    from graphrag.llm.openai_compatible import OpenAICompatibleProvider

    return OpenAICompatibleProvider(choice)


def _key_of(entry: ProviderEntry, settings: Settings, *, named: bool) -> SecretStr | None:
    """Returns the key of a provider. A key of one provider is never sent to another."""
    if named and settings.llm.api_key and settings.llm.api_key.get_secret_value().strip():
        return settings.llm.api_key
    return settings.key_of(entry.key_variable) if entry.key_variable else None


def _timeouts(settings: Settings, entry: ProviderEntry) -> AnswerTimeouts:
    return AnswerTimeouts(
        silence_s=settings.llm.silence_s,
        total_s=settings.llm.total_s,
        first_s=settings.llm.first_piece_s or (LOCAL_FIRST_PIECE_S if entry.local else None),
        repeats_timeouts=not entry.local,
    )


def _window(entry: ProviderEntry, model: str) -> int:
    if model == entry.model:
        return entry.context_window
    provider = entry.genai_provider
    no_tokens = {"input_tokens": 0, "output_tokens": 0}
    price = None if provider is None else _calculated(provider, model, **no_tokens)
    return (price.model.context_window if price else None) or min(entry.context_window, 128_000)


def _fixed_price(settings: Settings) -> Price | None:
    if settings.llm.price_input is None:
        return None
    return Price(
        input=settings.llm.price_input,
        output=settings.llm.price_output or 0.0,
        cached=settings.llm.price_cached,
    )


def _missing(setting: str, provider: str, what: str) -> SettingsError:
    return SettingsError(
        name=setting, origin=f"for provider {without_secrets(provider)}", reason=f"missing: {what}"
    )
