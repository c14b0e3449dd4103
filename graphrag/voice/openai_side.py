"""Connects to a server of OpenAI's Realtime interface.

Source: OpenAI API reference, "Realtime", connections over WebSocket; close code 3000 and its
reasons as seen in public reports, as "invalid_request_error.invalid_model" with 4000.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
from collections.abc import AsyncIterator
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.http11 import Response

from graphrag.agents.model_refusal import ModelRefusal, refusal_of
from graphrag.voice.model_messages import read_event
from graphrag.voice.model_side import RealtimeRefused, RealtimeUnreachable

MAX_FRAME_BYTES = 16 * 1024 * 1024
MAX_WAITING_FRAMES = 16
"""So many frames are kept for a slow reader; then the server is not read."""
OPEN_S = 5.0
SEND_S = 5.0
CLOSE_S = 2.0
SMALL_CHARS = 4096
"""So long a frame of sound may be; where nothing else waits, such a frame never does."""

_REFUSED_STATUS = frozenset((400, 401, 403, 404))
_REFUSED_CLOSE = frozenset((1008, 3000, 3003, 4000))
_CLOSE_REASON = re.compile(r"(\w{1,100})\.(\w{1,100})")
_PRIVATE_NAMES = (".internal", ".local", ".localhost", ".lan")

_SILENT = logging.Logger(f"{__name__}.frames", level=logging.CRITICAL + 1)
"""The library writes headers and frames to its debug log: the key, and the words of calls.

It belongs to no tree of loggers, so that no configuration of logs can turn it on.
"""


class _DirectConnect(connect):
    """Connects without following redirects, which would hand the key on."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


class OpenAISide:
    """One connection to a Realtime server. The key is in no error, log or repr."""

    def __init__(self, url: str, key: str, model: str, *, open_s: float = OPEN_S) -> None:
        self._url = urlsplit(url)
        self._key = key
        self._model = model
        self._open_s = open_s
        self._socket: ClientConnection | None = None
        self._first: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"OpenAISide({self._place!r}, model={self._model!r})"

    async def open(self) -> None:
        """Connect and wait for the server's first event, at most five seconds.

        Raises: RealtimeRefused, RealtimeUnreachable.
        """
        self._check()
        try:
            async with asyncio.timeout(self._open_s):
                self._socket = await self._connect()
                self._first = read_event(await self._socket.recv())
        except TimeoutError as error:
            await self.close()
            raise self._failed(f"no answer within {self._open_s:g} s") from error
        except InvalidStatus as error:
            status = error.response.status_code
            said = _refusal_in(error.response)
            is_refused = status in _REFUSED_STATUS or said.is_final
            raise self._failed(
                f"the server answers HTTP {status}", said, is_refused=is_refused
            ) from error
        except ConnectionClosed as error:
            code = 0 if error.rcvd is None else error.rcvd.code
            why = f"the server closes with code {code}" if code else "the connection was lost"
            said = _refusal_of_close(error)
            is_refused = code in _REFUSED_CLOSE and not (said and said.is_rate_limit)
            raise self._failed(why, said, is_refused=is_refused) from error
        except (OSError, WebSocketException) as error:
            raise self._failed(type(error).__name__) from error
        if (first := self._first) is not None and first["type"] == "error":
            said = refusal_of(first.get("error"))
            if said.is_final:
                await self.close()
                raise self._failed(f"the server says {said.code}", said, is_refused=True)

    async def send(self, text: str) -> None:
        """Send a frame; a server that takes none for five seconds is
        gone. Raises: RealtimeUnreachable.
        """
        if self._socket is None:
            raise self._failed("not connected")
        try:
            if len(text) < SMALL_CHARS and not self._socket.transport.get_write_buffer_size():
                # it cannot wait, and a time limit costs a tenth of sending it
                await self._socket.send(text)
                return
            async with asyncio.timeout(SEND_S):
                await self._socket.send(text)
        except TimeoutError as error:
            self._socket.transport.abort()
            raise self._failed(f"took nothing for {SEND_S:g} s") from error
        except ConnectionClosed as error:
            raise self._failed("the connection is closed") from error

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yields the events in order, without what is none; ends when the connection is gone.

        Raises: RealtimeRefused where the server closes it for a reason that holds for
        every other one.
        """
        socket = self._socket
        first = self._first
        self._first = None
        if first is not None:
            yield first
        if socket is None:
            return
        try:
            while True:
                event = read_event(await socket.recv())
                if event is not None:
                    yield event
        except ConnectionClosed as error:
            said = _refusal_of_close(error)
            if said is not None and said.is_final:
                raise self._failed(
                    f"the server closes: {said.code}", said, is_refused=True
                ) from error

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def _connect(self) -> ClientConnection:
        query = urlencode([*parse_qsl(self._url.query), ("model", self._model)])
        return await _DirectConnect(
            urlunsplit(self._url._replace(query=query)),
            additional_headers={"Authorization": f"Bearer {self._key}"},
            compression=None,
            max_size=MAX_FRAME_BYTES,
            max_queue=MAX_WAITING_FRAMES,
            open_timeout=self._open_s,
            close_timeout=CLOSE_S,
            logger=_SILENT,
        )

    @property
    def _place(self) -> str:
        return self._url.netloc.rpartition("@")[2]

    def _check(self) -> None:
        """Raises: RealtimeRefused, for an address or a key with which nothing is sent."""
        why = None
        if self._url.scheme not in ("ws", "wss") or not self._url.hostname:
            why = "the address must begin with wss:// (NODIUS_REALTIME_URL)"
        elif self._url.scheme == "ws" and not _is_private(self._url):
            why = (
                "ws:// is for this machine and private hosts only: use wss:// (NODIUS_REALTIME_URL)"
            )
        elif not self._key.isascii() or not self._key.isprintable() or not self._key.strip():
            why = "the key holds nothing, or characters that no key has (NODIUS_REALTIME_API_KEY)"
        if why is not None:
            raise self._failed(why, is_refused=True)

    def _failed(
        self, why: str, said: ModelRefusal | None = None, *, is_refused: bool = False
    ) -> RealtimeRefused | RealtimeUnreachable:
        error = RealtimeRefused if is_refused else RealtimeUnreachable
        if is_refused and (said is None or not said.message):
            known = (
                {} if said is None else {"code": said.code, "param": said.param, "type": said.type}
            )
            said = refusal_of({**known, "message": why}, code="refused")
        return error(place=self._place, model=self._model, why=why, refusal=said)


def _refusal_in(response: Response) -> ModelRefusal:
    """Returns what an answer to the handshake says, its status as the code where its
    body says nothing.
    """
    try:
        body: Any = orjson.loads(response.body or b"")
    except ValueError:
        body = None
    facts = cast(dict[str, Any], body) if isinstance(body, dict) else {}
    said = refusal_of(facts.get("error"), code=f"http_{response.status_code}")
    waits = response.headers.get("Retry-After", "")
    return said.model_copy(update={"wait_s": float(waits)}) if waits.isdecimal() else said


def _refusal_of_close(closed: ConnectionClosed) -> ModelRefusal | None:
    """Returns what a close frame says as TYPE.CODE; None where it says no such thing."""
    found = None if closed.rcvd is None else _CLOSE_REASON.fullmatch(closed.rcvd.reason)
    return None if found is None else refusal_of({"type": found[1], "code": found[2]})


def _is_private(url: SplitResult) -> bool:
    host = (url.hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_NAMES)
    return address.is_loopback or address.is_private
