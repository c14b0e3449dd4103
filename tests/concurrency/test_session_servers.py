"""Four servers on one file, killed at random: each occurrence becomes one run, and none is lost."""

from __future__ import annotations

import asyncio
import random
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from datasources.sqlite import SqliteDatabase
from datasources.types import Graph
from graphrag.sessions.machine import EndReason
from tests.concurrency.session_workers import serve
from tests.datasources.sqlite.helpers import line_of, start
from tests.support.automations import DAY, HOUR, MONDAY, Clock, night_on
from tests.support.scripted_provider import ScriptedProvider

SERVERS, AUTOMATIONS, DAYS, KILLS = 4, 20, 30, 0.4


def occurrences() -> set[int]:
    """Return every two o'clock of the days, counted without a schedule."""
    first = datetime.fromtimestamp(MONDAY / 1000, UTC)
    return {round((first + timedelta(days=day, hours=2)).timestamp() * 1000) for day in range(DAYS)}


@pytest.mark.slow
async def test_each_occurrence_becomes_one_run_on_four_servers_that_die(tmp_path: Path) -> None:
    path, chance = tmp_path / "shared.db", random.Random(7)
    clock_file = path.with_suffix(".clock")
    clock_file.write_text(str(MONDAY))
    servers: list[subprocess.Popen[str]] = []
    async with SqliteDatabase(path) as database:
        night = night_on(database, ScriptedProvider(), clock=Clock(MONDAY))
        made = []
        for number in range(AUTOMATIONS):
            graph = Graph(key=f"flow-{number}", name="Flow", workspace="default")
            await database.source("default").create_graph(graph)
            made.append(await night.automation(graph_key=graph.key, only_if_changed=False))

        async def is_done(now: int) -> bool:
            due = await night.automations.due(now, limit=1)
            return not due and not await night.automations.sessions({"tended": True}, limit=1)

        try:
            servers = [start(serve, path) for _ in range(SERVERS)]
            for server in servers:
                await line_of(server)
            for day in range(DAYS):
                now = MONDAY + day * DAY + 2 * HOUR
                clock_file.write_text(str(now))
                if chance.random() < KILLS:
                    place = chance.randrange(SERVERS)
                    await asyncio.sleep(chance.random() / 2)
                    servers[place].kill()
                    servers[place].communicate()
                    servers[place] = start(serve, path)
                async with asyncio.timeout(120):
                    while not await is_done(now):  # noqa: ASYNC110 - other processes do it
                        await asyncio.sleep(0.05)
        finally:
            for server in servers:
                server.kill()
                server.communicate()
        expected = occurrences()
        for automation in made:
            runs = [run.session for run in await night.runs(automation) if run.session]
            assert len(runs) == DAYS
            assert {run.scheduled_time for run in runs} == expected
            assert {run.end_reason for run in runs} == {EndReason.COMPLETED}
