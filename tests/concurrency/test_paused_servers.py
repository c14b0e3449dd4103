"""Two server processes with shifted clocks that are stopped and go on: nothing
acknowledged is lost.

Their clocks are those of libfaketime and are moved while they run, so that the leases of each have
ended for the other again and again; SIGSTOP and SIGCONT do what a sleeping laptop or a snapshot of
a machine does.
"""

import asyncio
import itertools
import json
import os
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from datasources.base import Database
from graphrag.agent.thread_store import SESSION_KIND, Threads, read_thread, session_of
from graphrag.delivery_queue import CLAIMED_MS, OVER
from graphrag.leases import now_ms
from graphrag.live import LiveGraphs
from graphrag.llm.base import UserMessage
from graphrag.sessions.phases import Phase
from server.webhook_target import WebhookTarget
from server.webhooks import KIND as WEBHOOK
from server.webhooks import Webhooks
from tests.server.test_two_servers import a_process, opened
from tests.server.test_ws_sync import node
from tests.support.chosen_database import address_in, database_in
from tests.support.databases import nba_file
from tests.support.loopback_api import LoopbackApi, loopback_api
from tests.support.waiting import until
from tests.support.ws_server import GRAPH, Client

FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
needs_faketime = pytest.mark.skipif(
    FAKETIME is None, reason="libfaketime is not installed (package faketime)"
)

BURST = 200
"""Edits that an editor has under way at once."""
STEP_S = 40
"""By so much the clock of a server is set forward: longer than its leases are held."""
FAULTS = (OSError, TimeoutError, WebSocketException, httpx2.HTTPError)


@dataclass
class Server:
    """A server process, its address and the file that its clock follows."""

    process: Any
    port: int
    clock: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set_forward(self, seconds: int) -> None:
        self.clock.write_text(f"+{seconds}s")


@dataclass
class Acknowledged:
    """What servers have said that they did."""

    nodes: set[str] = field(default_factory=set[str])
    asked: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The questions that were answered, by conversation."""
    runs: set[str] = field(default_factory=set[str])

    @property
    def count(self) -> int:
        return len(self.nodes) + sum(map(len, self.asked.values())) + len(self.runs)

    def has(self, count: int) -> bool:
        """Returns whether so much was acknowledged, some of each kind."""
        return self.count >= count and all((self.nodes, self.asked, self.runs))


async def edit(server: Server, done: Acknowledged, numbers: Any) -> None:
    """Add nodes to the graph, in bursts, for as long as the connection is kept."""
    address = f"ws://127.0.0.1:{server.port}/ws"
    async with asyncio.timeout(30), connect(address, proxy=None, open_timeout=10) as connection:
        client = Client(connection)
        joined = await client.ask(
            "registerUserOnGraph", _id=0, name="Ed", sheetId="0", graphKey=GRAPH, fromTimestamp=0
        )
        while joined["_response"]["status"]:
            keys = {number: f"n{number}" for number in itertools.islice(numbers, BURST)}
            for number, key in keys.items():
                made = node(key, posX=number)
                await client.send(
                    "batchCreateElements", _id=number, sheetId="0", nodes=[made], edges=[]
                )
            while keys:
                answer = await client.read()
                key = keys.pop(answer.get("_id", -1), None)
                if key is not None and answer["_response"]["status"]:
                    done.nodes.add(key)


async def ask(server: Server, done: Acknowledged, numbers: Any) -> None:
    """Ask in a conversation that goes on at whichever server."""
    thread = random.choice([None, *done.asked])
    question = f"How many nodes are there? ({next(numbers)})"
    body = {"graphKey": GRAPH, "message": question} | ({"threadId": thread} if thread else {})
    async with httpx2.AsyncClient(base_url=server.url, timeout=10, trust_env=False) as client:
        answer = await client.post("/api/ai/chat", json=body)
    if answer.status_code == 200:
        done.asked.setdefault(answer.json()["threadId"], set()).add(question)


async def start_run(server: Server, done: Acknowledged, numbers: Any) -> None:
    """Make an automation and start its run."""
    made = {
        "graphKey": GRAPH,
        "name": f"Check {next(numbers)}",
        "message": "Look for what is wrong.",
    }
    async with httpx2.AsyncClient(base_url=server.url, timeout=10, trust_env=False) as client:
        automation = await client.post("/api/automations", json={**made, "mode": "report"})
        if automation.status_code == 201:
            run = await client.post(f"/api/automations/{automation.json()['id']}/run")
            if run.status_code == 202:
                done.runs.add(run.json()["sessionId"])


async def again(work: Callable[..., Awaitable[None]], wait_s: float, *arguments: Any) -> None:
    """Do something over and over; what is refused or interrupted is not acknowledged."""
    while True:
        with suppress(*FAULTS):
            await work(*arguments)
        await asyncio.sleep(wait_s)


async def disturb(servers: list[Server], chance: random.Random, lasts_s: float) -> None:
    """Stop servers for a while, and set their clocks forward, one past the other each time."""
    forward = 0
    while True:
        server = chance.choice(servers)
        await asyncio.sleep(chance.uniform(0.5, 3.0))
        server.process.send_signal(signal.SIGSTOP)
        try:
            forward += STEP_S
            other = servers[1 - servers.index(server)]
            other.set_forward(forward)
            await asyncio.sleep(chance.uniform(0.05, lasts_s))
        finally:
            server.process.send_signal(signal.SIGCONT)


async def disturbed(
    path: Path, api: LoopbackApi, *, acknowledged: int, lasts_s: float, chance: random.Random
) -> Acknowledged:
    """Lets two servers work while they are disturbed, until so much is acknowledged or
    TERM_S is over; kills both then.
    """
    done = Acknowledged()
    numbers = itertools.count(1)
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for number in range(2):
            clock = path.with_suffix(f".clock{number}")
            clock.write_text("+0s")
            environment = {
                "LD_PRELOAD": str(FAKETIME),
                "FAKETIME_TIMESTAMP_FILE": str(clock),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "NODIUS_RATE_LIMIT": "0",
                "NODIUS_NOTIFY_URL": f"{api.url}/hook",
                "NODIUS_AUTOMATION_KEEP": "100000",
            }
            running = a_process(address_in(path), environment=environment)
            process, port = await stack.enter_async_context(running)
            servers.append(Server(process, port, clock))
        for server in servers:
            await (await opened(server.port)).close()
        works = [
            again(work, wait_s, server, done, numbers)
            for server in servers
            for work, wait_s, many in ((edit, 0.1, 2), (ask, 0.05, 2), (start_run, 0.5, 1))
            for _ in range(many)
        ]
        tasks = [asyncio.create_task(work) for work in (*works, disturb(servers, chance, lasts_s))]
        with suppress(TimeoutError):
            await until(
                lambda: done.has(acknowledged) or any(task.done() for task in tasks),
                within_s=TERM_S,
            )
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}, ended
    return done


async def lost(path: Path, api: LoopbackApi, done: Acknowledged) -> dict[str, set[str]]:
    """Return what was acknowledged and is not there once another server has put things right."""
    async with database_in(path) as database:
        later = now_ms() + 10**9
        async with LiveGraphs(database.source, database.records, clock=lambda: later) as graphs:
            await graphs.recover("default")
        nodes = {each.key for each in await database.source("default").get_nodes(GRAPH)}
        records = database.records("default")
        said: set[str] = set()
        for thread in done.asked:
            stored = await Threads(records).get_of(thread, "default")
            said |= {one.content for one in stored.thread.messages if isinstance(one, UserMessage)}
        found = await records.query(SESSION_KIND, limit=100_000)
        runs = {each.thread.key: session_of(each.thread) for each in map(read_thread, found)}
        ended = {
            key for key, run in runs.items() if run.phase is Phase.COMPLETED and not run.unannounced
        }
        await send_rest(database, api)
    bodies = [json.loads(each.body) for each in api.arrived]
    arrived = {body["sessionId"] for body in bodies if "sessionId" in body}
    return {
        "edits": done.nodes - nodes,
        "turns": set().union(*done.asked.values()) - said,
        "runs": done.runs - runs.keys(),
        "deliveries": ended - arrived,
    }


async def send_rest(database: Database, api: LoopbackApi) -> None:
    """Send what is owed, as a server does that comes when all of it is due."""
    records = database.records("root")
    target = WebhookTarget(url=f"{api.url}/hook")
    hooks = Webhooks(target, records, clock=lambda: now_ms() + CLAIMED_MS + 3_600_000)
    hooks.start()
    async with asyncio.timeout(120):
        while [
            one
            for one in await records.query(WEBHOOK, limit=100_000)
            if one.data["status"] not in OVER
        ]:
            await hooks.send_due()
    await hooks.aclose()


ACKNOWLEDGED = int(os.environ.get("PAUSED_ACKNOWLEDGED", "300"))  # 10000 takes an hour
TERM_S = 1_500 if ACKNOWLEDGED <= 300 else 6_000


@pytest.mark.slow
@pytest.mark.timeout(TERM_S + 600)
@needs_faketime
@pytest.mark.parametrize(
    ("acknowledged", "lasts_s"), [(ACKNOWLEDGED, 0.6), (ACKNOWLEDGED // 10, 20.0)]
)
async def test_of_acknowledged_edits_turns_runs_and_deliveries_none_is_lost(
    tmp_path: Path, acknowledged: int, lasts_s: float
) -> None:
    path = await nba_file(tmp_path)
    async with loopback_api() as api:
        api.answers = {"POST /hook": {}}
        chance = random.Random(acknowledged)
        done = await disturbed(path, api, acknowledged=acknowledged, lasts_s=lasts_s, chance=chance)
        gone = await lost(path, api, done)
    print(
        f"{len(done.nodes)} edits, {sum(map(len, done.asked.values()))} turns, {len(done.runs)} runs"
    )
    assert done.nodes
    assert done.asked
    assert done.runs
    assert gone == {"edits": set(), "turns": set(), "runs": set(), "deliveries": set()}
    assert done.has(acknowledged)
