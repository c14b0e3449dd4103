"""Decides what a telephone service does when the stream of a call has ended, with words
for the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from graphrag.agents.chat_values import Locale, language_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.voice_fields import VoiceOptions
from graphrag.i18n import text
from graphrag.voice import twiml
from graphrag.voice.call_records import Call

RING_S: Final = 30
OURS: Final = frozenset(
    ("model_unreachable", "model_refused", "session_failed", "draining", "error", "lost")
)
"""Ends of a call for reasons that are neither the caller's nor the agent's."""
_UNAVAILABLE: Final = frozenset(("model_unreachable", "model_refused", "session_failed"))
_GOODBYE: Final = frozenset(("max_duration", "draining", "ended_by_person"))
_ANSWERED: Final = frozenset(("completed", "answered"))
"""Values of Twilio's `DialCallStatus` after which nothing is left to do; others: busy,
no-answer, failed, canceled.
"""
_REGIONS: Final = {
    "da": "DK",
    "en": "US",
    "ja": "JP",
    "ko": "KR",
    "nb": "NO",
    "sv": "SE",
    "zh": "CN",
}
"""Usual regions that are not the language's own name in capitals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterCall:
    """`text` is said by the service, in its `voice` and `language`, "" for nothing; then it
    connects the caller with `destination`, or hangs up.

    A destination may ring for `timeout_s` seconds. `tried`: the names of the destinations up to
    this one, in a document of `agent_id`.
    """

    text: str = ""
    destination: str | None = None
    voice: str | None = None
    language: str = "en-US"
    timeout_s: int = RING_S
    tried: tuple[str, ...] = ()
    agent_id: str = ""


def after_call(call: Call, agent: CompiledAgent, locale: Locale) -> AfterCall:
    """Returns what follows a call that ended for its reason."""
    voice = agent.document.voice
    language = language_of(agent, locale)
    if call.end_reason == "transferred" and call.destination:
        named = (
            name for name, each in voice.destinations.items() if each.number == call.destination
        )
        name = next(named, None)
        return AfterCall(destination=call.destination) if name is None else _dial(agent, name, ())
    if (
        call.end_reason in OURS
        and not call.said_goodbye
        and (fallback := fallback_of(agent)) is not None
    ):
        return fallback
    said = ""
    if call.end_reason in _UNAVAILABLE:
        said = voice.unavailable_message or text("voice_unavailable", language)
    elif call.end_reason in _GOODBYE and not call.said_goodbye:
        said = voice.goodbye_message or text("voice_goodbye", language)
    return _said(agent, locale, said)


def fallback_of(agent: CompiledAgent) -> AfterCall | None:
    """Returns what connects callers whom the agent cannot serve with somebody else; None:
    nobody is named.
    """
    name = agent.document.voice.fallback
    return None if name is None else _dial(agent, name, ())


def without_service(agent: CompiledAgent, locale: Locale) -> str:
    """Returns the TwiML that Twilio keeps for the time when this service cannot be reached."""
    voice = agent.document.voice
    language = language_of(agent, locale)
    options = {"voice": voice.say_voice, "language": say_language(agent, locale)}
    after = fallback_of(agent)
    if after is None or after.destination is None:
        return twiml.say(
            voice.unavailable_message or text("voice_unavailable", language), **options
        ).decode()
    said = voice.no_answer_message or text("voice_no_answer", language)
    return twiml.dial(after.destination, after.timeout_s, text=said, **options).decode()


def after_dial(
    agent: CompiledAgent, locale: Locale, tried: Sequence[str], status: str
) -> AfterCall:
    """Returns what follows a transfer to the last of `tried`, which ended
    with a `DialCallStatus`.
    """
    voice = agent.document.voice
    if status in _ANSWERED or not tried:
        return AfterCall()
    following = _next(voice, tried)
    if following is not None:
        return _dial(agent, following, tried)
    said = voice.no_answer_message or text("voice_no_answer", language_of(agent, locale))
    return _said(agent, locale, said)


def _next(voice: VoiceOptions, tried: Sequence[str]) -> str | None:
    """Returns what is tried next, each once: the fallback of the last destination, else
    that of all.
    """
    last = voice.destinations.get(tried[-1])
    names = (last.fallback if last is not None else None, voice.fallback)
    return next((name for name in names if name in voice.destinations and name not in tried), None)


def _dial(agent: CompiledAgent, name: str, tried: Sequence[str]) -> AfterCall:
    to = agent.document.voice.destinations[name]
    return AfterCall(
        destination=to.number, timeout_s=to.timeout_s, tried=(*tried, name), agent_id=agent.agent_id
    )


def _said(agent: CompiledAgent, locale: Locale, said: str) -> AfterCall:
    return AfterCall(
        text=said, voice=agent.document.voice.say_voice, language=say_language(agent, locale)
    )


def say_language(agent: CompiledAgent, locale: Locale) -> str:
    """Return the language in which the service says something, with its usual region."""
    if (own := agent.document.voice.say_language) is not None:
        return own
    language = agent.document.agent.language or locale.language
    name, _, region = language.partition("-")
    return language if region else f"{name.lower()}-{_REGIONS.get(name.lower(), name.upper())}"
