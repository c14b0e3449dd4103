"""Decides what a telephone service does when the stream of a call has ended, with words for the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from graphrag.agents.chat_values import Locale, language_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.i18n import text
from graphrag.voice.call_records import Call

_UNAVAILABLE: Final = frozenset(("model_unreachable", "model_refused", "session_failed"))
_GOODBYE: Final = frozenset(("max_duration", "draining", "ended_by_person"))
_REGIONS: Final = {"da": "DK", "en": "US", "ja": "JP", "ko": "KR", "nb": "NO", "sv": "SE", "zh": "CN"}
"""Usual regions that are not the language's own name in capitals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterCall:
    """`text` is said by the service, in its `voice` and `language`, "" for nothing; then it connects the
    caller with `destination`, or hangs up."""

    text: str = ""
    destination: str | None = None
    voice: str | None = None
    language: str = "en-US"


def after_call(call: Call, agent: CompiledAgent, locale: Locale) -> AfterCall:
    """Return what follows a call that ended for its reason."""
    voice, language = agent.document.voice, language_of(agent, locale)
    if call.end_reason == "transferred" and call.destination:
        return AfterCall(destination=call.destination)
    said = ""
    if call.end_reason in _UNAVAILABLE:
        said = voice.unavailable_message or text("voice_unavailable", language)
    elif call.end_reason in _GOODBYE and not call.said_goodbye:
        said = voice.goodbye_message or text("voice_goodbye", language)
    return AfterCall(text=said, voice=voice.say_voice, language=say_language(agent, locale))


def say_language(agent: CompiledAgent, locale: Locale) -> str:
    """Return the language in which the service says something, with its usual region."""
    if (own := agent.document.voice.say_language) is not None:
        return own
    language = agent.document.agent.language or locale.language
    name, _, region = language.partition("-")
    return language if region else f"{name.lower()}-{_REGIONS.get(name.lower(), name.upper())}"
