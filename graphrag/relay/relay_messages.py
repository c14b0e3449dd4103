"""Reads and writes the messages of Twilio's ConversationRelay.

Source: Twilio, "ConversationRelay: WebSocket messages"
(https://www.twilio.com/docs/voice/conversationrelay/websocket-messages). The messages `info` are
those of the attribute `events`; that page does not describe them, and unknown ones are ignored. The
service ends a call by closing the connection: there is no message for it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import orjson

from graphrag.bridge import signals
from graphrag.bridge.phone_messages import (
    PROTOCOL_ERROR,
    REFUSED,
    MessageRefused,
    StreamStart,
    matched,
    parsed_message,
)
from graphrag.bridge.signals import Signal

log = logging.getLogger(__name__)

WORDS_CHARS: Final = 4_000  # of one utterance of the caller; the rest is dropped
UTTERANCE_CHARS: Final = 20_000  # of the agent's words until an interruption
REASON_CHARS: Final = 300
NORMAL: Final = (1000, 1001)  # close codes; a lost connection has none, which servers call 1005
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_DIGIT: Final = re.compile(r"[0-9*#A-D]")
_ON: Final = {"on": True, "off": False}
_SPEAKERS: Final = {"agentSpeaking": True, "clientSpeaking": False}


@final
class RelayMessages:
    """Reads one connection. A message that breaks the protocol ends the call.

    `bad`: number of messages that broke it. `gaps`: always 0, as messages have no numbers.
    """

    def __init__(self, *, started: bool = False) -> None:
        self.bad, self.gaps = 0, 0
        self._started = started

    def read(self, text: str) -> Signal | StreamStart | None:
        """Returns the signal of a message, None if it has none. Raises: MessageRefused."""
        message = parsed_message(text)
        if message is None:
            raise self._refused("no JSON object")
        handler = _HANDLERS.get(str(message.get("type")))
        if handler is None:
            raise self._refused("an unknown type")
        try:
            return handler(self, message)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._refused(f"a malformed {message['type']}") from None

    def closed(self, code: int | None) -> signals.PhoneStopped:
        """Returns the end of a call whose connection was closed with this code."""
        return signals.PhoneStopped("caller_hung_up" if code in NORMAL else "line_lost")

    def _refused(self, reason: str) -> MessageRefused:
        self.bad += 1
        return MessageRefused(PROTOCOL_ERROR, reason)

    def on_setup(self, message: Mapping[str, Any]) -> StreamStart:
        if self._started:
            raise MessageRefused(REFUSED, "a second setup")
        parameters: Mapping[str, Any] = message.get("customParameters") or {}
        call_sid = message.get("callSid")
        begun = StreamStart(
            stream_id=matched(_ID, message["sessionId"]),
            call_sid=None if call_sid is None else matched(_ID, call_sid),
            token=str(parameters.get("token", ""))[:500],
        )
        self._started = True
        return begun

    def on_prompt(self, message: Mapping[str, Any]) -> signals.CallerWords:
        words = _text(message["voicePrompt"]).strip()[:WORDS_CHARS]
        return signals.CallerWords(words, is_whole=message.get("last", True) is not False)

    def on_interrupt(self, message: Mapping[str, Any]) -> signals.CallerInterrupted:
        words = _text(message.get("utteranceUntilInterrupt") or "")[:UTTERANCE_CHARS]
        # a number or, as in older examples, a text
        after_ms = int(message.get("durationUntilInterruptMs") or 0)
        return signals.CallerInterrupted(words, max(0, after_ms))

    def on_dtmf(self, message: Mapping[str, Any]) -> signals.PhoneDigit:
        return signals.PhoneDigit(matched(_DIGIT, message["digit"]))

    def on_error(self, message: Mapping[str, Any]) -> None:
        """Logs what the service objects to. It goes on, without the message that was wrong."""
        log.warning("relay_error", extra={"reason": _text(message["description"])[:REASON_CHARS]})

    def on_info(self, message: Mapping[str, Any]) -> Signal | None:
        name, value = message.get("name"), message.get("value")
        if name in _SPEAKERS and value in _ON:
            return signals.SpeechChanged(is_agent=_SPEAKERS[name], speaks=_ON[value])
        if name == "tokensPlayed":
            return signals.WordsPlayed(_text(value)[:UTTERANCE_CHARS])
        return None


def _text(value: Any) -> str:
    """Returns a text. Raises: TypeError."""
    if not isinstance(value, str):
        raise TypeError
    return value


_HANDLERS: Mapping[
    str, Callable[[RelayMessages, Mapping[str, Any]], Signal | StreamStart | None]
] = {
    "setup": RelayMessages.on_setup,
    "prompt": RelayMessages.on_prompt,
    "interrupt": RelayMessages.on_interrupt,
    "dtmf": RelayMessages.on_dtmf,
    "error": RelayMessages.on_error,
    "info": RelayMessages.on_info,
}


def text_message(token: str, *, last: bool = False, interruptible: bool | None = None) -> str:
    """Returns words to be spoken. `last` ends the answer; `interruptible` None: as in the TwiML."""
    message: dict[str, Any] = {"type": "text", "token": token, "last": last}
    if interruptible is not None:
        message["interruptible"] = interruptible
    return orjson.dumps(message).decode()


def end_message() -> str:
    """Returns the message that ends the session; Twilio then asks what comes next."""
    return '{"type":"end"}'
