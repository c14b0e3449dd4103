"""A double of OpenAI's Realtime server: a real WebSocket server on loopback, for tests and demos.

It does not recognize words: each segment of speech takes the next line passed to `hear`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from graphrag.simulator.double_session import (
    LIFETIME_S,
    MAX_WAITING,
    DoubleSession,
    DoubleSetup,
    Start,
)
from graphrag.simulator.minds import Mind
from graphrag.simulator.speech import speech

HOST = "127.0.0.1"
KEPT_SESSIONS = 200
MAX_FRAME_BYTES = 16 * 1024 * 1024

# the library logs the words of callers at debug level
_QUIET = logging.getLogger(f"{__name__}.frames")
_QUIET.setLevel(logging.ERROR)


class RealtimeDouble:
    """The server. `sessions`: the last 200 sessions. `key`: the accepted key, None for any key."""

    def __init__(
        self,
        mind: Mind,
        *,
        voice: Callable[[str, str], Awaitable[bytes]] | None = None,
        rate: float | None = None,
        key: str | None = None,
    ) -> None:
        self._key = key
        self._port = 0
        self._lines = deque[str]()
        self.setup = DoubleSetup(
            mind=mind,
            voice=voice or speech().say,
            hear=lambda: self._lines.popleft() if self._lines else "",
            rate=rate,
        )
        self._server: Server | None = None
        self.sessions = deque[DoubleSession](maxlen=KEPT_SESSIONS)

    @property
    def url(self) -> str:
        """The address for `NODIUS_REALTIME_URL`."""
        return f"ws://{HOST}:{self._port}/v1/realtime"

    def hear(self, lines: Iterable[str]) -> None:
        """Sets the words of the next segments of speech. A segment without a line is inaudible."""
        self._lines.extend(lines)

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve,
            HOST,
            0,
            process_request=self._check,
            compression=None,
            max_size=MAX_FRAME_BYTES,
            close_timeout=1,
            ping_interval=None,
            logger=_QUIET,
        )
        self._port = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _check(self, socket: ServerConnection, request: Request) -> Response | None:
        """Refuses handshakes as the server does: without a valid key, or with beta headers."""
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or self._key not in (None, key):
            return socket.respond(HTTPStatus.UNAUTHORIZED, "invalid_api_key\n")
        if "OpenAI-Beta" in request.headers:
            return socket.respond(HTTPStatus.BAD_REQUEST, "beta_api_shape_disabled\n")
        return None

    def new_session(self, socket: ServerConnection, start: Start) -> DoubleSession:
        """Returns a new session for a connection."""
        query = parse_qs(urlsplit(socket.request.path).query) if socket.request is not None else {}
        return DoubleSession(query.get("model", [""])[0], self.setup, start)

    async def _serve(self, socket: ServerConnection) -> None:
        async with asyncio.TaskGroup() as tasks:
            running: list[asyncio.Task[None]] = []

            def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
                running[:] = [task for task in running if not task.done()] + [
                    tasks.create_task(work)
                ]
                return running[-1]

            session = self.new_session(socket, start)
            self.sessions.append(session)
            session.begin()
            start(_write(socket, session))
            end = asyncio.get_running_loop().call_later(LIFETIME_S, session.expire)
            try:
                while True:
                    session.receive(await socket.recv())
                    await session.has_room.wait()
            except ConnectionClosed:
                for task in running:
                    task.cancel()
            finally:
                end.cancel()


async def _write(socket: ServerConnection, session: DoubleSession) -> None:
    """Sends the events of a session until the connection is closed."""
    try:
        while True:
            await socket.send(await session.out.get(), text=True)
            if session.out.qsize() < MAX_WAITING // 2:
                session.has_room.set()
            if session.refusal is not None and not session.out.qsize():
                await socket.close(3000, f"invalid_request_error.{session.refusal}")
    except ConnectionClosed:
        return
    finally:
        session.has_room.set()
