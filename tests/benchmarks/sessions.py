"""What automations cost: a tick with nothing to do, how late a run begins, and 300 answers beside four runs.

Run: `make bench-sessions`, or `python -m tests.benchmarks.sessions --help`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from datasources.sqlite import SqliteDatabase
from datasources.types import Graph
from graphrag.automations.automation import Automation
from graphrag.leases import now_ms
from tests.benchmarks import streaming
from tests.benchmarks.load_server import percentile
from tests.benchmarks.machine import described
from tests.concurrency.session_workers import Now
from tests.support.automations import finish, night_on, until
from tests.support.scripted_provider import ScriptedProvider

TICK_S = 5.0


async def idle_ticks(folder: Path, automations: int, ticks: int) -> list[float]:
    """Return how long ticks take with so many automations, none of them due. Units: milliseconds."""
    async with SqliteDatabase(folder / "idle.db") as database:
        await database.source("default").create_graph(Graph(key="flow", name="Flow", workspace="default"))
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
        first, made = now_ms() + 3_000, list[Automation]()
        for number in range(automations):
            key = f"flow-{number}"
            await database.source("default").create_graph(Graph(key=key, name=key, workspace="default"))
            at = first + number * within_s * 1000 // automations
            made.append(await night.automation(name=key, graph_key=key, cron=None, dates=(at,)))
        async with night.scheduler.ticking():
            await asyncio.sleep(within_s + 2 * TICK_S)
            await until(lambda: night.scheduler.is_idle)
        begun = [(await night.session(each)) for each in made]
        return [((run.started_time or 0) - run.scheduled_time) / 1000 for run in begun]


async def measured(given: argparse.Namespace) -> None:
    print(described())
    with TemporaryDirectory() as folder:
        took = await idle_ticks(Path(folder), given.automations, given.ticks)
        p50, p95 = percentile(took, 0.5), percentile(took, 0.95)
        print(f"idle tick, {given.automations:,} automations   p50 {p50:6.2f} ms   p95 {p95:6.2f} ms")
        delays = await start_delays(Path(folder), given.due, given.within)
        p50, p95 = percentile(delays, 0.5), percentile(delays, 0.95)
        print(f"a run begins after it is due, {given.due} of them   p50 {p50:5.2f} s   p95 {p95:5.2f} s")
    for runs in (0, given.runs):
        print(f"\n{given.streams} answers at once beside {runs} runs:")
        streaming.show(await streaming.measure(given.streams, given.pieces, given.pace_ms, runs=runs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what automations cost.")
    parser.add_argument("--automations", type=int, default=1_000)
    parser.add_argument("--ticks", type=int, default=200)
    parser.add_argument("--due", type=int, default=30)
    parser.add_argument("--within", type=int, default=30, help="seconds in which they come due")
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--pieces", type=int, default=100)
    parser.add_argument("--pace-ms", type=float, default=100.0)
    parser.add_argument("--runs", type=int, default=4)
    asyncio.run(measured(parser.parse_args()))
