"""kill -9 at the writes of a telephone call: another process ends it, and its API gets what it is owed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from datasources.sqlite import SqliteDatabase
from tests.concurrency.call_workers import ORDERED, call_server_at, hold_and_die
from tests.concurrency.killing import killing, last_write
from tests.support.agents import REVIEWER

KILLS = int(os.environ.get("CALL_KILLS", "12"))
"""Points of a call, spread over its writes; 100 take some minutes."""


async def _left_after(path: Path) -> tuple[str, ...]:
    """Do elsewhere what is due for hours; return how the call stands then, and check what belongs to it."""
    async with SqliteDatabase(path) as database:
        for hours in (1, 2, 3):
            server, _ = call_server_at(database, path, hours=hours)
            await server.tick()
        calls, _ = await server.calls.listed(REVIEWER).list()
        owed = {each.id: each.status for each in await server.life.deliveries.list()}
        api = path.with_suffix(".api")
        noted = api.read_text().splitlines() if api.exists() else []
        sent = {line.split()[1] for line in noted if line.startswith(("/calls", "/messages"))}
        assert sent == set(owed)
        assert set(owed.values()) <= {"done"}
        assert sum(line.startswith("/orders") for line in noted) <= 1  # an act is not sent again
        if not calls:
            assert noted == []
            return ("no call",)
        (call,) = calls
        assert call.status == "ended"
        whole = await server.calls.document(call.call_id, REVIEWER)
        if owed:
            assert {f"{call.call_id}:on_start", f"{call.call_id}:on_end"} <= set(owed)
            assert whole["outcome"] == ("ordered" if whole["flags"].get("order_placed") else whole["outcome"])
        if ORDERED in noted:
            assert whole["outcome"] == "ordered"
        elif any(line.startswith("/orders") for line in noted) and whole["outcome"] != "ordered":
            assert [each["ok"] for each in whole["tools"]] == [None]  # it may have been carried out
        return str(call.end_reason), str(call.outcome)


@pytest.mark.slow
async def test_a_call_killed_at_any_write_ends_once_and_its_api_knows(tmp_path: Path) -> None:
    async with SqliteDatabase(tmp_path / "start.db"):
        pass
    ends = Counter[tuple[str, ...]]()
    async with killing(hold_and_die, tmp_path) as killed_at:
        last = await last_write(killed_at)
        for kill in range(KILLS):
            write = 1 + kill * (last - 1) // max(1, KILLS - 1)
            path = tmp_path / f"{write}.db"
            path.with_suffix(".api").unlink(missing_ok=True)
            assert await killed_at(write) or write > last - 3, write
            ends[await _left_after(path)] += 1
    print(f"{KILLS} kills over {last} writes: {dict(ends)}")
    assert {end[0] for end in ends} <= {"no call", "lost", "line_lost", "caller_hung_up"}
    assert any(end[0] == "lost" for end in ends)
