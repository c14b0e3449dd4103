"""A service made by hand for the phone simulator: takes a stream and does what a test says."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from graphrag.simulator.twilio_line import StreamPlace


class StreamServer:
    """What came over one stream, and the means to answer it."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.started = asyncio.Event()
        self.over = asyncio.Event()
        self.url = ""
        self._connection: ServerConnection | None = None

    async def take(self, connection: ServerConnection) -> None:
        self._connection, self.headers = connection, dict(connection.request.headers.raw_items())
        with suppress(ConnectionClosed):
            async for text in connection:
                message = json.loads(text)
                self.received.append({**message, "came": asyncio.get_running_loop().time()})
                if message["event"] == "start":
                    self.started.set()
        self.over.set()

    def of(self, event: str) -> list[dict[str, Any]]:
        return [message for message in self.received if message["event"] == event]

    @property
    def sound(self) -> bytes:
        return b"".join(
            base64.b64decode(message["media"]["payload"]) for message in self.of("media")
        )

    async def send(self, event: str, **fields: Any) -> None:
        stream = self.of("start")[0]["streamSid"]
        await self._connection.send(json.dumps({"event": event, "streamSid": stream, **fields}))

    async def play(self, sound: bytes, mark: str) -> None:
        await self.send("media", media={"payload": base64.b64encode(sound).decode()})
        await self.send("mark", mark={"name": mark})

    async def close(self) -> None:
        await self._connection.close()

    def place(self) -> StreamPlace:
        return StreamPlace(url=self.url, token="T", call_sid="CA1", signing_key="key")


@asynccontextmanager
async def stream_server() -> AsyncIterator[StreamServer]:
    made = StreamServer()
    server: Server
    async with serve(made.take, "127.0.0.1", 0, compression=None) as server:
        made.url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/voice/stream"
        yield made
