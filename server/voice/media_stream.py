"""The phone side of a call over a WebSocket: Twilio's Media Streams, which the page's Talk sends
as well, or its ConversationRelay.

A stream is accepted by the signature of its handshake, or from a page of this service, and by the
token of its call. Frames are passed on as text, and their content is never logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from graphrag.agents.voice_fields import VoiceEngine
from graphrag.bridge.phone_messages import (
    REFUSED,
    START_S,
    MessageRefused,
    PhoneMessages,
    StreamStart,
)
from graphrag.relay.relay_messages import RelayMessages
from graphrag.voice.call_records import Call
from graphrag.voice.call_service import CallService
from graphrag.voice.errors import CallError, CallsFull, StreamRefused
from graphrag.voice.stream_tokens import read_token
from server.auth import authority, mark_signed
from server.errors import ServerError
from server.server_state import ServerState
from server.voice.twilio_signature import TwilioSignature
from server.voice.webhook import RELAY_PATH, STREAM_PATH

log = logging.getLogger(__name__)

router = APIRouter()

CLOSING_S: Final = 5.0  # for closing a phone side that does not read
_GONE = (WebSocketDisconnect, RuntimeError)  # raised by the framework for a closed connection


class PhoneGone(Exception):
    """The phone side disconnected before it named its call."""


_CODES: dict[type[BaseException], str] = {
    TimeoutError: "no_start",
    PhoneGone: "no_start",
    MessageRefused: "stream",
    StreamRefused: "token",
    CallsFull: "capacity",
}


class MediaStream:
    """A WebSocket as the phone side of a call. `closed_with`: code of the other side's close."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._is_closed = False
        self.closed_with: int | None = None

    async def messages(self) -> AsyncGenerator[str]:
        """Yields the text frames until the stream ends; for a binary frame "", which is
        no message.
        """
        while not self._is_closed:
            try:
                frame = await self._socket.receive()
            except _GONE:
                return
            if frame["type"] == "websocket.disconnect":
                self._is_closed = True
                self.closed_with = frame.get("code")
                return
            yield frame.get("text") or ""

    async def send(self, text: str) -> None:
        """Sends a frame; waits while the phone side does not read. Raises: after it
        disconnected.
        """
        await self._socket.send_text(text)

    async def close(self, code: int = 1000) -> None:
        """Closes the stream, once."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(*_GONE):
                await self._socket.close(code)


@router.websocket(STREAM_PATH)
async def stream(socket: WebSocket) -> None:
    """Serves the audio of one call."""
    await _stream(socket, "realtime")


@router.websocket(RELAY_PATH)
async def relay(socket: WebSocket) -> None:
    """Serves the words of one call that the telephone service recognises and speaks."""
    await _stream(socket, "text")


async def _stream(socket: WebSocket, engine: VoiceEngine) -> None:
    state: ServerState = socket.app.state.server
    is_signed = _let_in(state, socket)
    if is_signed is None:
        state.monitoring.metrics.counted("voice_errors", code="signature")
        await socket.close(REFUSED)  # before it is accepted: the client sees HTTP 403
        return
    await socket.accept()
    phone = MediaStream(socket)
    try:
        await _serve(state, phone, socket, engine, is_signed=is_signed)
    except Exception as exc:  # the database may be away
        state.monitoring.metrics.counted("voice_errors", code="broken")
        log.exception("stream_failed", extra={"error": type(exc).__name__})
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await phone.close()


def _let_in(state: ServerState, socket: WebSocket) -> bool | None:
    """Returns whether a handshake is signed, None if it is neither of Twilio nor of a page of this
    service.
    """
    signature = TwilioSignature.of(state.settings)
    try:
        signature.check(socket)
    except ServerError:
        ours = (socket.headers.get("host", "").lower(), authority(state.settings.public_url or ""))
        origin = authority(socket.headers.get("origin", ""))
        return False if signature.is_configured and origin and origin in ours else None
    return True


async def _serve(
    state: ServerState,
    phone: MediaStream,
    socket: WebSocket,
    engine: VoiceEngine,
    *,
    is_signed: bool,
) -> None:
    try:
        async with asyncio.timeout(START_S):
            start = await _start(phone, engine)
            calls, call = await _taken(state, start, engine, is_signed=is_signed)
    except (TimeoutError, PhoneGone, MessageRefused, CallError) as exc:
        state.monitoring.metrics.counted("voice_errors", code=_CODES.get(type(exc), "other"))
        log.info("stream_refused", extra={"error": type(exc).__name__})
        await phone.close(exc.close_code if isinstance(exc, MessageRefused) else REFUSED)
        return
    mark_signed(socket, None)
    try:
        await calls.serve(call, phone, start)
    except Exception as exc:  # the database may be away, or another server has ended the call
        facts = {"agent_id": call.agent_id, "call_id": call.call_id}
        state.monitoring.metrics.counted("voice_errors", code="broken", agent_id=call.agent_id)
        log.exception("stream_failed", extra=facts | {"error": type(exc).__name__})


async def _start(phone: MediaStream, engine: VoiceEngine) -> StreamStart:
    """Returns the message that names the call of a stream. Raises: MessageRefused, PhoneGone."""
    reader = PhoneMessages() if engine == "realtime" else RelayMessages()
    async with aclosing(phone.messages()) as messages:
        async for text in messages:
            start = reader.read(text)
            if isinstance(start, StreamStart):
                return start
    raise PhoneGone


async def _taken(
    state: ServerState, start: StreamStart, engine: VoiceEngine, *, is_signed: bool
) -> tuple[CallService, Call]:
    """Returns the call of the token of a stream, which cannot be used again. Raises:
    StreamRefused.
    """
    workspace, _ = read_token(start.token)
    calls = await state.backend.workspaces.calls(workspace)
    if calls is None:
        raise StreamRefused
    call = await calls.take(start.token, start.call_sid, engine)
    if call.channel == "phone" and not is_signed:  # no page has it, and Twilio signs
        raise StreamRefused
    return calls, call
