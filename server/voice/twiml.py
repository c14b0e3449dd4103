"""Writes the answers that tell Twilio what to do with a call. Pure; whatever a text holds stays text."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, tostring

MEDIA_TYPE = "text/xml"
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold, however they are written."""


def connect(*, action: str, stream: str, token: str) -> bytes:
    """Let the sound of a call pass by a stream; at its end Twilio asks `action` how to go on."""
    response = Element("Response")
    connecting = SubElement(response, "Connect", action=action, method="POST")
    # Name and value of a parameter have 500 characters together: the token only.
    SubElement(SubElement(connecting, "Stream", url=stream), "Parameter", name="token", value=token)
    return _written(response)


def reject(*, busy: bool = False) -> bytes:
    """Take no call: with the tone of an engaged line, or as a number that is not there."""
    response = Element("Response")
    SubElement(response, "Reject", {"reason": "busy"} if busy else {})
    return _written(response)


def say(text: str, *, voice: str | None = None, language: str | None = None) -> bytes:
    """Say a sentence, then hang up; an empty one is not said."""
    response = Element("Response")
    if text.strip():
        options = {"voice": voice, "language": language}
        SubElement(response, "Say", {n: v for n, v in options.items() if v is not None}).text = text
    SubElement(response, "Hangup")
    return _written(response)


def dial(destination: str) -> bytes:
    """Connect the caller with a number, or a `sip:` address."""
    response = Element("Response")
    kind = "Sip" if destination.startswith("sip:") else "Number"
    SubElement(SubElement(response, "Dial"), kind).text = destination
    return _written(response)


def _written(response: Element) -> bytes:
    for element in response.iter():
        element.text = _NO_XML.sub("", element.text) if element.text else element.text
        element.attrib = {name: _NO_XML.sub("", value) for name, value in element.attrib.items()}
    return tostring(response, encoding="utf-8", xml_declaration=True)
