"""A WebSocket client that costs next to nothing, so that a benchmark measures the
server. RFC 6455.
"""

from __future__ import annotations

import asyncio
import base64
import os
import struct
from collections.abc import Callable
from typing import Any

import orjson

OnMessage = Callable[[dict[str, Any]], None]


class RawClient(asyncio.Protocol):
    """Gives every message that comes to `on_message`, at once. Servers do not mask; masks
    here are zeros.
    """

    def __init__(self, port: int, on_message: OnMessage) -> None:
        self._port = port
        self.on_message = on_message
        self._buffer = bytearray()
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        lines = (
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        transport.write(lines.encode())

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if not self.opened.done():
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            if not buffer.startswith(b"HTTP/1.1 101"):
                self.opened.set_exception(ConnectionError(bytes(buffer[:200])))
                return
            del buffer[: end + 4]
            self.opened.set_result(None)
        start = 0
        while (frame := self._frame(start)) is not None:
            kind, at, start = frame
            if kind == 1:
                self.on_message(orjson.loads(buffer[at:start]))
            elif kind == 9:  # a ping
                self._write(10, bytes(buffer[at:start]))
        del buffer[:start]

    def _frame(self, start: int) -> tuple[int, int, int] | None:
        """Return kind, beginning and end of the frame that starts here, if it is all there."""
        buffer = self._buffer
        if len(buffer) - start < 2:
            return None
        size = buffer[start + 1] & 127
        at = start + 2
        if size == 126:
            if len(buffer) < at + 2:
                return None
            size = struct.unpack_from("!H", buffer, at)[0]
            at = at + 2
        elif size == 127:
            if len(buffer) < at + 8:
                return None
            size = struct.unpack_from("!Q", buffer, at)[0]
            at = at + 8
        return (buffer[start] & 15, at, at + size) if len(buffer) >= at + size else None

    def _write(self, kind: int, payload: bytes) -> None:
        size = len(payload)
        head = (
            bytes((0x80 | kind, 0x80 | size))
            if size < 126
            else struct.pack("!BBH", 0x80 | kind, 254, size)
        )
        self._transport.write(head + b"\0\0\0\0" + payload)

    def send(self, message: dict[str, Any]) -> None:
        self._write(1, orjson.dumps(message))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def close(self) -> None:
        self._transport.close()


async def connected(port: int, on_message: OnMessage) -> RawClient:
    """Connect to the WebSocket of a server on this computer."""
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(lambda: RawClient(port, on_message), "127.0.0.1", port)
    await client.opened
    return client
