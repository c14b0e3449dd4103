"""A server killed in the middle of live editing loses nothing that it acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from datasources.sqlite import SqliteDatabase
from graphrag.live import LiveGraphs
from tests.contracts.samples import FLOW, WORKSPACE, make_flow
from tests.datasources.sqlite.helpers import line_of, start
from tests.graphrag.live import workers


@pytest.mark.slow
@pytest.mark.parametrize(("save_every_ms", "lines"), [(30_000, 400), (40, 1500), (5, 600)])
async def test_after_a_kill_every_acknowledged_edit_is_there(
    tmp_path: Path, save_every_ms: int, lines: int
) -> None:
    path = tmp_path / "graphs.db"
    async with SqliteDatabase(path) as database:
        await make_flow(database)
    process = start(workers.edit_until_killed, path, save_every_ms)
    printed = [await line_of(process) for _ in range(lines)]
    process.kill()
    assert process.stdout is not None
    # Not communicate(): it passes over what is already buffered, and may begin in the middle of a line.
    rest = await asyncio.to_thread(process.stdout.read)
    process.communicate()
    assert process.returncode == -9
    whole = rest.rpartition("\n")[0].splitlines()  # the last line may be cut
    acknowledged = [line.split() for line in [*printed, *whole]]
    async with SqliteDatabase(path) as database, LiveGraphs(database.source, database.records) as graphs:
        await graphs.recover(WORKSPACE)
        nodes = {node.key: node for node in await database.source(WORKSPACE).get_nodes(FLOW)}
        assert await database.records(WORKSPACE).query("journal") == []
    for number in {number for number, _ in acknowledged}:
        counts = [int(word) for editor, word in acknowledged if editor == number and "+" not in word]
        stored = cast(dict[str, str], nodes[f"node-{number}"].data)
        # One may be kept and not answered yet, and of one before it the answer's line may be cut.
        assert 0 <= int(stored["name"]) - max(counts) <= 2
        made = {word[1:] for editor, word in acknowledged if editor == number and "+" in word}
        assert all(f"node-{number}-{count}" in nodes for count in made)
