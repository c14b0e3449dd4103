"""Bounds what connections may hold on which nobody has signed in: seconds, places, bytes of a message.

A new connection is always taken; where its address has no place left, the oldest one of that address that
has sent no request makes room. Who sends a request at once is answered, however many others wait.

Decision: HTTP is read by h11, also where another parser is installed: only one class has our bounds.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

MAX_FRAME = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Units: seconds for a request's header, connections without sign-in, bytes of a message before it."""

    header_s: float = 10.0
    of_address: int = 64
    in_all: int = 500
    unsigned_frame: int = 1024 * 1024


class Unsigned:
    """The connections of a server on which nobody has signed in; `proxies` stand for many addresses."""

    def __init__(self, limits: ConnectionLimits | None = None, *, forwarded_allow_ips: str = "") -> None:
        self.limits = limits or ConnectionLimits()
        self._proxies: Container[str] = ProxyHeadersMiddleware(_no_app, forwarded_allow_ips).trusted_hosts
        self._all: dict[HttpConnection, str] = {}
        self._of: dict[str, dict[HttpConnection, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: HttpConnection) -> None:
        host = connection.client[0] if connection.client else ""
        place = "" if host in self._proxies else _network(host)
        same = self._of.get(place, {})
        if place and len(same) >= self.limits.of_address:
            self._end_one(same)
        elif len(self._all) >= self.limits.in_all:
            self._end_one(self._all)
        self._all[connection] = place
        self._of.setdefault(place, {})[connection] = None

    def remove(self, connection: HttpConnection) -> None:
        """Count a connection no more: it is closed, or somebody has signed in on it."""
        place = self._all.pop(connection, None)
        if place is not None:
            same = self._of[place]
            del same[connection]
            if not same:
                del self._of[place]

    def _end_one(self, held: dict[HttpConnection, Any]) -> None:
        oldest = next((one for one in held if not one.has_asked), None) or next(iter(held))
        self.remove(oldest)
        oldest.abort()


async def _no_app(*_: Any) -> None:
    raise NotImplementedError


def _network(host: str) -> str:
    """Return the address whose places are counted together: of IPv6 a customer's 64 bits."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "?"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host


class HttpConnection(H11Protocol):
    """An HTTP connection that may become a WebSocket's. A request finds it as `state.connection`."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._unsigned: Unsigned = self.config.app.state.server.unsigned  # pyright: ignore[reportFunctionMemberAccess, reportAttributeAccessIssue, reportUnknownMemberType]
        self.app_state = {**self.app_state, "connection": self}
        self.socket: WebSocketConnection | None = None
        self.has_asked = False
        self._late: asyncio.TimerHandle | None = None

    def signed(self) -> None:
        """Note that somebody has signed in here: they have places and messages of their own."""
        self._unsigned.remove(self)
        if self.socket is not None:
            self.socket.conn.max_message_size = MAX_FRAME

    def abort(self) -> None:
        """Close at once; what was not sent yet is lost."""
        self.transport.abort()

    def ended(self) -> None:
        self._unsigned.remove(self)
        self._stop_clock()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._unsigned.add(self)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_header()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.trailing_data[0]:  # of the next request something has come
            self._watch_header()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_clock()
        super().handle_websocket_upgrade(event)

    def _watch_header(self) -> None:
        """Give a request's header its seconds, from its first byte to its last."""
        if self.socket is None and self.conn.their_state is h11.IDLE:
            self._start_clock()
        else:
            self.has_asked = True
            self._stop_clock()

    def _start_clock(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self._unsigned.limits.header_s, self.abort)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class WebSocketConnection(WebSocketsSansIOProtocol):
    """What an HttpConnection becomes; the place is the same until somebody signs in."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._http: HttpConnection = self.app_state["connection"]
        self._http.socket = self
        self.conn.max_message_size = self._http._unsigned.limits.unsigned_frame  # pyright: ignore[reportPrivateUsage]

    def connection_lost(self, exc: Exception | None) -> None:
        self._http.ended()
        super().connection_lost(exc)
