"""How soon a server learns what another one stored: by notices of PostgreSQL, and at intervals.

Run: `python -m tests.benchmarks.notices`. Starts a PostgreSQL server that writes to its disk, and
two servers in this process, each with connections of its own; a client of one waits for what the
other stores. Measured from the answer of the other to the arrival at the client.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2

from graphrag.app.databases import open_database, prepare_database
from graphrag.approvals import Approve, Person
from server.ws import WsOptions
from tests.benchmarks.load_server import percentile
from tests.benchmarks.machine import described
from tests.server.test_ws_ai import chat
from tests.server.test_ws_sync import register
from tests.support.agents import an_ask
from tests.support.automations import finish
from tests.support.databases import nba_file, put_sample
from tests.support.postgres import PostgresServer, installed_programs, new_server
from tests.support.scripted_provider import Says, ScriptedProvider
from tests.support.served import Served, served
from tests.support.service import AUTOMATION, GRAPH, token
from tests.support.waiting import until
from tests.support.ws_server import Client, Running

REVIEWER = Person("rev", "reviewer", "default")
EDITOR = Person("ed", "editor", "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two servers on one database. Clients wait at `here`; `there` stores."""

    here: Served
    there: Served
    model: ScriptedProvider  # of `there`, which also runs the automations


Measure = Callable[[Pair, int], Coroutine[Any, Any, list[float]]]


@asynccontextmanager
async def pair_on(db: str, *steps: Any) -> AsyncGenerator[Pair]:
    options: dict[str, Any] = {"db": db, "rate_limit": 0, "options": WsOptions()}
    async with (
        ScriptedProvider(*steps) as model,
        served(ScriptedProvider(), automations_at_once=0, **options) as here,
        served(model, **options) as there,
    ):
        if db.startswith("postgres"):
            await until(lambda: all(b"_connected 1.0" in metrics(one) for one in (here, there)))
        yield Pair(here=here, there=there, model=model)


def metrics(one: Served) -> bytes:
    return one.state.monitoring.metrics.text()


@asynccontextmanager
async def client_of(one: Served, user: str, role: str = "editor") -> AsyncGenerator[Client]:
    running = Running(port=one.port, state=one.state, app=one.app)
    async with running.client(token(user, role)) as client:
        yield client


async def arrival(client: Client, accepts: Callable[[dict[str, Any]], bool]) -> float:
    """Returns when a message arrives."""
    while not accepts(await client.read()):
        pass
    return time.perf_counter()


async def pause() -> None:
    """Lets some time pass, so that rounds meet intervals at any time."""
    await asyncio.sleep(random.uniform(0.1, 0.3))


def since(stored: float, arrived: float) -> float:
    """Returns the milliseconds between both; 0 where the notice was faster than the answer."""
    return max(0.0, arrived - stored) * 1000


async def decisions(pair: Pair, rounds: int) -> dict[str, list[float]]:
    """Approves changes: a reviewer watches decisions, an editor has the graph open."""
    found: dict[str, list[float]] = {"decision (ai:watch)": [], "change of an edited graph": []}
    approvals = (await pair.there.state.services("default")).approvals
    async with (
        client_of(pair.here, "rev", "reviewer") as watching,
        client_of(pair.here, "ed") as editing,
    ):
        await watching.send("ai:watch", _id=1)
        await watching.until("ai:review", 1)
        await register(editing)
        for number in range(rounds):
            name = f"Name {number}"
            asked = an_ask(GRAPH, EDITOR, tool_call_id=f"call-{number}", reason="because")
            payload = {"nodeKey": "fetch-api", "changes": {"data.name": name}}
            approval = await approvals.propose({"type": "update_node", "payload": payload}, asked)
            await arrival(watching, lambda message: bool(message.get("waiting")))
            await pause()
            seen = [
                asyncio.create_task(arrival(watching, lambda message: bool(message["decided"]))),
                asyncio.create_task(
                    arrival(editing, lambda message, name=name: name in str(message))
                ),
            ]
            await approvals.decide(approval.id, Approve(), REVIEWER)
            stored = time.perf_counter()
            for times, task in zip(found.values(), seen, strict=True):
                times.append(since(stored, await task))
    return found


async def follows(pair: Pair, rounds: int) -> dict[str, list[float]]:
    """Follows a conversation whose turns run at the other server."""
    times: list[float] = []
    async with client_of(pair.there, "ed") as asking, client_of(pair.here, "ed") as following:
        thread = (await chat(asking, 1))[-1]["threadId"]
        await following.send("ai:follow", _id=7, threadId=thread)
        for number in range(2, rounds + 2):
            await asyncio.sleep(2.5 if pair.here.state.settings.db.startswith("sqlite") else 0)
            await pause()
            seen = asyncio.create_task(
                arrival(following, lambda message: message["type"] == "ai:follow_turn")
            )
            began = time.perf_counter()
            await asking.send("ai:chat", _id=number, graphKey=GRAPH, message="m", threadId=thread)
            await asking.until("ai:token", number)
            times.append(since(began, await seen))
            held[number - 2].set()
            await asking.turn(number)
    return {"turn (ai:follow), from its question": times}


held: list[asyncio.Event] = []


async def ticks(pair: Pair, rounds: int) -> dict[str, list[float]]:
    """Asks for runs at the server that starts none."""
    times: list[float] = []
    scheduler = pair.there.state.backend.scheduler
    headers = {"Authorization": f"Bearer {token('ed', 'editor')}"}
    async with httpx2.AsyncClient(
        base_url=pair.here.address, headers=headers, trust_env=False
    ) as http:
        for _ in range(rounds):
            made = (await http.post("/api/automations", json=AUTOMATION)).json()["id"]
            await pause()
            before = len(pair.model.requests)
            begun = await http.post(f"/api/automations/{made}/run")
            assert begun.is_success, begun.text
            stored = time.perf_counter()
            while scheduler.is_idle:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.001)
            times.append(since(stored, time.perf_counter()))
            await until(lambda before=before: len(pair.model.requests) > before)
            run = f"/api/sessions/{begun.json()['sessionId']}"
            while (await http.get(run)).json()["phase"] == "calling_ai":  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await http.post(f"{run}/stop")
            await until(lambda: scheduler.is_idle)
            await http.delete(f"/api/automations/{made}")
    return {"start of an automation's run": times}


async def revocations(pair: Pair, rounds: int) -> dict[str, list[float]]:
    """Revokes keys that the other server has looked up."""
    times: list[float] = []
    keys, other = (one.state.authentication.api_keys for one in (pair.here, pair.there))
    for _ in range(rounds):
        key, text = await other.create(user="ed", role="editor", workspaces=["default"])
        for _ in range(2):
            assert await keys.find(text, "mcp")
        await pause()
        await other.revoke(key.id)
        stored = time.perf_counter()
        while await keys.find(text, "mcp"):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
        times.append(since(stored, time.perf_counter()))
    return {"revoked key": times}


async def measured(db: str, rounds: int) -> dict[str, list[float]]:
    """Returns all delays on a database. Units: milliseconds."""
    found: dict[str, list[float]] = {}
    held[:] = [asyncio.Event() for _ in range(rounds)]
    turns = ["One.", *(Says(text="More.", held=each) for each in held)]
    async with pair_on(db) as pair:
        found |= await decisions(pair, rounds)
        found |= await revocations(pair, rounds)
    async with pair_on(db, *turns) as pair:
        found |= await follows(pair, rounds)
    async with pair_on(db, *[finish()] * rounds) as pair:
        found |= await ticks(pair, rounds)
    return found


async def on_postgres(server: PostgresServer, rounds: int) -> dict[str, list[float]]:
    db = server.url(server.create_database())
    await prepare_database(db, "default")
    async with open_database(db, "default") as database:
        await put_sample(database)
    return await measured(db, rounds)


async def at_intervals(rounds: int) -> dict[str, list[float]]:
    with TemporaryDirectory() as folder:
        return await measured(f"sqlite:{await nba_file(Path(folder))}", rounds)


def show(title: str, found: dict[str, list[float]]) -> None:
    print(f"\n{title:<52}{'rounds':>8}{'p50':>10}{'p95':>10}{'most':>10}")
    for name, times in found.items():
        shares = (percentile(times, 0.5), percentile(times, 0.95), max(times))
        print(f"{name:<52}{len(times):>8}" + "".join(f"{each:>10.1f}" for each in shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="of each measure, with notices")
    parser.add_argument("--intervals", type=int, default=10, help="of each without; 0: none")
    given = parser.parse_args()
    print(described())
    server = new_server(installed_programs(), fsync=True)
    try:
        show("PostgreSQL, notices, ms", asyncio.run(on_postgres(server, given.rounds)))
    finally:
        server.remove()
    if given.intervals:
        show("SQLite, intervals, ms", asyncio.run(at_intervals(given.intervals)))


if __name__ == "__main__":
    main()
