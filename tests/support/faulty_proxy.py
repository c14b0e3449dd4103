"""A proxy in front of an HTTP server that spoils the answers to writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

When = Literal["before", "after"]
"""Whether the server gets the write."""
What = Literal["closed", "hangs", "500", "413", "html", "half"]
HTML = b"<!doctype html><title>Bad gateway</title>"


@dataclass
class FaultyProxy:
    """`fault`: what becomes of the next write, once; None: it is passed on. `before` is called
    before a write is passed on, as if somebody else wrote at that moment.
    """

    upstream: str
    port: int = 0
    fault: tuple[When, What] | None = None
    before: Callable[[], object] | None = None
    writes: list[str] = field(default_factory=list[str])
    """The request lines of the writes that reached the server."""
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _answering: list[asyncio.Task[None] | None] = field(
        default_factory=list[asyncio.Task[None] | None]
    )

    async def end(self) -> None:
        """Closes all connections."""
        self._ending.set()
        await asyncio.gather(*filter(None, self._answering))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._answering.append(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            request = await _message(reader)
            line = request.split(b"\r\n", 1)[0].decode()
            is_write = line.startswith(("PUT ", "POST /flows", "POST /api/v1/workflows "))
            fault = self.fault if is_write else None
            if is_write:
                self.fault = None
            answer = b""
            if fault is None or fault[0] == "after":
                if is_write:
                    self.writes.append(line)
                    if self.before is not None:
                        self.before()
                answer = await self._passed_on(request)
            await self._write(writer, answer, fault)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _write(
        self, writer: asyncio.StreamWriter, answer: bytes, fault: tuple[When, What] | None
    ) -> None:
        if fault is None:
            writer.write(answer)
        elif fault[1] == "hangs":
            await self._ending.wait()
        elif fault[1] == "half":
            half = b'{"rev":"0123'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + half)
        elif fault[1] != "closed":
            status, body = (fault[1], b'{"message":"no"}') if fault[1] != "html" else ("200", HTML)
            head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
        await writer.drain()

    async def _passed_on(self, request: bytes) -> bytes:
        parts = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        head, _, body = request.partition(b"\r\n\r\n")
        lines = [one for one in head.split(b"\r\n") if not one.lower().startswith(b"connection:")]
        writer.write(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return head + await reader.readexactly(length)


@asynccontextmanager
async def faulty_proxy(upstream: str) -> AsyncGenerator[FaultyProxy]:
    """Yields a proxy on loopback."""
    proxy = FaultyProxy(upstream)
    server = await asyncio.start_server(proxy.answer, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
