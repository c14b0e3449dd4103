"""An answer of events ends with its client, whatever the client does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from server import event_stream
from server.event_stream import EventStream, frame

SCOPE: dict[str, Any] = {"type": "http", "method": "POST", "path": "/"}


class Frames:
    """Frames without end; notes when they are closed."""

    def __init__(self, *, silent: bool = False) -> None:
        self.closed, self.silent = False, silent

    async def __call__(self) -> AsyncGenerator[str]:
        try:
            while True:
                yield frame('{"n": 1}')
                if self.silent:
                    await asyncio.Event().wait()
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)  # it stores something
            self.closed = True


async def never() -> Any:
    await asyncio.Event().wait()


async def test_the_frames_of_a_client_that_goes_are_closed() -> None:
    frames, gone, sent = Frames(), asyncio.Event(), list[bytes]()

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        if len(sent) == 3:
            gone.set()

    await EventStream(frames())(SCOPE, receive, send)
    assert frames.closed
    assert sent[1] == b'data: {"n": 1}\n\n'


async def test_the_frames_of_a_client_that_takes_nothing_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "STALLED_S", 0.01)
    frames = Frames()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await never()

    with pytest.raises(ClientDisconnect):
        await EventStream(frames())(SCOPE, never, send)
    assert frames.closed


async def test_a_silent_answer_is_kept_alive_by_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_S", 0.001)
    frames, alive = Frames(silent=True), asyncio.Event()

    async def receive() -> Any:
        await alive.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message.get("body", b"").startswith(b":"):
            alive.set()

    async with asyncio.timeout(20):
        await EventStream(frames())(SCOPE, receive, send)
    assert frames.closed


async def test_the_end_of_the_server_closes_the_frames() -> None:
    frames = Frames(silent=True)
    began = asyncio.Event()

    async def send(message: Any) -> None:
        if message.get("body"):
            began.set()

    answering = asyncio.create_task(EventStream(frames())(SCOPE, never, send))
    await began.wait()
    answering.cancel()
    await asyncio.gather(answering, return_exceptions=True)
    assert frames.closed
