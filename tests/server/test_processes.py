"""Servers as processes of their own on one database file: two at once, killed again and
again, and ended.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed

from graphrag.agent.thread_store import Threads
from graphrag.approvals import Person
from tests.server.test_two_servers import EVENTS, a_process, opened, streamed
from tests.server.test_ws_sync import apply, move, node, register
from tests.support.chosen_database import address_in, database_in
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.valid_history import check_valid
from tests.support.waiting import until
from tests.support.ws_server import GRAPH, Client

pytestmark = pytest.mark.slow
LOCAL = Person("local", "admin", "default")


@asynccontextmanager
async def at(port: int) -> AsyncIterator[Client]:
    async with await opened(port) as connection:
        yield Client(connection)


def rest(port: int) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60)


async def statuses(db: Path) -> list[str]:
    """Return where the conversations stand; their histories must be such as a model takes."""
    async with database_in(db) as database:
        threads = Threads(database.records("default"))
        found = [(await threads.get(t.key, LOCAL)).thread for t in await threads.list(LOCAL)]
    for thread in found:
        check_valid(thread.messages)
    return [thread.turn.status for thread in found]


@dataclass
class Known:
    """What one editor received: where each node is, and which are gone. `open` is what has
    no answer yet.
    """

    name: str
    places: dict[str, float | None] = field(default_factory=dict[str, float | None])
    open: dict[str, float | None] = field(default_factory=dict[str, float | None])
    acknowledged: int = 0

    async def edit(self, port: int, numbers: itertools.count[int]) -> None:
        """Make, move and delete nodes until the server is gone."""
        async with at(port) as client:
            await register(client)
            with suppress(ConnectionClosed):
                while True:
                    number = next(numbers)
                    key = f"{self.name}-{number // 3}"
                    self.open = {key: None if number % 9 == 8 else float(number)}
                    answer = await self._ask(client, number, key)
                    assert answer["_response"]["status"], answer
                    self.places |= self.open
                    self.open = {}
                    self.acknowledged += 1

    async def _ask(self, client: Client, number: int, key: str) -> dict[str, Any]:
        if number % 3 == 0 or self.places.get(key) is None:
            nodes = [node(key, posX=float(number))]
            self.open[key] = float(number)
            return await client.ask(
                "batchCreateElements", _id=number + 9, sheetId="0", nodes=nodes, edges=[]
            )
        if number % 9 == 8:
            return await client.ask(
                "batchDeleteElements", _id=number + 9, sheetId="0", nodeKeys=[key], edgeKeys=[]
            )
        return await apply(client, move(key, float(number)), id_=number + 9)

    def lost(self, stored: dict[str, float]) -> list[str]:
        """Return the nodes that are not as this editor received; what had no answer
        may be either way.
        """
        wrong: list[str] = []
        for key, place in self.places.items():
            allowed = {place, *([self.open[key]] if key in self.open else [])}
            if stored.get(key) not in allowed:
                wrong.append(f"{key}: {stored.get(key)} instead of {place}")
        return wrong


async def test_no_acknowledged_edit_is_lost_however_often_the_server_is_killed(file: Path) -> None:
    editors = [Known(name=f"editor{number}") for number in range(5)]
    numbers = [itertools.count() for _ in editors]
    for kill in range(4):
        async with a_process(address_in(file)) as (process, port):
            work = [
                asyncio.create_task(editor.edit(port, count))
                for editor, count in zip(editors, numbers, strict=True)
            ]
            enough = sum(editor.acknowledged for editor in editors) + 60 + 35 * kill
            async with asyncio.timeout(180):
                while sum(editor.acknowledged for editor in editors) < enough:  # noqa: ASYNC110
                    await asyncio.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            await process.wait()
            await asyncio.gather(*work)
        for count in numbers:
            _next_triple(count)
        async with a_process(address_in(file)) as (_, port), rest(port) as reader, at(port):
            nodes = (await reader.get(f"/api/graphs/{GRAPH}/nodes")).json()["nodes"]
        stored = {found["_key"]: found["posX"] for found in nodes}
        assert not [wrong for editor in editors for wrong in editor.lost(stored)]
        for editor in editors:  # from here what is stored is known
            editor.places |= {key: stored.get(key) for key in editor.open}
            editor.open = {}
    assert sum(editor.acknowledged for editor in editors) >= 450


def _next_triple(numbers: itertools.count[int]) -> None:
    """Go on with a node that nobody has heard of."""
    while next(numbers) % 3 != 2:
        pass


async def test_a_server_that_ends_lets_requests_finish_and_stores_what_it_stops(file: Path) -> None:
    release = threading.Event()
    whole = Answer(pieces=streamed("A whole answer."), headers=EVENTS, held=release)
    half = Answer(pieces=streamed("Half an ", ends=False), headers=EVENTS, fault="hang")
    with ScriptedServer() as model:
        async with (
            a_process(address_in(file), model.url) as (process, port),
            at(port) as client,
            rest(port) as caller,
        ):
            model.play(half)
            await client.send("ai:chat", _id=1, graphKey=GRAPH, message="Is it whole?")
            await until(lambda: len(model.requests) == 1)
            model.play(whole)
            body = {"graphKey": GRAPH, "message": "Will you finish?"}
            asked = asyncio.create_task(caller.post("/api/ai/chat", json=body))
            await until(lambda: len(model.requests) >= 2)
            process.send_signal(signal.SIGTERM)
            await client.closed()
            release.set()
            assert (await asked).json()["message"] == "A whole answer."
            async with asyncio.timeout(30):
                assert await process.wait() == 0
    assert sorted(await statuses(file)) == ["idle", "stopped"]
