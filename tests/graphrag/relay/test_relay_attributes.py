"""The attributes of ConversationRelay are Twilio's, and say what the document wants."""

from inspect import signature
from typing import Any

import pytest
from twilio.twiml.voice_response import Connect, VoiceResponse

from graphrag.agents.document import AgentDocument
from graphrag.relay.relay_attributes import relay_attributes
from tests.support.agent_life import document

FULL = {
    "welcome": "Hello <there> & \"you\"", "language": "fr-CA", "tts_provider": "Google", "voice": "v",
    "transcription_provider": "Deepgram", "speech_model": "nova-3-general", "hints": ["a", "b c"],
}  # fmt: skip


def attributes(voice: dict[str, Any], **more: Any) -> dict[str, str]:
    made = document(voice={"engine": "text", **voice}, **more)
    return relay_attributes(AgentDocument.model_validate(made), "en-US")


def test_every_attribute_is_one_of_the_vendors_package() -> None:
    written = VoiceResponse()
    connect = Connect()
    written.append(connect)
    known = set(signature(Connect.conversation_relay).parameters)
    named = dict.fromkeys(known - {"self", "kwargs"}, "x")
    element = connect.conversation_relay(**named).to_xml()
    for name in attributes({"speech": FULL}):
        assert f" {name}=" in element, name


def test_the_document_chooses_language_voice_and_hints() -> None:
    found = attributes({"speech": FULL})
    assert (found["language"], found["hints"]) == ("fr-CA", "a,b c")
    assert (found["ttsProvider"], found["voice"], found["speechModel"]) == (
        "Google", "v", "nova-3-general",
    )  # fmt: skip
    assert attributes({})["language"] == "en-US"
    assert "voice" not in attributes({})


@pytest.mark.parametrize(
    ("mode", "interruptible", "welcome", "speech"),
    [
        ("immediate", True, "speech", "speech"),
        ("immediate", False, "none", "speech"),
        ("off", True, "none", "none"),
    ],
)
def test_who_may_interrupt(mode: str, interruptible: bool, welcome: str, speech: str) -> None:
    greeting = {"unknown_customer": "Hi.", "interruptible": interruptible}
    found = attributes({"barge_in": {"mode": mode}}, greeting=greeting)
    assert found["welcomeGreetingInterruptible"] == welcome
    assert found["interruptible"] == speech


def test_digits_are_reported_where_the_document_takes_them() -> None:
    assert attributes({})["dtmfDetection"] == "true"
    assert attributes({"dtmf": False})["dtmfDetection"] == "false"
