"""What automations cost: idle ticks, how late a run begins, what a conversation meets,
and answers beside.

Run: `make bench-sessions`, or `python -m tests.benchmarks.sessions --help`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datasources.sqlite import SqliteDatabase
from datasources.types import Graph
from graphrag.automations.automation import Automation
from graphrag.leases import now_ms
from tests.benchmarks import streaming
from tests.benchmarks.load_server import GRAPH, Loaded, automation_on, loaded, percentile
from tests.benchmarks.machine import described
from tests.benchmarks.raw_ws import connected
from tests.concurrency.session_workers import Now
from tests.support.automations import finish, night_on
from tests.support.scripted_provider import ScriptedProvider
from tests.support.waiting import until

TICK_S, FIRST_MS = 5.0, 50.0


async def idle_ticks(folder: Path, automations: int, ticks: int) -> list[float]:
    """Return how long ticks take with so many automations, none of them
    due. Units: milliseconds.
    """
    async with SqliteDatabase(folder / "idle.db") as database:
        await database.source("default").create_graph(
            Graph(key="flow", name="Flow", workspace="default")
        )
        night = night_on(database, ScriptedProvider(), clock=Now())
        for number in range(automations):
            await night.automation(name=f"check {number}", graph_key="flow")
        took: list[float] = []
        for _ in range(ticks):
            began = time.perf_counter()
            await night.scheduler.tick()
            took.append((time.perf_counter() - began) * 1000)
        return took


async def start_delays(folder: Path, automations: int, within_s: int) -> list[float]:
    """Return how late runs begin that come due one after the other, places free. Units: seconds."""
    async with SqliteDatabase(folder / "due.db") as database:
        provider = ScriptedProvider(*[finish()] * automations)
        night = night_on(database, provider, clock=Now(), at_once=automations)
        first = now_ms() + 3_000
        made = list[Automation]()
        for number in range(automations):
            key = f"flow-{number}"
            await database.source("default").create_graph(
                Graph(key=key, name=key, workspace="default")
            )
            at = first + number * within_s * 1000 // automations
            made.append(await night.automation(name=key, graph_key=key, cron=None, dates=(at,)))
        async with night.scheduler.ticking():
            await asyncio.sleep(within_s + 2 * TICK_S)
            await until(lambda: night.scheduler.is_idle)
        begun = [(await night.session(each)) for each in made]
        return [((run.started_time or 0) - run.scheduled_time) / 1000 for run in begun]


async def delays_at_one_time(
    folder: Path, automations: int, places: int, spread_s: int
) -> list[float]:
    """Return how late runs begin that are due at one time, each on its graph, with a model that
    answers at once; counted from the moment to which each is spread. Units: seconds.
    """
    async with SqliteDatabase(folder / "at_once.db") as database:
        provider = ScriptedProvider(*[finish()] * automations)
        night = night_on(
            database, provider, clock=Now(), at_once=places, look_s=1.0, spread_s=spread_s
        )
        made = list[Automation]()
        at = now_ms() + automations * 100
        for number in range(automations):
            key = f"flow-{number}"
            await database.source("default").create_graph(
                Graph(key=key, name=key, workspace="default")
            )
            made.append(await night.automation(name=key, graph_key=key, cron=None, dates=(at,)))
        assert now_ms() < at
        async with night.scheduler.ticking():
            while now_ms() < at or await night.automations.due(now_ms(), limit=1):  # noqa: ASYNC110
                await asyncio.sleep(TICK_S / 10)
            await until(lambda: night.scheduler.is_idle)
        delays = list[float]()
        for each in made:
            started = (await night.session(each)).started_time or 0
            delays.append((started - at - night.worker.spread_ms(each.key)) / 1000)
        return delays


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """What a conversation meets while nothing or a run works on its graph. Units: milliseconds."""

    alone: list[float]
    beside: list[float]
    """Until the first piece of the answer."""
    made_way: list[float]
    """Until the run is paused."""


async def interrupted(chats: int) -> Interrupted:
    """Ask so many questions, each once alone and once while a run works on the graph."""
    found = Interrupted(alone=[], beside=[], made_way=[])
    async with loaded(pieces=600, pace_ms=FIRST_MS) as server, server.client() as client:
        automation = await automation_on(client, GRAPH)
        for number in range(chats + 1):
            alone, _ = await first_piece(server)
            begun = await client.post(f"/api/automations/{automation}/run?supersede=true")
            assert begun.is_success, begun.text
            run = f"/api/sessions/{begun.json()['sessionId']}"
            while (await client.get(run)).json()["phase"] != "calling_ai":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)  # it is under way
            beside, asked_at = await first_piece(server)
            while (await client.get(run)).json().get("endReason") != "SUSPENDED":  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            if number:  # the first load what the others use
                found.alone.append(alone)
                found.beside.append(beside)
                found.made_way.append((time.perf_counter() - asked_at) * 1000)
    return found


async def first_piece(server: Loaded) -> tuple[float, float]:
    """Return how long an answer took to begin, and when it was asked for; it is stopped then."""
    begun = asyncio.Event()
    ended = asyncio.Event()
    first = list[float]()

    def on_message(message: dict[str, Any]) -> None:
        if message["type"] == "ai:token":
            first.append(time.perf_counter())
            begun.set()
        elif message["type"] in ("ai:complete", "ai:error"):
            ended.set()

    client = await connected(server.port, on_message)
    asked_at = time.perf_counter()
    client.send({"type": "ai:chat", "_id": 1, "graphKey": GRAPH, "message": "What is this?"})
    async with asyncio.timeout(30):
        await begun.wait()
        client.send({"type": "ai:interrupt", "_id": 1, "threadId": ""})
        await ended.wait()
    client.close()
    return (first[0] - asked_at) * 1000, asked_at


async def measured(given: argparse.Namespace) -> None:
    print(described())
    print(f"\n{'measure':<52}{'p50':>10}{'p95':>10}")
    with TemporaryDirectory() as folder:
        took = await idle_ticks(Path(folder), given.automations, given.ticks)
        row(f"idle tick, {given.automations:,} automations, ms", took)
        delays = await start_delays(Path(folder), given.due, given.within)
        row(f"a run begins after it is due, {given.due} of them, s", delays)
        delays = await delays_at_one_time(Path(folder), given.at_once, given.places, given.spread)
        name = f"{given.at_once} due at one time, {given.places} places, spread over {given.spread} s, s"
        row(name, delays)
    if given.only_delays:
        return
    met = await interrupted(given.chats)
    row(f"first piece of an answer ({FIRST_MS:g} ms the model's), ms", met.alone)
    row("  while a run works on the graph, ms", met.beside)
    row("  and until that run is paused, ms", met.made_way)
    for runs in (0, given.runs):
        print(f"\n{given.streams} answers at once beside {runs} runs:")
        streaming.show(
            await streaming.measure(given.streams, given.pieces, given.pace_ms, runs=runs)
        )


def row(name: str, values: Sequence[float]) -> None:
    print(
        f"{name:<52}{percentile(values, 0.5):>10.2f}{percentile(values, 0.95):>10.2f}", flush=True
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what automations cost.")
    parser.add_argument("--automations", type=int, default=1_000)
    parser.add_argument("--ticks", type=int, default=200)
    parser.add_argument("--due", type=int, default=30)
    parser.add_argument("--within", type=int, default=30, help="seconds in which they come due")
    parser.add_argument("--at-once", type=int, default=200, help="automations due at one time")
    parser.add_argument("--places", type=int, default=2, help="runs at one time")
    parser.add_argument("--spread", type=int, default=60, help="seconds over which they are spread")
    parser.add_argument("--only-delays", action="store_true", help="end after the first three rows")
    parser.add_argument("--chats", type=int, default=20, help="questions that interrupt a run")
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--pieces", type=int, default=100)
    parser.add_argument("--pace-ms", type=float, default=100.0)
    parser.add_argument("--runs", type=int, default=4)
    asyncio.run(measured(parser.parse_args()))
