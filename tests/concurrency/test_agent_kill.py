"""kill -9 at each write of a conversation with an agent: another process ends it and sends what is owed."""

from __future__ import annotations

from pathlib import Path

import pytest

from datasources.sqlite import SqliteDatabase
from tests.concurrency.agent_workers import converse_and_die, server_at
from tests.datasources.sqlite.helpers import line_of, start


async def _end_elsewhere(path: Path) -> list[str]:
    """Do what is due for an hour and another; return why and how conversations ended, and what is left."""
    async with SqliteDatabase(path) as database:
        for hours in (1, 2):
            server = server_at(database, path, hours=hours)
            await server.tick()
        ends = await database.records("default").query("thread")
        found = [f"{each.data['agentOpen']} {each.data['agent']['outcome']}" for each in ends]
        return found + [each.status for each in await server.life.deliveries.list() if each.status != "done"]


@pytest.mark.slow
async def test_a_conversation_killed_at_any_write_ends_once_and_its_api_knows(tmp_path: Path) -> None:
    async with SqliteDatabase(tmp_path / "start.db"):
        pass
    process = start(converse_and_die, tmp_path)
    kills, killed = 0, True
    try:
        while killed:
            assert process.stdin is not None
            process.stdin.write(f"{kills + 1}\n")
            process.stdin.flush()
            killed = await line_of(process) == "-9"
            path = tmp_path / f"{kills + 1}.db"
            left = await _end_elsewhere(path)
            assert left in ([], ["False ordered"], ["False info_only"]), f"killed at write {kills + 1}"
            api = path.with_suffix(".api")
            sent = api.read_text().splitlines() if api.exists() else []
            if left:
                events = {"on_start None", "on_end c-7"}
                if left == ["False info_only"]:  # the order was not stored yet
                    events.add("on_no_action c-7")
                assert set(sent) == events
                assert len(sent) <= len(events) + 1
            else:
                assert sent == []
            kills += killed
    finally:
        process.kill()
        process.communicate()
    assert kills > 10
    print(f"{kills} kills")
