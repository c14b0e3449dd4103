"""Says of any failure of a turn what it was, whether to try again, and what a person reads of it."""

from __future__ import annotations

from dataclasses import dataclass

from graphrag.errors import describe
from graphrag.i18n import Language, text
from graphrag.llm.errors import ModelError, without_secrets

_OF_SOURCES = ("busy", "not_found", "forbidden", "invalid", "conflict", "stale")
_OF_MODELS = (
    *("auth_error", "no_credit", "rate_limit", "usage_limit", "server_error", "timeout", "network"),
    *("content_filter", "context_length", "request_refused"),
)
FAULT_CODES = frozenset({*_OF_SOURCES, *_OF_MODELS, "internal"})
"""The codes that a client of conversations knows; any other is sent as `internal`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFault:
    """Why a turn broke off.

    `en` and `fr` are whole sentences for a person; they hold neither keys nor code nor traces. `details`
    is what the provider itself said, without secrets.
    """

    code: str
    retryable: bool
    en: str
    fr: str
    retry_after_s: float | None = None
    details: str = ""

    def message(self, language: Language) -> str:
        return self.fr if language == "fr" else self.en


def classify(exc: BaseException) -> TurnFault:
    """Return what a failure means. One that nobody foresaw is `internal`, and its text is kept back."""
    english = describe(exc, "en") if isinstance(exc, Exception) else None
    french = describe(exc, "fr") if isinstance(exc, Exception) else None
    if english is None or french is None:
        code = _unforeseen(exc)
        return TurnFault(code=code, retryable=code != "internal", en=text(code, "en"), fr=text(code, "fr"))
    code = "network" if english.code == "unavailable" else english.code
    return TurnFault(
        code=code if code in FAULT_CODES else "internal",
        retryable=english.retryable,
        en=without_secrets(english.message),
        fr=without_secrets(french.message),
        retry_after_s=exc.retry_after_s if isinstance(exc, ModelError) else None,
        details=without_secrets(english.details) if isinstance(exc, ModelError) else "",
    )


def _unforeseen(exc: BaseException) -> str:
    if isinstance(exc, TimeoutError):
        return "timeout"
    return "network" if isinstance(exc, ConnectionError) else "internal"
