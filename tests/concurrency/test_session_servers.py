"""Four servers on one database, killed at random: each occurrence becomes one run, and none is lost."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from datasources.types import Graph
from graphrag.agent.thread_store import session_of
from graphrag.automations.worker import MAX_ATTEMPTS
from graphrag.sessions.machine import EndReason
from tests.concurrency.session_workers import serve, store_at
from tests.support.automations import DAY, HOUR, MONDAY, Clock, Night, night_on
from tests.support.scripted_provider import ScriptedProvider

SERVERS = 4
AUTOMATIONS = int(os.environ.get("SESSION_AUTOMATIONS", "10"))
DAYS = int(os.environ.get("SESSION_DAYS", "6"))
WEEKLY = bool(os.environ.get("SESSION_WEEKLY"))
"""Each automation is due on Mondays instead of daily; all of them in the same minute either way."""
CRON, BETWEEN_DAYS = ("0 2 * * 1", 7) if WEEKLY else ("0 2 * * *", 1)
KILLED_WITHIN_S = float(os.environ.get("SESSION_KILLED_WITHIN_S", "2"))
"""The next server is killed within so long."""
A_DAY_S = 120 + 4 * AUTOMATIONS


def occurrences() -> set[int]:
    """Return every two o'clock at which they are due, counted without a schedule."""
    first = datetime.fromtimestamp(MONDAY / 1000, UTC)
    return {
        round((first + timedelta(days=day, hours=2)).timestamp() * 1000)
        for day in range(0, DAYS, BETWEEN_DAYS)
    }


class Servers:
    """Processes that tick on one database; each is a copy of one that has loaded the program already."""

    def __init__(self, address: str, clock_file: Path) -> None:
        self._given = (address, str(clock_file))
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([serve.__module__, pytest.__name__])
        self._running = [self._started() for _ in range(SERVERS)]
        self.kills = 0

    def _started(self) -> BaseProcess:
        server = self._context.Process(target=serve, args=self._given)
        server.start()
        return server

    async def kill_now_and_then(self) -> None:
        chance = random.Random(7)
        while True:
            await asyncio.sleep(chance.uniform(0.1, KILLED_WITHIN_S))
            place = chance.randrange(SERVERS)
            self._end(self._running[place])
            self._running[place] = self._started()
            self.kills += 1

    def end(self) -> None:
        for server in self._running:
            self._end(server)

    @staticmethod
    def _end(server: BaseProcess) -> None:
        server.kill()
        server.join()


@pytest.mark.slow
async def test_each_occurrence_becomes_one_run_on_four_servers_that_die(tmp_path: Path) -> None:
    await lived_through(str(tmp_path / "shared.db"), tmp_path)


@pytest.mark.slow
async def test_so_it_does_on_four_servers_of_one_arangodb(arango_address: str, tmp_path: Path) -> None:
    await lived_through(arango_address, tmp_path)


async def lived_through(address: str, tmp_path: Path) -> None:
    """Let the servers live through the days; then count the runs."""
    clock_file = tmp_path / "clock"
    clock_file.write_text(str(MONDAY))
    async with store_at(address) as database:
        night = night_on(database, ScriptedProvider(), clock=Clock(MONDAY))
        made: list[str] = []
        for number in range(AUTOMATIONS):
            graph = Graph(key=f"flow-{number}", name="Flow", workspace="default")
            await database.source("default").create_graph(graph)
            automation = await night.automation(graph_key=graph.key, only_if_changed=False, cron=CRON)
            made.append(automation.key)
        began, servers = time.monotonic(), Servers(address, clock_file)
        killing = asyncio.create_task(servers.kill_now_and_then())
        try:
            for day in range(DAYS):
                now = MONDAY + day * DAY + 2 * HOUR
                _set(clock_file, now)
                async with asyncio.timeout(A_DAY_S):
                    while not await _is_done(night, now):  # noqa: ASYNC110 - other processes do it
                        await asyncio.sleep(0.05)
        finally:
            killing.cancel()
            servers.end()
        expected, ends = occurrences(), Counter[str]()
        for key in made:
            found = await night.automations.sessions({"automationId": key, "open": False}, limit=DAYS + 10)
            runs = [session_of(each.thread) for each in found if each.thread.key.startswith("auto/")]
            assert len(runs) == len(expected)
            assert {run.scheduled_time for run in runs} == expected
            # A run whose process dies again and again is given up: it keeps no other from its time.
            assert all(run.end_reason is EndReason.COMPLETED or run.attempts >= MAX_ATTEMPTS for run in runs)
            ends.update(str(run.end_reason) for run in runs)
        assert ends[EndReason.ERROR] < ends.total() / 50
    assert servers.kills
    print(f"{dict(ends)}, {servers.kills} kills, {time.monotonic() - began:.0f} s")


async def _is_done(night: Night, now: int) -> bool:
    due = await night.automations.due(now, limit=1)
    return not due and not await night.automations.sessions({"tended": True}, limit=1)


def _set(clock_file: Path, now: int) -> None:
    """Set the clock of all servers, in one step."""
    new = clock_file.with_suffix(".new")
    new.write_text(str(now))
    new.replace(clock_file)
