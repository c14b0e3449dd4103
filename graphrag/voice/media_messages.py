"""Reads what the phone side sends: messages of Media Streams, each checked, and how many were none.

Source: Twilio, "Media Streams: WebSocket messages". Numbers come as text.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import orjson

from graphrag.voice.signals import PhoneAudio, PhoneDigit, PhoneMark, PhoneStopped, Signal


class PhoneSide(Protocol):
    """A stream towards a caller, in the protocol of Media Streams; see `media_messages`."""

    def messages(self) -> AsyncIterator[str]:
        """Yield the text frames that come after `start`, until the stream is closed; one that is no
        text comes as "".
        """
        ...

    async def send(self, text: str) -> None:
        """Send a text frame. Raises: anything, once the stream is gone."""
        ...

    async def close(self, code: int = 1000) -> None:
        """Close the stream; never raises."""
        ...


MESSAGE_BYTES: Final = 64 * 1024
MOST_BAD: Final = 100
PROTOCOL_ERROR: Final = 1003
"""Close code for another protocol or format, and for too much that cannot be read."""
REFUSED: Final = 1008
START_S: Final = 10.0
"""So long a stream may take to start."""
_FORMAT: Final = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SOUND: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_DIGIT: Final = re.compile(r"[0-9*#A-D]")


class MessageRefused(Exception):
    """The stream is to be closed with `close_code`."""

    def __init__(self, close_code: int, reason: str) -> None:
        self.close_code = close_code
        self.reason = reason
        super().__init__(f"{reason} (close {close_code})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """The stream begins. `token` is what authorises it."""

    stream_id: str
    call_sid: str | None
    token: str


class MediaMessages:
    """Reads one stream. `bad`: messages that are none of the protocol; `gaps`: numbers
    out of order.
    """

    def __init__(self, *, started: bool = False) -> None:
        self.bad, self.gaps = 0, 0
        self._started = started
        self._sequence: int | None = None

    def read(self, text: str) -> Signal | StreamStart | None:
        """Return what a message means, None where it means nothing. Raises: MessageRefused."""
        message = _parsed(text)
        handler = _HANDLERS.get(str(message.get("event"))) if message is not None else None
        if message is None or handler is None:
            return self._ignored()
        self._count(message.get("sequenceNumber"))
        try:
            return handler(self, message)
        except (KeyError, TypeError, ValueError, AttributeError):
            return self._ignored()

    def _ignored(self) -> None:
        self.bad += 1
        if self.bad > MOST_BAD:
            raise MessageRefused(PROTOCOL_ERROR, "too many messages that cannot be read")

    def _count(self, written: Any) -> None:
        """Count a number that does not follow the one before; the message counts all the same."""
        if isinstance(written, str) and written.isdecimal() and len(written) < 16:
            number = int(written)
            if self._sequence is not None and number != self._sequence + 1:
                self.gaps += 1
            self._sequence = number

    def on_connected(self, message: Mapping[str, Any]) -> None:
        if message.get("protocol") != "Call":
            raise MessageRefused(PROTOCOL_ERROR, "another protocol")

    def on_start(self, message: Mapping[str, Any]) -> StreamStart:
        if self._started:
            raise MessageRefused(REFUSED, "a second start")
        start: Mapping[str, Any] = message["start"]
        if start.get("mediaFormat") != _FORMAT:
            raise MessageRefused(PROTOCOL_ERROR, "another format of sound")
        stream_id = start.get("streamSid", message.get("streamSid"))
        given: Mapping[str, Any] = start.get("customParameters") or {}
        begun = StreamStart(
            stream_id=_matched(_ID, stream_id),
            call_sid=start.get("callSid") and _matched(_ID, start["callSid"]),
            token=str(given.get("token", ""))[:500],
        )
        self._started = True
        return begun

    def on_media(self, message: Mapping[str, Any]) -> PhoneAudio | None:
        media = message["media"]
        if media.get("track", "inbound") != "inbound":
            return None
        payload = media["payload"]
        # It is put between prepared bytes, so it must be what it says.
        return PhoneAudio(payload) if _SOUND.fullmatch(payload) else self._ignored()

    def on_mark(self, message: Mapping[str, Any]) -> PhoneMark:
        return PhoneMark(str(message["mark"]["name"])[:100])

    def on_dtmf(self, message: Mapping[str, Any]) -> PhoneDigit:
        return PhoneDigit(_matched(_DIGIT, message["dtmf"]["digit"]))

    def on_stop(self, message: Mapping[str, Any]) -> PhoneStopped:  # noqa: ARG002 - as the others
        return PhoneStopped()


def _parsed(text: str) -> dict[str, Any] | None:
    if len(text) > MESSAGE_BYTES:
        return None
    try:
        found: Any = orjson.loads(text)
    except ValueError:
        return None
    return cast(dict[str, Any], found) if isinstance(found, dict) else None


def _matched(pattern: re.Pattern[str], value: Any) -> str:
    """Return a text of a form. Raises: ValueError, TypeError."""
    if pattern.fullmatch(value) is None:
        raise ValueError
    return value


_HANDLERS: Mapping[
    str, Callable[[MediaMessages, Mapping[str, Any]], Signal | StreamStart | None]
] = {
    "media": MediaMessages.on_media,
    "mark": MediaMessages.on_mark,
    "dtmf": MediaMessages.on_dtmf,
    "start": MediaMessages.on_start,
    "stop": MediaMessages.on_stop,
    "connected": MediaMessages.on_connected,
}
