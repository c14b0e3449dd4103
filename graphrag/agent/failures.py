"""Says of any failure of a turn what it was, whether to try again, and what to tell the person."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal, cast, get_args

from graphrag.errors import describe
from graphrag.i18n import Language, message
from graphrag.llm.errors import ModelError, without_secrets

FaultCode = Literal[
    "rate_limit",
    "server_error",
    "auth_error",
    "no_credit",
    "timeout",
    "network",
    "content_filter",
    "context_length",
    "usage_limit",
    "busy",
    "not_found",
    "forbidden",
    "invalid",
    "conflict",
    "stale",
    "request_refused",
    "internal",
]

_OTHERS: dict[str, FaultCode] = {"unavailable": "network"}
_KNOWN: frozenset[str] = frozenset(get_args(FaultCode))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failure as clients are told of it. `status` is the provider's HTTP status, where there was one.

    `en` and `fr` are whole sentences for a person; they hold neither keys nor code nor traces. `details`
    is what the provider itself said, without secrets.
    """

    code: FaultCode
    retryable: bool
    en: str
    fr: str
    status: int | None = None
    provider: str | None = None
    retry_after_s: float | None = None
    details: str = ""

    def message(self, language: Language) -> str:
        return self.fr if language == "fr" else self.en


def classify(exc: BaseException) -> Fault:
    """Return what a failure means. One that nobody foresaw is `internal`, and its text is kept back."""
    facts = _facts(exc)
    if isinstance(exc, Exception):
        english, french = describe(exc, "en"), describe(exc, "fr")
        if english is not None and french is not None:
            return Fault(
                code=_code(english.code),
                retryable=english.retryable,
                en=_told(english.message),
                fr=_told(french.message),
                status=facts[0],
                provider=facts[1],
                retry_after_s=exc.retry_after_s if isinstance(exc, ModelError) else None,
                details=_told(english.details) if isinstance(exc, ModelError) else "",
            )
    code = _unforeseen(exc)
    return Fault(code=code, retryable=code != "internal", en=message(code, "en"), fr=message(code, "fr"))


def _code(meaning: str) -> FaultCode:
    if meaning in _KNOWN:
        return cast(FaultCode, meaning)
    return _OTHERS.get(meaning, "internal")


def _facts(exc: BaseException) -> tuple[int | None, str | None]:
    status, provider = getattr(exc, "status", None), getattr(exc, "provider", None)
    return (
        status if isinstance(status, int) else None,
        provider if isinstance(provider, str) else None,
    )


def _unforeseen(exc: BaseException) -> FaultCode:
    if isinstance(exc, TimeoutError | asyncio.TimeoutError):
        return "timeout"
    return "network" if isinstance(exc, ConnectionError) else "internal"


def _told(text: str) -> str:
    return without_secrets(text)
