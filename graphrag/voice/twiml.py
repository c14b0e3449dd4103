"""Writes answers to Twilio in TwiML. Texts are escaped.

Source: https://www.twilio.com/docs/voice/twiml. Verbs after a `<Dial>` with an `action` are never
reached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

# characters that XML cannot represent, not even escaped
_NO_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


RECORDING: Final = "agent"  # name of a recording, by which it is stopped


def connect(
    stream_url: str,
    action: str,
    token: str,
    *,
    relay: Mapping[str, str] | None = None,
    notice: str = "",
    voice: str | None = None,
    language: str | None = None,
    recorded: str | None = None,
) -> bytes:
    """Connects a call with a stream. After its end Twilio requests `action`.

    `relay`: attributes of ConversationRelay, None for a stream of sound. First `notice` is spoken.
    `recorded`: Twilio then records the call, and requests this address when the recording has
    begun, and when it is complete or absent.
    """
    answer = Element("Response")
    _words(answer, notice, voice, language)
    if recorded is not None:
        asks = {
            "name": RECORDING,
            "recordingStatusCallback": recorded,
            "recordingStatusCallbackMethod": "POST",
            "recordingStatusCallbackEvent": "in-progress completed absent",
        }
        SubElement(SubElement(answer, "Start"), "Recording", asks)
    connecting = SubElement(answer, "Connect", action=action, method="POST")
    kind = "Stream" if relay is None else "ConversationRelay"
    stream = SubElement(connecting, kind, {"url": stream_url, **(relay or {})})
    # Name and value of a parameter have 500 characters together: the token only.
    SubElement(stream, "Parameter", name="token", value=token)
    return _written(answer)


def reject(*, busy: bool = False) -> bytes:
    """Rejects a call, with the tone of a busy line or of an unknown number."""
    answer = Element("Response")
    SubElement(answer, "Reject", {"reason": "busy"} if busy else {})
    return _written(answer)


def say(text: str, *, voice: str | None = None, language: str | None = None) -> bytes:
    """Speaks a text unless it is empty, then hangs up."""
    answer = Element("Response")
    _say(answer, text, voice, language)
    return _written(answer)


def whisper(text: str, *, voice: str | None = None, language: str | None = None) -> bytes:
    """Speaks a text to the person who answered a transfer, and lets the call go on."""
    answer = Element("Response")
    _words(answer, text, voice, language)
    return _written(answer)


def dial(
    destination: str,
    timeout_s: int,
    *,
    action: str | None = None,
    answered: str | None = None,
    waits: bool = False,
    stops_recording: bool = False,
    text: str = "",
    voice: str | None = None,
    language: str | None = None,
) -> bytes:
    """Connects the caller with a number or `sip:` address, which rings at most `timeout_s`.

    Afterwards Twilio requests `action`. Without an action `text` is spoken if nobody answered.
    `answered`: Twilio requests it when somebody picks up, and plays the answer to them before they
    are connected. `waits`: the caller hears ringing until then. `stops_recording`: the recording
    that `connect` began ends before.
    """
    answer = Element("Response")
    if stops_recording:
        SubElement(SubElement(answer, "Stop"), "Recording", name=RECORDING)
    after = {} if action is None else {"action": action, "method": "POST"}
    after |= {"answerOnBridge": "true"} if waits else {}
    calling = SubElement(answer, "Dial", {"timeout": str(timeout_s), **after})
    asks = {} if answered is None else {"url": answered, "method": "POST"}
    dial = SubElement(calling, "Sip" if destination.startswith("sip:") else "Number", asks)
    dial.text = destination
    if action is None:
        _say(answer, text, voice, language)
    return _written(answer)


def _say(answer: Element, text: str, voice: str | None, language: str | None) -> None:
    _words(answer, text, voice, language)
    SubElement(answer, "Hangup")


def _words(answer: Element, text: str, voice: str | None, language: str | None) -> None:
    if text.strip():
        options = {"voice": voice, "language": language}
        say = SubElement(answer, "Say", {n: v for n, v in options.items() if v is not None})
        say.text = text


def _written(answer: Element) -> bytes:
    for element in answer.iter():
        element.text = _NO_XML.sub("", element.text) if element.text else element.text
        element.attrib = {name: _NO_XML.sub("", value) for name, value in element.attrib.items()}
    return tostring(answer, encoding="utf-8", xml_declaration=True)
