"""A proxy in front of a PostgreSQL server that loses connections at chosen statements.

Source: "Message Formats" of the PostgreSQL manual.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

Fate = Literal["passed", "lost", "abandoned", "unanswered"]
"""Of a statement: it reaches the server and is answered; the connection is cut before the server
gets it; once the server has got it; when the server has answered it.
"""
_STARTUP = 196608  # version 3.0 of the protocol; other codes ask for TLS, or cancel a statement
_READY = b"Z"


@dataclass(slots=True)
class Statement:
    """A statement that is about to be passed on. `in_write`: its transaction may write."""

    text: str
    in_write: bool


@dataclass(slots=True)
class PostgresProxy:
    """`fate` is asked about every statement of every connection; `answered` is called when the
    server has answered one that is to stay unanswered.
    """

    upstream: int
    port: int = 0
    fate: Callable[[Statement], Fate] = lambda _: "passed"
    answered: Callable[[], None] = lambda: None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def end(self) -> None:
        """Closes all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            to_server = await asyncio.open_connection("127.0.0.1", self.upstream)
            connection = _Connection(self, (reader, writer), to_server)
            try:
                await connection.run()
            finally:
                to_server[1].close()
        writer.close()


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """One client's connection."""

    def __init__(self, proxy: PostgresProxy, client: Ends, server: Ends) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._texts: dict[bytes, str] = {}
        self._bound = ""
        self._in_write = False
        self._is_unanswered = False

    async def run(self) -> None:
        """Passes messages on until one end closes, or a statement's fate ends the connection."""
        await self._start_up()
        passing = [asyncio.create_task(way()) for way in (self._requests, self._answers)]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)

    async def _start_up(self) -> None:
        code = 0
        while code != _STARTUP:
            head = await self._from_client.readexactly(8)
            length, code = struct.unpack(">II", head)
            self._to_server.write(head + await self._from_client.readexactly(length - 8))
            if code != _STARTUP:
                self._to_client.write(await self._from_server.readexactly(1))

    async def _requests(self) -> None:
        while True:
            kind, message = await _message(self._from_client)
            fate = "passed"
            text = self._executed(kind, message[5:])
            if text is not None:
                fate = self._fate(text)
                if fate == "lost":
                    return
                self._is_unanswered |= fate == "unanswered"
            self._to_server.write(message)
            await self._to_server.drain()
            if fate == "abandoned":
                return

    def _executed(self, kind: bytes, body: bytes) -> str | None:
        """Returns the text of a statement if this message executes it."""
        if kind == b"Q":
            return body[:-1].decode()
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._texts[name] = text.decode()
        elif kind == b"B":
            self._bound = self._texts.get(body.split(b"\0", 2)[1], "")
        elif kind == b"E":
            return self._bound
        return None

    def _fate(self, text: str) -> Fate:
        if text.startswith("BEGIN"):
            self._in_write = text.endswith("READ WRITE")
        fate = self._proxy.fate(Statement(text.strip(), self._in_write))
        if text == "COMMIT":
            self._in_write = False
        return fate

    async def _answers(self) -> None:
        while True:
            kind, message = await _message(self._from_server)
            if not self._is_unanswered:
                self._to_client.write(message)
                await self._to_client.drain()
            elif kind == _READY:
                self._proxy.answered()
                return


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Returns the type of the next message, and all of it."""
    head = await reader.readexactly(5)
    kind, length = struct.unpack(">cI", head)
    return kind, head + await reader.readexactly(length - 4)


@asynccontextmanager
async def postgres_proxy(upstream: int) -> AsyncGenerator[PostgresProxy]:
    """Yields a proxy on loopback for the server of that port."""
    proxy = PostgresProxy(upstream)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
