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
from typing import Any, Final, cast, final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.http11 import Response

from graphrag.agents.model_refusal import ModelRefusal, refusal_of
from graphrag.realtime.model_messages import read_event
from graphrag.realtime.model_side import RealtimeRefused, RealtimeUnreachable

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
MAX_QUEUED_FRAMES: Final = 16  # for a slow reader; then reading from the server pauses
OPEN_S: Final = 5.0
SEND_S: Final = 5.0
CLOSE_S: Final = 2.0
SMALL_CHARS: Final = 4096  # a frame of sound; with an empty buffer it is sent without waiting

_REFUSED_STATUS = frozenset((400, 401, 403, 404))
_REFUSED_CLOSE = frozenset((1008, 3000, 3003, 4000))
_CLOSE_REASON = re.compile(r"(\w{1,100})\.(\w{1,100})")
_PRIVATE_NAMES = (".internal", ".local", ".localhost", ".lan")

# The library logs headers and frames at debug level: the key, and the words of calls. This logger
# has no parent, so that no logging configuration can enable it.
_SILENT = logging.Logger(f"{__name__}.frames", level=logging.CRITICAL + 1)


class _DirectConnect(connect):
    """Connects without following redirects, which would pass on the key."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


@final
class OpenAISide:
    """One connection to a Realtime server. The key never appears in errors, logs or its repr."""

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
        """Connects and waits for the first event of the server, at most `OPEN_S`.

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
            refusal = _refusal_in(error.response)
            is_refused = status in _REFUSED_STATUS or refusal.is_final
            raise self._failed(
                f"the server answers HTTP {status}", refusal, is_refused=is_refused
            ) from error
        except ConnectionClosed as error:
            code = 0 if error.rcvd is None else error.rcvd.code
            why = f"the server closes with code {code}" if code else "the connection was lost"
            refusal = _refusal_of_close(error)
            is_refused = code in _REFUSED_CLOSE and not (refusal and refusal.is_rate_limit)
            raise self._failed(why, refusal, is_refused=is_refused) from error
        except (OSError, WebSocketException) as error:
            raise self._failed(type(error).__name__) from error
        if (first := self._first) is not None and first["type"] == "error":
            refusal = refusal_of(first.get("error"))
            if refusal.is_final:
                await self.close()
                raise self._failed(f"the server says {refusal.code}", refusal, is_refused=True)

    async def send(self, text: str) -> None:
        """Sends a frame, at most for `SEND_S`. Raises: RealtimeUnreachable."""
        if self._socket is None:
            raise self._failed("not connected")
        try:
            if len(text) < SMALL_CHARS and not self._socket.transport.get_write_buffer_size():
                # it cannot block, and a timeout would cost a tenth of the time of sending
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
        """Yields the well-formed events in order until the connection is closed.

        Raises: RealtimeRefused if the server closes it for a permanent reason.
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
            refusal = _refusal_of_close(error)
            if refusal is not None and refusal.is_final:
                raise self._failed(
                    f"the server closes: {refusal.code}", refusal, is_refused=True
                ) from error

    async def close(self) -> None:
        """Closes the connection. Idempotent."""
        if self._socket is not None:
            await self._socket.close()

    async def _connect(self) -> ClientConnection:
        query = urlencode([*parse_qsl(self._url.query), ("model", self._model)])
        return await _DirectConnect(
            urlunsplit(self._url._replace(query=query)),
            additional_headers={"Authorization": f"Bearer {self._key}"},
            compression=None,
            max_size=MAX_FRAME_BYTES,
            max_queue=MAX_QUEUED_FRAMES,
            open_timeout=self._open_s,
            close_timeout=CLOSE_S,
            logger=_SILENT,
        )

    @property
    def _place(self) -> str:
        return self._url.netloc.rpartition("@")[2]

    def _check(self) -> None:
        """Raises RealtimeRefused for an address or key that must not be used."""
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
        self, why: str, refusal: ModelRefusal | None = None, *, is_refused: bool = False
    ) -> RealtimeRefused | RealtimeUnreachable:
        error = RealtimeRefused if is_refused else RealtimeUnreachable
        if is_refused and (refusal is None or not refusal.message):
            facts = (
                {}
                if refusal is None
                else {"code": refusal.code, "param": refusal.param, "type": refusal.type}
            )
            refusal = refusal_of({**facts, "message": why}, code="refused")
        return error(place=self._place, model=self._model, why=why, refusal=refusal)


def _refusal_in(response: Response) -> ModelRefusal:
    """Returns the refusal in an answer to the handshake. Its default code is the HTTP status."""
    try:
        body: Any = orjson.loads(response.body or b"")
    except ValueError:
        body = None
    facts = cast(dict[str, Any], body) if isinstance(body, dict) else {}
    refusal = refusal_of(facts.get("error"), code=f"http_{response.status_code}")
    waits = response.headers.get("Retry-After", "")
    return refusal.model_copy(update={"wait_s": float(waits)}) if waits.isdecimal() else refusal


def _refusal_of_close(closed: ConnectionClosed) -> ModelRefusal | None:
    """Returns the refusal in a close reason of the form TYPE.CODE, None for other reasons."""
    match = None if closed.rcvd is None else _CLOSE_REASON.fullmatch(closed.rcvd.reason)
    return None if match is None else refusal_of({"type": match[1], "code": match[2]})


def _is_private(url: SplitResult) -> bool:
    host = (url.hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_NAMES)
    return address.is_loopback or address.is_private
