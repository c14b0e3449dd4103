"""The attributes of `<ConversationRelay>` for an agent.

Source: Twilio, "TwiML Voice: <ConversationRelay>"
(https://www.twilio.com/docs/voice/twiml/connect/conversationrelay); the names are those of the
package `twilio`, which a test compares.
"""

from __future__ import annotations

from graphrag.agents.document import AgentDocument

EVENTS = "speaker-events tokens-played"


def relay_attributes(
    document: AgentDocument, language: str, *, is_return: bool = False
) -> dict[str, str]:
    """Returns the attributes, without the address. `language`: where the document names none.

    `is_return`: the caller comes back after a transfer, and is not welcomed again.
    """
    voice = document.voice
    speech = voice.speech
    speaks_over = "none" if voice.barge_in.mode == "off" else "speech"
    protects = document.greeting is not None and not document.greeting.interruptible
    given = {
        "language": speech.language or language,
        "ttsProvider": speech.tts_provider,
        "voice": speech.voice,
        "transcriptionProvider": speech.transcription_provider,
        "speechModel": speech.speech_model,
        "hints": ",".join(speech.hints) or None,
        "welcomeGreeting": None if is_return else speech.welcome,
        "welcomeGreetingInterruptible": "none" if protects else speaks_over,
        "interruptible": speaks_over,
        "dtmfDetection": "true" if voice.dtmf else "false",
        "events": EVENTS,
    }
    return {name: value for name, value in given.items() if value is not None}
