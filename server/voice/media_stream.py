"""The phone side of a call: Twilio's Media Streams over a WebSocket, which the page's Talk sends as well.

A stream is let in by its handshake's signature, or from a page of our own, and by the token of its call.
Frames pass as the text that came, and nothing of them is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from graphrag.voice.call_errors import CallError, CallsFull, StreamRefused
from graphrag.voice.call_records import Call
from graphrag.voice.call_tokens import read_token
from graphrag.voice.calls import Calls
from graphrag.voice.media_messages import REFUSED, START_S, MediaMessages, MessageRefused, StreamStart
from server.auth import mark_signed
from server.errors import ServerError
from server.server_state import ServerState
from server.voice.twilio_signature import TwilioSignature
from server.voice.webhook import STREAM_PATH

log = logging.getLogger(__name__)

router = APIRouter()

MAX_WAITING: Final = 4_000_000
"""Characters that may wait to be sent: about five minutes of sound."""
CLEAR: Final = '{"event":"clear"'
_GONE = (WebSocketDisconnect, RuntimeError)
"""The framework's words for a closed connection."""


class PhoneGone(Exception):
    """The phone side is closed, or does not take what is sent."""


_CODES: dict[type[BaseException], str] = {
    TimeoutError: "no_start",
    PhoneGone: "no_start",
    MessageRefused: "stream",
    StreamRefused: "token",
    CallsFull: "capacity",
}


class MediaStream:
    """A WebSocket as the phone side of a call; `run` sends what `send` was given, in its order."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._waiting: deque[str] = deque()
        self._chars = 0
        self._more = asyncio.Event()
        self._closing: int | None = None
        self._is_gone = False

    async def messages(self) -> AsyncGenerator[str]:
        """Yield the text frames that come until the stream ends; of a binary one "", which is no message."""
        while True:
            try:
                frame = await self._socket.receive()
            except _GONE:
                return
            if frame["type"] == "websocket.disconnect":
                self._is_gone = True
                self._more.set()
                return
            yield frame.get("text") or ""

    async def send(self, text: str) -> None:
        """Send a frame after those that wait; a `clear` takes their place. Raises: PhoneGone."""
        if text.startswith(CLEAR):  # what waits is older than the interruption
            self._waiting.clear()
            self._chars = 0
        if self._is_gone or self._closing is not None or self._chars > MAX_WAITING:
            raise PhoneGone
        self._waiting.append(text)
        self._chars += len(text)
        self._more.set()

    async def close(self, code: int = 1000) -> None:
        """Close the stream once what waits was sent."""
        if self._closing is None:
            self._closing = code
            self._more.set()

    async def run(self) -> None:
        """Send until the stream is closed from here or there."""
        try:
            while not self._is_gone:
                while self._waiting:
                    text = self._waiting.popleft()
                    self._chars -= len(text)
                    await self._socket.send_text(text)
                if self._closing is not None:
                    await self._socket.close(self._closing)
                    break
                self._more.clear()
                await self._more.wait()
        except _GONE:
            pass
        finally:
            self._is_gone = True


@router.websocket(STREAM_PATH)
async def stream(socket: WebSocket) -> None:
    """Serve the sound of one call."""
    state: ServerState = socket.app.state.server
    is_signed = _let_in(state, socket)
    if is_signed is None:
        state.metrics.counted("voice_errors", code="signature")
        await socket.close(REFUSED)  # before it is accepted: the client sees HTTP 403
        return
    await socket.accept()
    phone = MediaStream(socket)
    sending = asyncio.create_task(phone.run())
    try:
        await _serve(state, phone, socket, is_signed=is_signed)
    finally:
        await phone.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await asyncio.shield(sending)
        sending.cancel()


def _let_in(state: ServerState, socket: WebSocket) -> bool | None:
    """Return whether a handshake is signed; None where it is of neither Twilio nor a page of ours."""
    signature = TwilioSignature.of(state.settings)
    try:
        signature.check(socket)
    except ServerError:
        if not signature.is_configured or not _is_own_page(state, socket):
            return None
        return False
    return True


def _is_own_page(state: ServerState, socket: WebSocket) -> bool:
    """Return whether a page that this server serves opens a stream."""
    origin = urlsplit(socket.headers.get("origin", "")).netloc.lower()
    public = urlsplit(state.settings.public_url or "").netloc.lower()
    return bool(origin) and origin in (socket.headers.get("host", "").lower(), public)


async def _serve(state: ServerState, phone: MediaStream, socket: WebSocket, *, is_signed: bool) -> None:
    try:
        async with asyncio.timeout(START_S):
            start = await _start(phone)
            calls, call = await _taken(state, start, is_signed=is_signed)
    except (TimeoutError, PhoneGone, MessageRefused, CallError) as exc:
        state.metrics.counted("voice_errors", code=_CODES.get(type(exc), "other"))
        log.info("stream_refused", extra={"error": type(exc).__name__})
        await phone.close(exc.close_code if isinstance(exc, MessageRefused) else REFUSED)
        return
    mark_signed(socket)
    await calls.serve(call, phone, start)


async def _start(phone: MediaStream) -> StreamStart:
    """Return the message that says of which call a stream is. Raises: MessageRefused, PhoneGone."""
    reader = MediaMessages()
    async with aclosing(phone.messages()) as messages:
        async for text in messages:
            found = reader.read(text)
            if isinstance(found, StreamStart):
                return found
    raise PhoneGone


async def _taken(state: ServerState, start: StreamStart, *, is_signed: bool) -> tuple[Calls, Call]:
    """Return the call whose token a stream has, which nobody can use again. Raises: StreamRefused."""
    calls = await state.calls(read_token(start.token).workspace)
    if calls is None:
        raise StreamRefused
    call = await calls.take(start.token, start.call_sid)
    if call.channel == "phone" and not is_signed:  # no page has it, and Twilio signs
        raise StreamRefused
    return calls, call
