"""The providers that are known, and the choice among them by settings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import SecretStr

from graphrag.config import Settings, SettingsError
from graphrag.llm.attempts import AnswerTimeouts
from graphrag.llm.base import LLMProvider
from graphrag.llm.errors import without_secrets
from graphrag.llm.message_text import LateSystem
from graphrag.llm.prices import FREE, Price, Pricing, known_context_window

log = logging.getLogger(__name__)

OFFLINE = "offline"
COMPATIBLE = "compatible"
LOCAL_FIRST_PIECE_S = 900.0
"""How long a local server may read a prompt: a CPU takes minutes for a long one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEntry:
    """What is known of a provider. `key_variable` names the variable of its key; None: it needs none.

    `model` None: the settings must name one. `genai_provider` is its name in `genai-prices`.
    The last but one four say how its dialect of OpenAI's format differs. `local`: a server that reads
    slowly and says itself how large its window is; `context_window` is what it has where it does not.
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
    late_system: LateSystem = "system"
    resend_reasoning: bool = False
    finish_required: bool = True
    local: bool = False


def _local(name: str, port: int, *, model: str | None = None) -> ProviderEntry:
    """A server on this machine: no key, no price; its chat template may take no late system message."""
    return ProviderEntry(
        name=name,
        kind="openai",
        model=model,
        base_url=f"http://127.0.0.1:{port}/v1",
        context_window=4_096,
        price=FREE,
        local=True,
        late_system="user",
        finish_required=False,
    )


def _compatible(
    name: str,
    base_url: str,
    *,
    model: str,
    key_variable: str,
    genai_provider: str | None = None,
) -> ProviderEntry:
    """A service with a key that speaks OpenAI's format, maybe without its newest parts."""
    return ProviderEntry(
        name=name,
        kind="openai",
        model=model,
        base_url=base_url,
        key_variable=key_variable,
        context_window=128_000,
        max_tokens=8_192,
        genai_provider=genai_provider,
        late_system="user",
    )


ENTRIES: dict[str, ProviderEntry] = {
    entry.name: entry
    for entry in (
        ProviderEntry(
            name="deepseek",
            kind="openai",
            model="deepseek-flash",
            base_url="https://api.deepseek.com/v1",
            key_variable="DEEPSEEK_API_KEY",
            context_window=1_000_000,
            max_tokens=16_384,
            genai_provider="deepseek",
            price=Price(input=0.30, output=1.20, cached=0.006),
            resend_reasoning=True,
        ),
        ProviderEntry(
            name="openai",
            kind="openai",
            model="gpt-6.1-sol",
            base_url="https://api.openai.com/v1",
            key_variable="OPENAI_API_KEY",
            context_window=1_050_000,
            max_tokens=16_384,
            genai_provider="openai",
            price=Price(input=2.0, output=10.0, cached=0.1),
            max_tokens_field="max_completion_tokens",
        ),
        ProviderEntry(
            name="openai-mini",
            kind="openai",
            model="gpt-6-luna",
            base_url="https://api.openai.com/v1",
            key_variable="OPENAI_API_KEY",
            context_window=1_050_000,
            max_tokens=16_384,
            genai_provider="openai",
            price=Price(input=0.10, output=0.50, cached=0.01),
            max_tokens_field="max_completion_tokens",
        ),
        ProviderEntry(
            name="anthropic",
            kind="anthropic",
            model="claude-sonnet-5-5",
            base_url="https://api.anthropic.com",
            key_variable="ANTHROPIC_API_KEY",
            context_window=1_000_000,
            max_tokens=16_384,
            genai_provider="anthropic",
            price=Price(input=2.0, output=10.0, cached=0.2, cache_write=2.5),
        ),
        _compatible(
            "qwen",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            model="qwen-plus",
            key_variable="DASHSCOPE_API_KEY",
        ),
        _compatible(
            "mistral",
            "https://api.mistral.ai/v1",
            model="mistral-large-latest",
            key_variable="MISTRAL_API_KEY",
            genai_provider="mistral",
        ),
        _compatible(
            "groq",
            "https://api.groq.com/openai/v1",
            model="llama-3.3-70b-versatile",
            key_variable="GROQ_API_KEY",
            genai_provider="groq",
        ),
        _compatible(
            "openrouter",
            "https://openrouter.ai/api/v1",
            model="openrouter/auto",
            key_variable="OPENROUTER_API_KEY",
            genai_provider="openrouter",
        ),
        _compatible(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            model="gemini-2.5-flash",
            key_variable="GEMINI_API_KEY",
            genai_provider="google",
        ),
        _local("ollama", 11_434),
        _local("llama.cpp", 8_080, model="default"),
        _local("vllm", 8_000),
        _local("lmstudio", 1_234),
        ProviderEntry(
            name=COMPATIBLE,
            kind="openai",
            late_system="user",
            finish_required=False,
            max_tokens=4_096,
            local=True,
        ),
        ProviderEntry(name=OFFLINE, kind="offline", model="rules", context_window=1_000_000, price=FREE),
    )
}
"""Default models and prices as published in October 2026; both can be set."""

DETECTED = ("deepseek", "openai", "anthropic")
"""Providers that a key turns on, the first first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderChoice:
    """A provider with everything it is asked with."""

    entry: ProviderEntry
    model: str
    base_url: str
    key: SecretStr | None
    context_window: int
    learns_window: bool
    max_tokens: int | None
    timeouts: AnswerTimeouts
    pricing: Pricing


def detect(settings: Settings) -> str:
    """Return the name of the provider to use: the one set, else the first with a key, else a local
    server whose address is set, else the offline answerer."""
    if settings.provider != "auto":
        return settings.provider
    for name in DETECTED:
        if _key_of(ENTRIES[name], settings, named=False):
            return name
    return COMPATIBLE if settings.llm_base_url else OFFLINE


def choose(settings: Settings, name: str | None = None) -> ProviderChoice:
    """Return the provider of the settings, or of a name, with its settings. Raises: SettingsError."""
    wanted = name or detect(settings)
    entry = ENTRIES.get(wanted)
    if entry is None:
        known = ", ".join(sorted(ENTRIES))
        raise SettingsError(
            name="provider", origin=f"value {wanted[:50]!r}", reason=f"must be auto or one of {known}"
        )
    # Model and the like are set for the provider in use, not for one named beside it. An address
    # beside a detected key is that of another server, which must not see the key.
    in_use = wanted == detect(settings)
    mine = wanted == (COMPATIBLE if settings.provider == "auto" else settings.provider)
    model = (settings.model if in_use else None) or entry.model
    base_url = (settings.llm_base_url if mine else None) or entry.base_url or ""
    if model is None:
        raise _missing("model", wanted, "name the model that the server serves")
    if not base_url and entry.kind != "offline":
        raise _missing("llm_base_url", wanted, "give the server's address, as http://127.0.0.1:8000/v1")
    window = settings.llm_context_window if in_use else None
    key = _key_of(entry, settings, named=mine)
    if key is None and entry.key_variable:
        what = f"give the provider's key, as {entry.key_variable} in the environment"
        raise _missing(entry.key_variable.lower(), wanted, what)
    return ProviderChoice(
        entry=entry,
        model=model,
        base_url=base_url,
        key=key,
        context_window=window or _window(entry, model),
        learns_window=entry.local and window is None,
        max_tokens=(settings.llm_max_tokens if in_use else None) or entry.max_tokens,
        timeouts=AnswerTimeouts(
            silence_s=settings.llm_silence_s,
            total_s=settings.llm_total_s,
            first_s=settings.llm_first_piece_s or (LOCAL_FIRST_PIECE_S if entry.local else None),
            repeats_timeouts=not entry.local,
        ),
        pricing=Pricing(
            model=model,
            genai_provider=entry.genai_provider,
            fixed=_fixed_price(settings) if in_use else None,
            fallback=entry.price if model == entry.model or entry.price == FREE else None,
        ),
    )


def make_provider(
    settings: Settings, *, offline: Callable[[], LLMProvider], name: str | None = None
) -> LLMProvider:
    """Return the provider of the settings, or of a name. `offline` makes the one that needs no model.

    Raises: SettingsError for an unknown name or where a key, a model or an address is missing.
    """
    choice = choose(settings, name)
    entry = choice.entry
    log.info("provider_chosen", extra={"provider": entry.name, "model": choice.model})
    if entry.kind == "offline":
        return offline()
    key = choice.key.get_secret_value() if choice.key else None
    # Imported here: the client libraries take longer to load than most commands take to run.
    if entry.kind == "anthropic":
        from graphrag.llm.anthropic import AnthropicProvider

        return AnthropicProvider(
            name=entry.name,
            model=choice.model,
            api_key=key or "",
            base_url=choice.base_url,
            context_window=choice.context_window,
            max_tokens=choice.max_tokens or 8_192,
            temperature=settings.llm_temperature,
            timeouts=choice.timeouts,
        )
    from graphrag.llm.openai_compatible import OpenAICompatibleProvider

    return OpenAICompatibleProvider(
        name=entry.name,
        model=choice.model,
        base_url=choice.base_url,
        api_key=key,
        context_window=choice.context_window,
        max_tokens=choice.max_tokens,
        max_tokens_field=entry.max_tokens_field,
        temperature=settings.llm_temperature,
        late_system=entry.late_system,
        resend_reasoning=entry.resend_reasoning,
        finish_required=entry.finish_required,
        api=settings.llm_api,
        learns_window=choice.learns_window,
        reports_progress=entry.local,
        timeouts=choice.timeouts,
    )


def _key_of(entry: ProviderEntry, settings: Settings, *, named: bool) -> SecretStr | None:
    """Return the key of an entry. A key of one provider never goes to another one's server."""
    if named and settings.llm_api_key and settings.llm_api_key.get_secret_value().strip():
        return settings.llm_api_key
    return settings.key_of(entry.key_variable) if entry.key_variable else None


def _window(entry: ProviderEntry, model: str) -> int:
    if model == entry.model:
        return entry.context_window
    return known_context_window(entry.genai_provider, model) or min(entry.context_window, 128_000)


def _fixed_price(settings: Settings) -> Price | None:
    if settings.llm_price_input is None:
        return None
    return Price(
        input=settings.llm_price_input,
        output=settings.llm_price_output or 0.0,
        cached=settings.llm_price_cached,
    )


def _missing(setting: str, provider: str, what: str) -> SettingsError:
    return SettingsError(
        name=setting, origin=f"for provider {without_secrets(provider)}", reason=f"missing: {what}"
    )
