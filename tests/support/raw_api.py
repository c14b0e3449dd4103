"""A server on loopback that answers with the bytes it is given and remembers the bytes it got."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tools.http.addresses import AddressRules

Behaviour = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(
    value: Any = None, status: int = 200, content_type: str = "application/json", **headers: str
) -> bytes:
    """One answer; `value` as JSON, bytes as they are."""
    body = (
        value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
    )
    lines = [
        f"HTTP/1.1 {status} X",
        f"Content-Length: {len(body)}",
        f"Content-Type: {content_type}",
    ]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Got:
    """One request as it came."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode().split("\r\n")
        self.method, self.target, _ = first.split(" ")
        pairs = [line.split(": ", 1) for line in lines if line]
        self.headers = {name.lower(): value for name, value in pairs}
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawApi:
    """Answers requests in order with its `answers`, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[Behaviour] = [answer({})]
        self.got: list[Got] = []
        self.connections = 0
        self.bytes = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def rules(self, **more: Any) -> AddressRules:
        return AddressRules(allow=(f"127.0.0.1:{self.port}",), **more)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.bytes += len(head)
                got = Got(head[:-4], b"")
                got.body = await reader.readexactly(int(got.headers.get("content-length", 0)))
                self.got.append(got)
                behaviour = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if isinstance(behaviour, bytes):
                    writer.write(behaviour)
                    await writer.drain()
                else:
                    await behaviour(writer)
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def raw_api(host: str = "127.0.0.1", ssl: Any = None) -> AsyncGenerator[RawApi]:
    api = RawApi()
    server = await asyncio.start_server(api.serve, host, 0, ssl=ssl)
    api.port = server.sockets[0].getsockname()[1]
    try:
        yield api
    finally:
        server.close()
        for writer in api.writers:
            writer.close()
        await asyncio.sleep(0.01)  # their tasks end
