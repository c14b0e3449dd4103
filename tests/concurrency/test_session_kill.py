"""kill -9 aimed at the writes of a run: another process ends it as if nothing had happened."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from datasources.sqlite import SqliteDatabase
from graphrag.leases import now_ms
from graphrag.sessions.machine import EndReason
from tests.concurrency.killing import killing, last_write
from tests.concurrency.session_workers import USED, live_through, night, run_and_die
from tests.support.agents import GRAPH, REVIEWER
from tests.support.databases import put_sample

KILLS = 100
CALLS = 4
"""Of the model in a run that nobody kills: it is away, reads, proposes and finishes."""
RESUMED_IN_S = 22.0


async def _begin(path: Path) -> None:
    """Store the sample graph and an automation that is due."""
    async with SqliteDatabase(path) as database:
        await put_sample(database)
        here = night(database, path)
        at = now_ms() - 1_000
        made = await here.automation("Move the start.", cron=None, dates=(at,))
        stored = await here.automations.get(made.key)
        await here.automations.put(stored, made.model_copy(update={"next_time": at}))


async def _outcome(path: Path) -> tuple[dict[str, object], int]:
    """Return all that a run leaves behind and that a kill could have made otherwise; and its tokens."""
    async with SqliteDatabase(path) as database:
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
    async with killing(run_and_die, tmp_path) as killed_at:
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
            kills += await killed_at(write)  # looks at a busy graph differ: the last write may not come
            began = time.monotonic()
            await live_through(path)
            longest_s = max(longest_s, time.monotonic() - began)
            found, used = await _outcome(path)
            assert found == expected, f"killed at write {write} of {last}"
            assert tokens <= used <= tokens + a_call, f"killed at write {write} of {last}: {used} tokens"
            calls = len(path.with_suffix(".calls").read_text())
            assert calls <= CALLS + 1, f"killed at write {write} of {last}: {calls} calls of the model"
            most = max(most, calls)
    assert kills >= KILLS - 5
    assert longest_s < RESUMED_IN_S
    print(f"{kills} kills at {last} writes, at most {most} calls of the model, over in {longest_s:.1f} s")
