"""Decides what the telephone service does after the stream of a call has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from graphrag.agents.chat_values import Locale, language_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.voice_fields import VoiceOptions
from graphrag.i18n import text
from graphrag.relay.relay_attributes import relay_attributes
from graphrag.voice import twiml
from graphrag.voice.call_records import Call

RING_S: Final = 30  # default ringing time of a destination
MAX_TRIED: Final = 12  # attempts of one transfer, whatever a document says
# end reasons caused by the service or its model, not by the caller or the agent
FAILURES: Final = frozenset(
    ("model_unreachable", "model_refused", "session_failed", "draining", "error", "lost")
)
_UNAVAILABLE: Final = frozenset(("model_unreachable", "model_refused", "session_failed"))
_GOODBYE: Final = frozenset(("max_duration", "draining", "ended_by_person"))
# values of Twilio's `DialCallStatus` after a successful transfer; the others are busy, no-answer,
# failed and canceled
_ANSWERED: Final = frozenset(("completed", "answered"))
# usual regions that are not the language code in capitals
_REGIONS: Final = {
    "da": "DK",
    "en": "US",
    "ja": "JP",
    "ko": "KR",
    "nb": "NO",
    "sv": "SE",
    "zh": "CN",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """The service speaks `text`, then connects the caller with `destination` or hangs up.

    `voice` and `language` are for the text. `timeout_s`: ringing time of the destination. `tried`:
    names of the destinations so far, including this one, in the document of `agent_id`. `number`:
    of the attempt in the record of the call, None without a record. `waits`: the caller hears
    ringing while something is read to the person who answers. `token`: the caller opens a stream
    to the agent again, and nothing else happens; `relay`: the attributes of one in which the
    telephone service recognises and speaks.
    `starts_recording`: the stream is recorded. `stops_recording`: the recording of the stream ends
    before anything else.
    """

    text: str = ""
    destination: str | None = None
    voice: str | None = None
    language: str = "en-US"
    timeout_s: int = RING_S
    tried: tuple[str, ...] = ()
    agent_id: str = ""
    number: int | None = None
    waits: bool = False
    token: str | None = None
    relay: Mapping[str, str] | None = None
    starts_recording: bool = False
    stops_recording: bool = False

    def numbered(self, number: int) -> FollowUp:
        """Returns the follow-up with the number of its attempt."""
        return replace(self, number=number)


def after_call(call: Call, agent: CompiledAgent, locale: Locale) -> FollowUp:
    """Returns the follow-up of an ended call, by its reason."""
    voice = agent.document.voice
    language = language_of(agent, locale)
    is_recorded = voice.recording.enabled
    if call.end_reason == "transferred" and call.destination in voice.destinations:
        return replace(_dial(agent, call.destination, ()), stops_recording=is_recorded)
    if (
        call.end_reason in FAILURES
        and not call.said_goodbye
        and (fallback := fallback_of(agent)) is not None
    ):
        return replace(fallback, stops_recording=is_recorded)
    message = ""
    if call.end_reason in _UNAVAILABLE:
        message = voice.unavailable_message or text("voice_unavailable", language)
    elif call.end_reason in _GOODBYE and not call.said_goodbye:
        message = voice.goodbye_message or text("voice_goodbye", language)
    return spoken(agent, locale, message)


def fallback_of(agent: CompiledAgent) -> FollowUp | None:
    """Returns the connection with the fallback of the agent document, None without a fallback."""
    name = agent.document.voice.fallback
    return None if name is None else _dial(agent, name, ())


def without_service(agent: CompiledAgent, locale: Locale) -> str:
    """Returns TwiML for Twilio to use while this service is unreachable."""
    voice = agent.document.voice
    language = language_of(agent, locale)
    after = fallback_of(agent)
    if after is None or after.destination is None:
        return twiml.say(
            voice.unavailable_message or text("voice_unavailable", language),
            voice=voice.say_voice,
            language=say_language(agent, locale),
        ).decode()
    return twiml.dial(
        after.destination,
        after.timeout_s,
        text=voice.no_answer_message or text("voice_no_answer", language),
        voice=voice.say_voice,
        language=say_language(agent, locale),
    ).decode()


def after_dial(agent: CompiledAgent, locale: Locale, tried: Sequence[str], status: str) -> FollowUp:
    """Returns the follow-up of a transfer to the last of `tried`, by its `DialCallStatus`."""
    if is_answered(status) or not tried:
        return FollowUp()
    following = _next(agent.document.voice, tried)
    if following is not None:
        return _dial(agent, following, tried)
    return nobody_answers(agent, locale)


def is_answered(status: str) -> bool:
    """Returns whether a `DialCallStatus` says that the caller was connected."""
    return status in _ANSWERED


def nobody_answers(agent: CompiledAgent, locale: Locale) -> FollowUp:
    """Returns the end of a call whose transfer nobody answered."""
    message = agent.document.voice.no_answer_message
    return spoken(agent, locale, message or text("voice_no_answer", language_of(agent, locale)))


def given_back(agent: CompiledAgent, locale: Locale, token: str) -> FollowUp:
    """Returns the follow-up that connects the caller with the agent again.

    The caller has heard the welcome, and the notice of a recording.
    """
    return FollowUp(
        token=token,
        relay=relay_of(agent, locale, is_return=True),
        starts_recording=agent.document.voice.recording.enabled,
    )


def relay_of(
    agent: CompiledAgent, locale: Locale, *, is_return: bool = False
) -> Mapping[str, str] | None:
    """Returns the attributes of ConversationRelay, None for an agent with a Realtime model."""
    if agent.document.voice.engine == "realtime":
        return None
    return relay_attributes(agent.document, say_language(agent, locale), is_return=is_return)


def _next(voice: VoiceOptions, tried: Sequence[str]) -> str | None:
    """Returns the next destination, None if all were tried as often as the document says.

    The last one comes again first, then its fallback. The fallback of the document comes last; it
    is left out if the first destination says what happens instead.
    """
    if len(tried) >= MAX_TRIED:
        return None
    last = voice.destinations.get(tried[-1])
    wanted = voice.destinations.get(tried[0])
    if last is not None and tried.count(tried[-1]) < last.attempts:
        return tried[-1]
    is_decided = wanted is not None and wanted.on_unanswered is not None
    names = (last.fallback if last is not None else None, None if is_decided else voice.fallback)
    return next((name for name in names if name in voice.destinations and name not in tried), None)


def _dial(agent: CompiledAgent, name: str, tried: Sequence[str]) -> FollowUp:
    to = agent.document.voice.destinations[name]
    return FollowUp(
        destination=to.number,
        timeout_s=to.timeout_s,
        tried=(*tried, name),
        agent_id=agent.agent_id,
        waits=to.summary == "spoken",
    )


def spoken(agent: CompiledAgent, locale: Locale, message: str) -> FollowUp:
    """Returns a text in the voice and language of the service's own words."""
    return FollowUp(
        text=message, voice=agent.document.voice.say_voice, language=say_language(agent, locale)
    )


def say_language(agent: CompiledAgent, locale: Locale) -> str:
    """Returns the language of the service's own words, with its usual region."""
    if (own := agent.document.voice.say_language) is not None:
        return own
    language = agent.document.agent.language or locale.language
    name, _, region = language.partition("-")
    return language if region else f"{name.lower()}-{_REGIONS.get(name.lower(), name.upper())}"
