"""A double of the Realtime server with faults on demand, of a connection each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosedError
from websockets.http11 import Request, Response

from graphrag.llm.errors import ModelFailed
from graphrag.simulator.double_responses import DoubleResponse
from graphrag.simulator.double_session import DoubleSession, EventRefused, Start
from graphrag.simulator.minds import Item, Mind, Reply
from graphrag.simulator.realtime_double import RealtimeDouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Faults of a connection, none by default. Events are counted from 1, as they are sent.

    `refused_status`: the handshake is answered with it; `refused_code`: an error of this code is
    the only event. `closed_at`, `malformed_at`: the event of this number is a lost connection, or
    no JSON. `errors`: types of the client's events that get an error of a code instead of what they
    ask for; `refusals`: the error objects that the first events of a type get. `response_ends`:
    status and details with which the first responses end before they begin. `text_responses`: so
    many of the first responses are text.
    `unended`: so many of the first responses get no `response.done`.
    `failed_responses`: so many of the first responses fail. `late_audio_s`: so long a response
    waits before its first sound.
    """

    refused_status: int | None = None
    refused_code: str | None = None
    closed_at: int | None = None
    malformed_at: int | None = None
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    refusals: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict[str, Any])
    response_ends: Sequence[tuple[str, Mapping[str, Any]]] = ()
    text_responses: int = 0
    unended: int = 0
    failed_responses: int = 0
    late_audio_s: float = 0.0


class FaultyDouble(RealtimeDouble):
    """`faults`: those of the first connections, in order."""

    def __init__(self, mind: Mind, *, faults: Sequence[Faults] = (), **options: Any) -> None:
        super().__init__(mind, **options)
        self._faults = deque(faults)
        self._of_socket: dict[ServerConnection, Faults] = {}

    async def _check(self, socket: ServerConnection, request: Request) -> Response | None:
        faults = self._faults.popleft() if self._faults else Faults()
        if faults.refused_status is not None:
            return socket.respond(HTTPStatus(faults.refused_status), "refused\n")
        self._of_socket[socket] = faults
        return await super()._check(socket, request)

    def new_session(self, socket: Any, start: Start) -> DoubleSession:
        session = super().new_session(socket, start)
        faults = socket.faults
        return _FaultySession(session.session["model"], self.setup, start, faults)

    async def _serve(self, socket: ServerConnection) -> None:
        await super()._serve(_FaultySocket(socket, self._of_socket.pop(socket)))  # type: ignore[arg-type]


class _FaultySession(DoubleSession):
    def __init__(self, model: str, setup: Any, start: Start, faults: Faults) -> None:
        super().__init__(
            model, replace(setup, mind=_FailingMind(setup.mind, faults.failed_responses)), start
        )
        self._faults = faults
        self._refusals = {kind: deque(errors) for kind, errors in faults.refusals.items()}
        self._ends = deque(faults.response_ends)
        self._texts = faults.text_responses
        self._unended = faults.unended

    def begin(self) -> None:
        if self._faults.refused_code:
            self.refuse(self._faults.refused_code, "The double refuses this connection.")
        else:
            super().begin()

    def take(self, event: dict[str, Any]) -> None:
        if code := self._faults.errors.get(event["type"]):
            raise EventRefused(code, "The double was asked to fail here.")
        if refusals := self._refusals.get(event["type"]):
            self.emit("error", error={**refusals.popleft(), "event_id": event.get("event_id")})
            return
        super().take(event)

    def respond(self, asked: Mapping[str, Any]) -> None:
        if self._ends:
            status, details = self._ends.popleft()
            DoubleResponse(self, asked).fail(status, **details)  # type: ignore[arg-type]
            return
        if self._texts:
            self._texts -= 1
            asked = {**asked, "output_modalities": ["text"]}
        super().respond(asked)

    def emit(self, kind: str, **fields: Any) -> None:
        if kind == "response.done" and self._unended:
            self._unended -= 1
            return
        super().emit(kind, **fields)


class _FailingMind:
    def __init__(self, inner: Mind, fails: int) -> None:
        self._inner = inner
        self._fails = fails

    async def reply(self, instructions: str, items: Sequence[Item], tools: Sequence[Item]) -> Reply:
        reply = await self._inner.reply(instructions, items, tools)
        if self._fails > 0:
            self._fails -= 1
            raise ModelFailed(provider="double", reason="it was asked to fail here")
        return reply


class _FaultySocket:
    """The server's side of a connection, which sends the events with their faults."""

    def __init__(self, socket: ServerConnection, faults: Faults) -> None:
        self._socket = socket
        self.faults = faults
        self._number = 0
        self._is_silent = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    async def send(self, event: bytes, **options: Any) -> None:
        self._number += 1
        if self._number == self.faults.closed_at:
            self._socket.transport.abort()
            raise ConnectionClosedError(None, None)
        if b'"response.created"' in event:
            self._is_silent = True
        elif self._is_silent and b'"response.output_audio.delta"' in event:
            self._is_silent = False
            await asyncio.sleep(self.faults.late_audio_s)
        await self._socket.send(
            b"{" if self._number == self.faults.malformed_at else event, **options
        )
