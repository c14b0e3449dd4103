"""Opening, closing, cancelling and power cuts: work ends whole or not at all, and stays once
it is done.
"""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from datasources.base import MutableGraphDataSource, Record, RecordStore
from datasources.errors import InvalidMutation, SourceUnavailable
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from tests.contracts.samples import (
    FLOW,
    WORKSPACE,
    a_graph,
    a_node,
    a_type,
    an_edge,
    keys_of,
    make_flow,
)
from tests.contracts.searches import search_text
from tests.contracts.workspaces import CALLS
from tests.datasources.sqlite.helpers import (
    NOTHING_IS_SMALL,
    files_in,
    make_numbered,
    numbered,
    opened,
)
from tests.datasources.sqlite.recount import faults

Source = MutableGraphDataSource


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graphs.db"


OTHER_CALLS: dict[str, Callable[[Source, str], Awaitable[Any]]] = {
    "list_graphs": lambda source, key: source.list_graphs(),
    "get_node_configs": lambda source, key: source.get_node_configs(),
    "create_graph": lambda source, key: source.create_graph(a_graph("new")),
    "put_node_config": lambda source, key: source.put_node_config(a_type("t")),
}


@pytest.mark.parametrize("limits", [None, NOTHING_IS_SMALL])
async def test_a_source_of_a_closed_database_is_unavailable(path: Path, limits: Any) -> None:
    async with SqliteDatabase(path, limits=limits) as database:
        source = await make_flow(database)
    for call in (*CALLS.values(), *OTHER_CALLS.values()):
        with pytest.raises(SourceUnavailable):
            await call(source, FLOW)


RECORD_CALLS: dict[str, Callable[[RecordStore], Awaitable[Any]]] = {
    "get": lambda records: records.get("audit", "k"),
    "put": lambda records: records.put(
        Record(kind="audit", key="k", data={}), expected_version=None
    ),
    "delete": lambda records: records.delete("audit", "k", expected_version="1"),
    "query": lambda records: records.query("audit"),
}


async def test_records_of_a_closed_database_are_unavailable(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        records = database.records(WORKSPACE)
    for call in RECORD_CALLS.values():
        with pytest.raises(SourceUnavailable):
            await call(records)


async def test_a_database_that_is_not_open_hands_out_nothing(path: Path) -> None:
    database = SqliteDatabase(path)
    for ask in (database.source, database.records):
        with pytest.raises(SourceUnavailable, match="not open"):
            ask(WORKSPACE)
    assert files_in(path.parent) == []
    assert [finding.status for finding in await database.check()] == ["error"]
    async with database:
        assert await database.source(WORKSPACE).list_graphs() == []
    with pytest.raises(SourceUnavailable):
        database.source(WORKSPACE)


async def test_closing_leaves_one_file(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        await make_flow(database)
    assert [file.name for file in path.parent.iterdir()] == ["graphs.db"]


async def test_closing_ends_every_thread(path: Path) -> None:
    before = set(threading.enumerate())
    async with opened(path, NOTHING_IS_SMALL) as source:
        await source.create_graph(a_graph())
        await asyncio.gather(*(source.get_nodes(FLOW) for _ in range(20)))
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert not [name for name in left if name.startswith("sqlite")]


@pytest.mark.slow
async def test_a_cancelled_write_is_in_whole_or_not_at_all(path: Path) -> None:
    """Cancelled at every stage from "not begun" to "done"; whatever came of it, the next
    write goes on.
    """
    async with opened(path) as source:
        await source.create_graph(a_graph())
        for turn in range(30):
            before = (await source.get_graph(FLOW)).revision
            keys = [f"t{turn:02}-{i}" for i in range(40)]
            mutation = Mutation(graph_key=FLOW, put_nodes=[a_node(key) for key in keys])
            task = asyncio.create_task(source.apply(mutation))
            for _ in range(turn):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            after = await source.apply(Mutation(graph_key=FLOW))
            stored = len(await source.get_nodes_by_key(FLOW, keys))
            assert (after - before, stored) in ((1, 0), (2, 40))
            assert task.cancelled() or task.result() == before + 1
    assert faults(path) == []


async def test_a_write_cancelled_while_it_runs_goes_on_to_its_end(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        source = await make_flow(database)
        pool = source.engine.pool  # pyright: ignore[reportAttributeAccessIssue]
        begun = threading.Event()
        go_on = threading.Event()

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM edges")
            begun.set()
            go_on.wait(30)
            connection.execute("UPDATE graphs SET edges = 0")

        task = asyncio.create_task(pool.write(work))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert len(await source.get_edges(FLOW)) == 6  # not yet: readers see the moment before
        go_on.set()
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("next")]))
        assert await source.get_edges(FLOW) == []
    assert faults(path) == []


async def test_closing_waits_for_a_write_under_way(path: Path) -> None:
    async with opened(path) as source:
        await source.create_graph(a_graph())
        task = asyncio.create_task(source.apply(numbered(range(300))))
        await asyncio.sleep(0)
    assert await task == 1
    async with opened(path) as source:
        assert (await source.get_stats(FLOW)).nodes == 300
    assert faults(path) == []


@pytest.mark.slow
async def test_closing_while_indexes_are_built_ends_and_leaves_nothing_half_done(
    path: Path,
) -> None:
    await make_numbered(path, 400, NOTHING_IS_SMALL)
    for turn in range(8):
        async with opened(path, NOTHING_IS_SMALL) as source:
            await source.apply(numbered(range(turn * 50, turn * 50 + 50), note=f"turn{turn}"))
            task = asyncio.create_task(source.build_indexes(FLOW))
            for _ in range(turn):
                await asyncio.sleep(0)
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        assert outcome is None or isinstance(outcome, SourceUnavailable), outcome
        folder = path.with_name(path.name + "-indexes")
        assert list(folder.glob("*.tmp")) == []
    async with opened(path, NOTHING_IS_SMALL) as source:
        assert len(await search_text(source, FLOW, "common", limit=999)) == 400
    assert faults(path) == []


async def test_a_failing_write_leaves_the_writer_usable(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        source = await make_flow(database)
        pool = source.engine.pool  # pyright: ignore[reportAttributeAccessIssue]

        def fail(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM nodes")
            raise KeyError("in the middle")

        with pytest.raises(KeyError):
            await pool.write(fail)
        with pytest.raises(SourceUnavailable):
            await pool.write(lambda c: c.execute("NO SUCH SQL"))
        assert await source.apply(Mutation(graph_key=FLOW, delete_nodes=["b"])) == 2
        assert keys_of(await source.get_nodes(FLOW)) == ["a", "apart", "c", "d"]
    assert faults(path) == []


async def test_rows_are_tied_to_each_other_after_writes_that_only_add(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        source = await make_flow(database)
        await source.apply(numbered(range(40)))
        refused = Mutation(graph_key=FLOW, put_edges=[an_edge("lost", "n001", "nobody")])
        with pytest.raises(InvalidMutation):
            await source.apply(refused)
        await source.apply(Mutation(graph_key=FLOW, put_edges=[an_edge("kept", "n001", "n002")]))
        await source.apply(Mutation(graph_key=FLOW, delete_nodes=["n002"]))
        assert "kept" not in keys_of(await source.get_edges(FLOW))
        pool = source.engine.pool  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(SourceUnavailable, match="FOREIGN KEY"):
            await pool.write(lambda c: c.execute("UPDATE edges SET source = 1 << 40"))
        assert await pool.read(lambda c: c.execute("PRAGMA foreign_key_check").fetchall()) == []
        await source.delete_graph(FLOW)
        assert await pool.read(lambda c: c.execute("SELECT count(*) FROM vectors").fetchone()) == (
            0,
        )
    assert faults(path) == []


async def test_a_reader_that_fails_sees_later_writes_all_the_same(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        source = await make_flow(database)
        pool = source.engine.pool  # pyright: ignore[reportAttributeAccessIssue]

        def fail(connection: sqlite3.Connection) -> None:
            connection.execute("SELECT * FROM nodes").fetchone()
            raise KeyError("in the middle")

        for _ in range(8):  # every reader's thread
            with pytest.raises(KeyError):
                await pool.read(fail)
        await source.apply(Mutation(graph_key=FLOW, delete_nodes=["b"]))
        for _ in range(8):
            assert keys_of(await source.get_nodes(FLOW)) == ["a", "apart", "c", "d"]


def a_record(kind: str, key: str) -> Record:
    return Record(kind=kind, key=key, data={"n": key})


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How large the log was at each sync, which takes as long as on a disk: where files are in
    memory it ends before the next write begins.
    """
    seen: list[int] = []
    sync = os.fsync

    def counted(number: int) -> None:
        seen.append(os.fstat(number).st_size)
        time.sleep(0.005)
        sync(number)

    monkeypatch.setattr(os, "fsync", counted)
    return seen


async def test_decisions_audit_and_journal_are_synced_and_what_passes_is_not(
    tmp_path: Path, syncs: list[int]
) -> None:
    async with SqliteDatabase(tmp_path / "n.db") as database:
        records = database.records("w")
        for kind in ("lease", "thread", "trace"):
            await records.put(a_record(kind, "a"), expected_version=None)
        assert syncs == []
        for count, kind in enumerate(("approval", "audit", "journal", "history"), start=1):
            await records.put(a_record(kind, "a"), expected_version=None)
            assert len(syncs) == count
            assert syncs[-1] == (tmp_path / "n.db-wal").stat().st_size


async def test_writes_at_once_share_a_sync_begun_after_the_last(
    tmp_path: Path, syncs: list[int]
) -> None:
    async with SqliteDatabase(tmp_path / "n.db") as database:
        records = database.records("w")
        put = (records.put(a_record("audit", str(i)), expected_version=None) for i in range(64))
        await asyncio.gather(*put)
        assert len(syncs) < 64
        assert syncs[-1] == (tmp_path / "n.db-wal").stat().st_size


async def test_a_log_that_cannot_be_synced_is_an_error_of_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    async with SqliteDatabase(tmp_path / "n.db") as database:
        records = database.records("w")
        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(SourceUnavailable):
            await records.put(a_record("audit", "a"), expected_version=None)
        monkeypatch.undo()
        await records.put(a_record("audit", "b"), expected_version=None)
