"""Bounds the connections of an address, of a person who has signed in, and of
all strangers together.

Before sign-in a connection is counted for its address, and its seconds and bytes are bounded as
well. A new one is always taken: where the address has no place left, the oldest one that has sent
no request makes room. A request or a sign-in moves the connection to the places of the person.
Where these are taken, the person's quietest connection that answers no request and runs no turn is
closed; if there is none, the sign-in is refused.

Decision: HTTP is read by h11, also where another parser is installed: only one class
has our bounds.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import h11
from starlette.requests import HTTPConnection
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from server.errors import TooManyRequests

MAX_FRAME = 4 * 1024 * 1024
FULL_RETRY_S = 5.0  # until a person whose connections all answer requests may try again


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Units: seconds for a request's header, connections without sign-in and of one person, bytes
    of a message before sign-in.
    """

    header_s: float = 10.0
    of_address: int = 64
    in_all: int = 500
    of_person: int = 200
    unsigned_frame: int = 1024 * 1024


class OpenConnections:
    """The connections of a server; `proxies` stand for many addresses."""

    def __init__(
        self, limits: ConnectionLimits | None = None, *, forwarded_allow_ips: str = ""
    ) -> None:
        self.limits = limits or ConnectionLimits()
        self._proxies: Container[str] = ProxyHeadersMiddleware(
            _no_app, forwarded_allow_ips
        ).trusted_hosts
        self._unsigned: dict[HttpConnection, str] = {}
        self._of_address: dict[str, dict[HttpConnection, None]] = {}
        self._person: dict[HttpConnection, str] = {}
        # By person, ordered by last use, the oldest first.
        self._of_person: dict[str, dict[HttpConnection, None]] = {}

    @property
    def unsigned(self) -> int:
        """The number of connections on which nobody has signed in."""
        return len(self._unsigned)

    def add(self, connection: HttpConnection) -> None:
        """Counts a new connection for its address."""
        host = connection.client[0] if connection.client else ""
        place = "" if host in self._proxies else network_of(host)
        same = self._of_address.get(place, {})
        if place and len(same) >= self.limits.of_address:
            self._end_stranger(same)
        elif len(self._unsigned) >= self.limits.in_all:
            self._end_stranger(self._unsigned)
        self._unsigned[connection] = place
        self._of_address.setdefault(place, {})[connection] = None

    def sign(self, connection: HttpConnection, user_id: str) -> None:
        """Counts a connection for a person. Raises: TooManyRequests if none of theirs is idle."""
        if self._person.get(connection) == user_id:
            self.use(connection)
            return
        own = self._of_person.get(user_id, {})
        if len(own) >= self.limits.of_person:
            quietest = next((one for one in own if not one.is_answering), None)
            if quietest is None:
                raise TooManyRequests(retry_after_s=FULL_RETRY_S)
            self.remove(quietest)
            quietest.abort()
        self.remove(connection)
        self._person[connection] = user_id
        self._of_person.setdefault(user_id, {})[connection] = None

    def use(self, connection: HttpConnection) -> None:
        """Records that something came on a connection: others of the same person make
        room before it.
        """
        if (user_id := self._person.get(connection)) is not None:
            own = self._of_person[user_id]
            own[connection] = own.pop(connection)

    def remove(self, connection: HttpConnection) -> None:
        """Counts a connection no more."""
        for place_of, held in ((self._unsigned, self._of_address), (self._person, self._of_person)):
            place = place_of.pop(connection, None)
            if place is not None:
                same = held[place]
                del same[connection]
                if not same:
                    del held[place]

    def remove_unsigned(self, connection: HttpConnection) -> None:
        """Counts a connection for its address no more: it is that of a telephone call."""
        if connection in self._unsigned:
            self.remove(connection)

    def _end_stranger(self, held: dict[HttpConnection, Any]) -> None:
        oldest = next((one for one in held if not one.has_asked), None) or next(iter(held))
        self.remove(oldest)
        oldest.abort()


async def _no_app(*_: Any) -> None:
    raise NotImplementedError


def network_of(host: str) -> str:
    """Returns the address whose places are counted together: of IPv6 a customer's 64 bits."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "?"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host


def connection_of(arrived: HTTPConnection) -> HttpConnection | None:
    """Returns the connection that a request or a WebSocket came on; None without a network,
    as in tests.
    """
    return getattr(arrived.state, "connection", None)


class HttpConnection(H11Protocol):
    """An HTTP connection that may become a WebSocket's. A request finds
    it as `state.connection`.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._open: OpenConnections = self.config.app.state.server.activity.connections  # pyright: ignore[reportFunctionMemberAccess, reportAttributeAccessIssue, reportUnknownMemberType]
        self.app_state = {**self.app_state, "connection": self}
        self.socket: WebSocketConnection | None = None
        self.has_asked = False
        self._turns = 0
        self._late: asyncio.TimerHandle | None = None

    @property
    def is_answering(self) -> bool:
        """True while a request of a signed-in person is answered, or a turn of a conversation runs.

        The client of a WebSocket without a turn connects again and continues.
        """
        return self._turns > 0 if self.socket else not self.cycle.response_complete

    def turn_began(self) -> None:
        """Counts a turn whose events a WebSocket sends; the model may think for
        long without any.
        """
        self._turns += 1

    def turn_ended(self) -> None:
        """Counts a turn no more."""
        self._turns -= 1

    def signed(self, user_id: str | None) -> None:
        """Gives the connection the places and messages of a person, or of a telephone call (None).

        Raises: TooManyRequests.
        """
        if user_id is None:
            self._open.remove_unsigned(self)
        else:
            self._open.sign(self, user_id)
        if self.socket is not None:
            self.socket.conn.max_message_size = MAX_FRAME

    def upgraded(self, socket: WebSocketConnection) -> int:
        """Records the WebSocket; returns the largest message before sign-in, in bytes."""
        self.socket = socket
        return self._open.limits.unsigned_frame

    def abort(self) -> None:
        """Closes at once; data that was not sent yet is lost."""
        self.transport.abort()

    def ended(self) -> None:
        self._open.remove(self)
        self._stop_clock()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._open.add(self)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.used()
        self._watch_header()

    def used(self) -> None:
        self._open.use(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.trailing_data[0]:  # of the next request something has come
            self._watch_header()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_clock()
        super().handle_websocket_upgrade(event)

    def _watch_header(self) -> None:
        """Limits the time of a request's header, from its first byte to its last."""
        if self.socket is None and self.conn.their_state is h11.IDLE:
            self._start_clock()
        else:
            self.has_asked = True
            self._stop_clock()

    def _start_clock(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self._open.limits.header_s, self.abort)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class WebSocketConnection(WebSocketsSansIOProtocol):
    """The WebSocket of an HttpConnection, which keeps its place until the client signs in."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._http: HttpConnection = self.app_state["connection"]
        self.conn.max_message_size = self._http.upgraded(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._http.used()

    async def send(self, message: Any) -> None:
        await super().send(message)
        self._http.used()

    def connection_lost(self, exc: Exception | None) -> None:
        self._http.ended()
        super().connection_lost(exc)
