"""kill -9 aimed at the writes of a run: another process ends it as if nothing had happened."""

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
from graphrag.automations.open_runs import MAX_ATTEMPTS
from graphrag.leases import now_ms
from graphrag.sessions.phases import EndReason
from tests.concurrency.killing import killing, last_write
from tests.concurrency.session_workers import USED, live_through, night, serve, store_at
from tests.support.agents import GRAPH, REVIEWER
from tests.support.automations import DAY, HOUR, Night, night_on
from tests.support.chosen_database import database_in
from tests.support.clock import MONDAY, Clock
from tests.support.databases import put_sample
from tests.support.scripted_provider import ScriptedProvider

KILLS = 100
CALLS = 4
"""Of the model in a run that nobody kills: it is away, reads, proposes and finishes."""
RESUMED_IN_S = 22.0


async def _begin(path: Path) -> None:
    """Store the sample graph and an automation that is due."""
    async with database_in(path) as database:
        await put_sample(database)
        here = night(database, path)
        at = now_ms() - 1_000
        made = await here.automation("Move the start.", cron=None, dates=(at,))
        stored = await here.automations.get(made.key)
        await here.automations.put(stored.model_copy(update={"next_time": at}))


async def _outcome(path: Path) -> tuple[dict[str, object], int]:
    """Return all that a run leaves behind and that a kill could have made otherwise;
    and its tokens.
    """
    async with database_in(path) as database:
        here = night(database, path)
        runs = [
            each.thread.session
            for each in await here.automations.sessions({"open": False})
            if each.thread.key.startswith("auto/")
        ]
        approvals = await here.approvals.list(by=REVIEWER)
        (node,) = await database.source("default").get_nodes_by_key(GRAPH, ["root"])
        assert (await here.approvals.audit.verify()).is_sound
        (run,) = runs
        (automation,) = await here.automations.list()
        assert run is not None
        assert automation.spent.sums()["tokens"] == run.usage.tokens
        found: dict[str, object] = {
            "ends": [run.end_reason for run in runs if run],
            # How many proposals were decided by its end depends on when it was killed.
            "begun": automation.spent.runs,
            "reports": [run.report.text.split("\n\n")[0] for run in runs if run and run.report],
            "approvals": [approval.status for approval in approvals],
            "node": (node.pos_x, node.pos_y),
            "revision": (await database.source("default").get_graph(GRAPH)).revision,
        }
        return found, run.usage.tokens


@pytest.mark.slow
async def test_a_run_killed_at_any_write_ends_as_without_the_kill(tmp_path: Path) -> None:
    await _begin(tmp_path / "start.db")
    async with killing(live_through, tmp_path) as killed_at:
        last = await last_write(killed_at)
        expected, tokens = await _outcome(tmp_path / f"{last + 1}.db")
        assert (expected["ends"], expected["approvals"]) == ([EndReason.COMPLETED], ["applied"])
        a_call = USED.prompt + USED.completion
        assert tokens == (CALLS - 1) * a_call
        most, kills, longest_s = 0, 0, 0.0
        for number in range(KILLS):
            write = 1 + round(number * (last - 1) / (KILLS - 1))
            path = tmp_path / f"{write}.db"
            path.with_suffix(".calls").unlink(missing_ok=True)
            # looks at a busy graph differ: the last write may not come
            kills += await killed_at(write)
            began = time.monotonic()
            await live_through(path)
            longest_s = max(longest_s, time.monotonic() - began)
            found, used = await _outcome(path)
            assert found == expected, f"killed at write {write} of {last}"
            assert tokens <= used <= tokens + a_call, (
                f"killed at write {write} of {last}: {used} tokens"
            )
            calls = len(path.with_suffix(".calls").read_text())
            assert calls <= CALLS + 1, (
                f"killed at write {write} of {last}: {calls} calls of the model"
            )
            most = max(most, calls)
    assert kills >= KILLS - 5
    assert longest_s < RESUMED_IN_S
    print(
        f"{kills} kills at {last} writes, at most {most} calls of the model, over in {longest_s:.1f} s"
    )


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
    """Processes that tick on one database; each is a copy of one that has loaded
    the program already.
    """

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
async def test_so_it_does_on_four_servers_of_one_arangodb(
    arango_address: str, tmp_path: Path
) -> None:
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
            automation = await night.automation(
                graph_key=graph.key, only_if_changed=False, cron=CRON
            )
            made.append(automation.key)
        began = time.monotonic()
        servers = Servers(address, clock_file)
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
        expected = occurrences()
        ends = Counter[str]()
        for key in made:
            found = await night.automations.sessions(
                {"automationId": key, "open": False}, limit=DAYS + 10
            )
            runs = [
                session_of(each.thread) for each in found if each.thread.key.startswith("auto/")
            ]
            assert len(runs) == len(expected)
            assert {run.scheduled_time for run in runs} == expected
            # A run whose process dies again and again is given up: it keeps no other from its time.
            assert all(
                run.end_reason is EndReason.COMPLETED or run.attempts >= MAX_ATTEMPTS
                for run in runs
            )
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
