"""Reads and writes the messages of the phone side: Twilio Media Streams.

Source: Twilio, "Media Streams: WebSocket messages". Numbers are sent as text.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast, final

import orjson

from graphrag.bridge.signals import PhoneAudio, PhoneDigit, PhoneMark, PhoneStopped, Signal


class PhoneSide(Protocol):
    """A stream to a caller. `closed_with`: the code with which the other side closed it."""

    @property
    def closed_with(self) -> int | None: ...

    def messages(self) -> AsyncIterator[str]:
        """Yields the text frames after `start` until the stream is closed, binary frames as ""."""
        ...

    async def send(self, text: str) -> None:
        """Sends a text frame. May raise any exception once the stream is gone."""
        ...

    async def close(self, code: int = 1000) -> None:
        """Closes the stream. Never raises."""
        ...


MESSAGE_BYTES: Final = 64 * 1024
MAX_INVALID: Final = 100  # messages of one stream, then it is closed
PROTOCOL_ERROR: Final = 1003  # close code: another protocol or format, too many invalid messages
REFUSED: Final = 1008  # close code
START_S: Final = 10.0  # until the `start` message of a new stream
_FORMAT: Final = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SOUND: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_DIGIT: Final = re.compile(r"[0-9*#A-D]")


class MessageRefused(Exception):
    """Raised when the stream is to be closed with `close_code`."""

    def __init__(self, close_code: int, reason: str) -> None:
        self.close_code = close_code
        self.reason = reason
        super().__init__(f"{reason} (close {close_code})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """The beginning of a stream. `token` authorises it."""

    stream_id: str
    call_sid: str | None
    token: str


@final
class PhoneMessages:
    """Reads one stream. `bad`: number of invalid messages; `gaps`: number of sequence errors."""

    def __init__(self, *, started: bool = False) -> None:
        self.bad, self.gaps = 0, 0
        self._started = started
        self._sequence: int | None = None

    def read(self, text: str) -> Signal | StreamStart | None:
        """Returns the signal of a message, None if it has none. Raises: MessageRefused."""
        message = parsed_message(text)
        handler = _HANDLERS.get(str(message.get("event"))) if message is not None else None
        if message is None or handler is None:
            return self._ignored()
        self._count(message.get("sequenceNumber"))
        try:
            return handler(self, message)
        except (KeyError, TypeError, ValueError, AttributeError):
            return self._ignored()

    def closed(self, code: int | None) -> PhoneStopped:  # noqa: ARG002 - of another protocol
        """Returns the end of a call whose stream was closed without a `stop`."""
        return PhoneStopped("line_lost")

    def _ignored(self) -> None:
        self.bad += 1
        if self.bad > MAX_INVALID:
            raise MessageRefused(PROTOCOL_ERROR, "too many messages that cannot be read")

    def _count(self, written: Any) -> None:
        """Counts a sequence number that does not follow the last one. The message is still read."""
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
        parameters: Mapping[str, Any] = start.get("customParameters") or {}
        begun = StreamStart(
            stream_id=matched(_ID, stream_id),
            call_sid=start.get("callSid") and matched(_ID, start["callSid"]),
            token=str(parameters.get("token", ""))[:500],
        )
        self._started = True
        return begun

    def on_media(self, message: Mapping[str, Any]) -> PhoneAudio | None:
        media = message["media"]
        if media.get("track", "inbound") != "inbound":
            return None
        payload = media["payload"]
        # It is inserted into a prepared JSON text, so it must be base64.
        return PhoneAudio(payload) if _SOUND.fullmatch(payload) else self._ignored()

    def on_mark(self, message: Mapping[str, Any]) -> PhoneMark:
        return PhoneMark(str(message["mark"]["name"])[:100])

    def on_dtmf(self, message: Mapping[str, Any]) -> PhoneDigit:
        return PhoneDigit(matched(_DIGIT, message["dtmf"]["digit"]))

    def on_stop(self, message: Mapping[str, Any]) -> PhoneStopped:  # noqa: ARG002 - signature of the handlers
        return PhoneStopped()


def parsed_message(text: str) -> dict[str, Any] | None:
    """Returns a message of at most `MESSAGE_BYTES`, None if it is no JSON object."""
    if len(text) > MESSAGE_BYTES:
        return None
    try:
        message: Any = orjson.loads(text)
    except ValueError:
        return None
    return cast(dict[str, Any], message) if isinstance(message, dict) else None


def matched(pattern: re.Pattern[str], value: Any) -> str:
    """Returns a text that matches a pattern. Raises: ValueError, TypeError."""
    if pattern.fullmatch(value) is None:
        raise ValueError
    return value


_HANDLERS: Mapping[
    str, Callable[[PhoneMessages, Mapping[str, Any]], Signal | StreamStart | None]
] = {
    "media": PhoneMessages.on_media,
    "mark": PhoneMessages.on_mark,
    "dtmf": PhoneMessages.on_dtmf,
    "start": PhoneMessages.on_start,
    "stop": PhoneMessages.on_stop,
    "connected": PhoneMessages.on_connected,
}


def media_frame(stream_id: str, payload: str) -> str:
    """Returns a message with sound for the phone, `payload` in base64."""
    return f'{{"event":"media","streamSid":"{stream_id}","media":{{"payload":"{payload}"}}}}'


def mark_frame(stream_id: str, name: str) -> str:
    """Returns a mark, which the phone sends back once the sound before it was played."""
    return f'{{"event":"mark","streamSid":"{stream_id}","mark":{{"name":"{name}"}}}}'


def clear_frame(stream_id: str) -> str:
    """Returns the message that discards the sound not yet played."""
    return f'{{"event":"clear","streamSid":"{stream_id}"}}'
