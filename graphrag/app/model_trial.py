"""Tries a model with a key that is not configured: sends one short request and returns the settings
to use. Stores nothing.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from dataclasses import dataclass, replace
from typing import Any

from pydantic import SecretStr

from graphrag.answer_body import AnswerBody
from graphrag.app.models import rules_provider
from graphrag.config import Settings, SettingsError
from graphrag.errors import describe
from graphrag.i18n import Language, text
from graphrag.llm.base import ModelOptions, UserMessage
from graphrag.llm.errors import ModelError, without_secrets
from graphrag.llm.model_text import complete
from graphrag.llm.registry import (
    ENTRIES,
    AnswerTimeouts,
    ProviderChoice,
    RetryPolicy,
    choose,
    make_provider,
)
from tools.http.addresses import AddressRefused, AddressRules, origin_of
from tools.http.checked_transport import CheckedTransport

QUESTION = "Answer with one word: which colour has the sky by day?"
ANSWER_TOKENS = 200
PATIENCE_S = 30.0
LOOK_UP_S = 5.0
MAX_SHOWN = 200


class TrialResult(AnswerBody):
    """`detail` is the model's answer or the error; `line` are the settings to use, without
    the key.
    """

    ok: bool
    detail: str
    line: str
    latency_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCandidate:
    """A model to try. The configured keys are never sent to a given address."""

    provider: str
    model: str | None = None
    base_url: str | None = None
    key: SecretStr | None = None


async def try_model(
    settings: Settings, candidate: ModelCandidate, rules: AddressRules, language: Language
) -> TrialResult:
    """Asks a model one question. The rules must allow a given address."""
    began: float | None = None
    try:
        choice = _choice(settings, candidate)
        if candidate.base_url:
            origin = origin_of(candidate.base_url)
            async with asyncio.timeout(LOOK_UP_S):
                await rules.check(origin.host, origin.port)
            options = {"transport": CheckedTransport(rules), "trust_env": False}
            choice = replace(choice, client_options=options)
        began = time.perf_counter()
        detail = await _answer(choice)
        ok = True
    except AddressRefused as exc:
        detail = text("settings_address", language, host=exc.host)
        ok = False
    except (OSError, ValueError):
        detail = text("settings_no_address", language)
        ok = False
    except (SettingsError, ModelError) as exc:
        description = describe(exc, language)
        detail = (
            " ".join(filter(None, (description.message, description.details)))
            if description
            else str(exc)
        )
        ok = False
    latency_ms = None if began is None else round((time.perf_counter() - began) * 1e3)
    secret = candidate.key.get_secret_value() if candidate.key else None
    shown = without_secrets(detail, secret)
    return TrialResult(ok=ok, detail=shown, line=line_of(candidate), latency_ms=latency_ms)


def _choice(settings: Settings, candidate: ModelCandidate) -> ProviderChoice:
    """Returns the provider and model to ask. Raises: SettingsError."""
    if candidate.base_url or candidate.key:
        overrides: dict[str, Any] = {
            "llm_base_url": candidate.base_url,
            "llm_api_key": candidate.key,
            "provider_keys": {},
        }
        overrides |= {"provider": candidate.provider, "model": None, "llm_api": "chat"}
        settings = settings.with_values(overrides)
    timeouts = AnswerTimeouts(silence_s=PATIENCE_S, total_s=PATIENCE_S)
    choice = choose(settings, candidate.provider, candidate.model)
    return replace(choice, timeouts=timeouts, retry=RetryPolicy(attempts=1))


async def _answer(choice: ProviderChoice) -> str:
    provider = make_provider(choice, offline=rules_provider)
    try:
        messages = [UserMessage(content=QUESTION)]
        answer = await complete(provider, messages, options=ModelOptions(max_tokens=ANSWER_TOKENS))
    finally:
        await provider.aclose()
    return " ".join(answer.text.split())[:MAX_SHOWN]


def line_of(candidate: ModelCandidate) -> str:
    """Returns the environment variables that configure the candidate, with a placeholder for the
    key.
    """
    entry = ENTRIES.get(candidate.provider)
    parts = {"NODIUS_PROVIDER": candidate.provider}
    parts |= {"NODIUS_MODEL": candidate.model} if candidate.model else {}
    parts |= {"NODIUS_LLM_BASE_URL": candidate.base_url} if candidate.base_url else {}
    words = [f"{name}={shlex.quote(value)}" for name, value in parts.items()]
    variable = entry.key_variable if entry and not candidate.base_url else None
    if variable or candidate.key:
        words.append(f"{variable or 'NODIUS_LLM_API_KEY'}=…")
    return " ".join(words)
