"""A server that is to stop lets people on the telephone finish, and takes no call any more."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from graphrag.agent.thread_agent import EndReason
from graphrag.voice import call_places
from server import run
from server.app import create_app
from server.run import run_server
from server.server_state import ServerState
from tests.support.service import settings_of


class EndingCall:
    """A call that ends a moment after it is asked to."""

    def __init__(self) -> None:
        self.asked: list[EndReason] = []
        self.over = asyncio.Event()

    def end_soon(self, reason: EndReason) -> None:
        self.asked.append(reason)
        self.over.set()

    async def hold(self, state: ServerState, name: str) -> None:
        state.places.reserve(name, 60)
        with state.places.serving(name, self):
            await self.over.wait()
            await asyncio.sleep(0.05)


@asynccontextmanager
async def stopping(drain_s: float) -> AsyncIterator[tuple[ServerState, asyncio.Task[None], str]]:
    """Run a server as `nodius serve` does; yields its state, its run and its address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        app = create_app(settings_of(voice_drain_s=drain_s))
        ready = asyncio.Event()
        running = asyncio.create_task(run_server(app, listening, ready.set, grace_s=1))
        await ready.wait()
        try:
            yield app.state.server, running, f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            await asyncio.wait([running], timeout=20)
            assert running.done()


async def test_calls_go_on_and_the_rest_is_answered_until_they_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_places, "LAST_WORDS_S", 0.3)
    monkeypatch.setattr(run, "AFTER_S", 0.3)
    async with stopping(drain_s=0.8) as (state, running, address):
        calls = [EndingCall(), EndingCall()]
        held = [asyncio.create_task(call.hold(state, f"call-{n}")) for n, call in enumerate(calls)]
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=5) as client:
            while not held[0].done():
                assert (await client.get("/healthz")).status_code == 200
                assert state.places.is_draining
                await asyncio.sleep(0.05)
            await asyncio.wait(held)
            assert not running.done()
            assert (await client.get("/healthz")).status_code == 200, "it is still asked how to go on"
        assert [call.asked for call in calls] == [["draining"], ["draining"]]
        await asyncio.wait_for(running, 5)


async def test_a_second_signal_waits_for_no_call() -> None:
    async with stopping(drain_s=60) as (state, running, _):
        call = EndingCall()
        held = asyncio.create_task(call.hold(state, "call"))
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.2)
        assert not running.done()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 10)
        held.cancel()
