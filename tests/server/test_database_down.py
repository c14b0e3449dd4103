"""The database does not answer: requests and a running turn say so, and can be repeated."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from tests.server.test_two_servers import prepared
from tests.support.arango import ArangoServer
from tests.support.scripted_provider import Asked, Says, ScriptedProvider
from tests.support.served import served
from tests.support.service import GRAPH, error_of, token

DOWN = 1_000_000


@pytest.fixture
async def db(arango_address: str) -> str:
    await prepared(arango_address)
    return arango_address


async def test_reads_and_a_running_turn_fail_with_503_and_go_on_when_it_is_back(
    db: str, arango: ArangoServer
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    def second(_: Asked) -> Says:
        asked.set()
        return Says(text="Two.", held=go)

    with ScriptedProvider("One.", second, "Three.") as model:
        async with served(model, db=db) as running:
            headers = {"Authorization": f"Bearer {token()}"}
            async with httpx2.AsyncClient(
                base_url=running.address, headers=headers, trust_env=False, timeout=60
            ) as ed:
                body = {"graphKey": GRAPH, "message": "hello"}
                thread = (await ed.post("/api/ai/chat", json=body)).json()["threadId"]
                body["threadId"] = thread
                turn = asyncio.create_task(ed.post("/api/ai/chat", json=body))
                await asked.wait()
                arango.inject("/_api/", "drop", DOWN)
                try:
                    refused = error_of(await ed.get(f"/api/graphs/{GRAPH}/nodes"))
                    assert (refused["code"], refused["retryable"]) == ("unavailable", True)
                    assert arango.place not in refused["message"]
                    assert (await ed.get("/readyz")).status_code == 503
                    assert (await ed.get("/healthz")).status_code == 200
                    go.set()
                    broken = error_of(await turn)
                    assert broken["retryable"] is True
                    assert broken["code"] in ("network", "unavailable", "busy")
                    assert arango.place not in broken["message"]
                finally:
                    arango.heal()
                again = await ed.post("/api/ai/chat", json=body)
                assert again.json()["message"] == "Three."
                assert (await ed.get(f"/api/graphs/{GRAPH}/nodes")).status_code == 200
