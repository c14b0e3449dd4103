"""How the server ends: what it was doing is stored, and it ends well."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import httpx2
import pytest

from mock_data import load_text
from server.app import create_app
from server.run import run_server
from tests.support.scripted_provider import Asked, Says, ScriptedProvider
from tests.support.service import GRAPH, Service, service, settings_of, token


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
@pytest.mark.slow
async def test_a_turn_that_outlasts_the_grace_is_stopped_and_stored(
    tmp_path: Path, number: signal.Signals
) -> None:
    asked = asyncio.Event()

    def answers(_: Asked) -> Says:
        asked.set()
        return Says(text="Half", held=asyncio.Event())

    settings = {"db": f"sqlite:{tmp_path / 'n.db'}"}
    with socket.socket() as listening, ScriptedProvider(answers) as provider:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        app = create_app(settings_of(**settings), provider=provider)
        ready = asyncio.Event()
        running = asyncio.create_task(run_server(app, listening, ready.set, grace_s=0))
        await ready.wait()
        raw = load_text("nba.json").encode()
        headers = {"Authorization": f"Bearer {token()}"}
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=20, trust_env=False) as ed:
            made = await ed.post("/api/graphs/import", content=raw, params={"graphKey": GRAPH})
            assert made.status_code == 200
            body = {"graphKey": made.json()["graphKey"], "message": "hello"}
            turn = asyncio.create_task(ed.post("/api/ai/chat", json=body))
            await asked.wait()
            os.kill(os.getpid(), number)
            await running
            assert provider.closed_early == 1
            await asyncio.gather(turn, return_exceptions=True)
    async with service(**settings) as again:
        assert await statuses(again) == ["stopped"]


async def statuses(running: Service) -> list[str]:
    """Return where the last turn of each conversation stands."""
    async with running.as_() as ed:
        found = (await ed.post("/api/ai/threads", json={})).json()["threads"]
        read = [await ed.get(f"/api/ai/thread/{thread['threadId']}/messages") for thread in found]
    return [answer.json()["status"] for answer in read]
