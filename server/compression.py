"""Middleware that compresses JSON for who can read it so; large pieces of it in a worker's thread."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST = 1_400
"""An answer that fits in one packet is sent as it is. Units: bytes."""
AT_ONCE = 32_768
"""So much is compressed in the event loop, in less than a millisecond."""
LEVEL = 3
GZIP = 16 + zlib.MAX_WBITS


class Compressed:
    """Middleware. Events and files that are compressed already pass as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        takes = scope["type"] == "http" and "gzip" in Headers(scope=scope).get("accept-encoding", "")
        answer = _Answer(send).take if takes and scope["method"] != "HEAD" else send
        await self._app(scope, receive, answer)


class _Answer:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._packer: Any = None

    async def take(self, message: Message) -> None:
        """Send a part of the answer; its beginning waits for the first piece, which says how long it is."""
        if message["type"] == "http.response.start" and _is_json(Headers(raw=message["headers"])):
            self._start = message
            return
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        if self._start is not None:
            await self._begin(self._start, message)
        if self._packer is not None:
            message = {**message, "body": await self._packed(message)}
        if message.get("body") or not message.get("more_body"):
            await self._send(message)

    async def _begin(self, start: Message, first: Message) -> None:
        self._start = None
        if len(first.get("body", b"")) >= LEAST:
            self._packer = zlib.compressobj(LEVEL, wbits=GZIP)
            headers = MutableHeaders(raw=start["headers"])
            headers["Content-Encoding"] = "gzip"
            headers.add_vary_header("Accept-Encoding")
            del headers["Content-Length"]
        await self._send(start)

    async def _packed(self, message: Message) -> bytes:
        body, pack = message.get("body", b""), self._packer.compress
        made: bytes = pack(body) if len(body) <= AT_ONCE else await asyncio.to_thread(pack, body)
        return made if message.get("more_body") else made + self._packer.flush()


def _is_json(headers: Headers) -> bool:
    return (
        headers.get("content-type", "").startswith("application/json") and "content-encoding" not in headers
    )
