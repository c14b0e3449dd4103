"""Backup and restore: whole, of one moment while others write, checked, and never by mistake."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from datasources.base import Record
from datasources.errors import DatabaseBusy, DatabaseDamaged
from datasources.sqlite import SqliteDatabase, backup
from datasources.types import Graph, Mutation, Node
from graphrag.app.backups import back_up_folder, restore_folder
from graphrag.approvals.audit import Audit
from graphrag.leases import now_ms
from tests.support.commands import run_command

FLOW = "flow"


async def everything(path: Path) -> list[Any]:
    """Return what a database holds, as documents."""
    async with SqliteDatabase(path) as database:
        source = database.source("default")
        records = database.records("default")
        return [
            [graph.to_document() for graph in await source.list_graphs()],
            [node.to_document() for node in await source.get_nodes(FLOW)],
            [(record.key, record.data) for record in await records.query("audit", limit=1000)],
        ]


async def filled(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        await database.source("default").create_graph(
            Graph(key=FLOW, name="Flow", workspace="default")
        )
        await add(database, 0)


async def add(database: SqliteDatabase, number: int) -> None:
    """Store a node, then say so in the audit log."""
    node = Node(key=f"n{number:05}", graph_key=FLOW, type="task")
    await database.source("default").apply(Mutation(graph_key=FLOW, put_nodes=[node]))
    records = database.records("default")
    await Audit(records, now_ms).record({"event": "added", "node": node.key}, records.write)


def test_a_restored_database_equals_the_one_that_was_backed_up(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    copy = tmp_path / "safe" / "copy.db"
    asyncio.run(filled(path))
    before = asyncio.run(everything(path))
    done = run_command("backup", copy, "--db", f"sqlite:{path}")
    assert done.exit_code == 0, done.output
    assert "1 graphs, 1 nodes" in done.output
    assert copy.stat().st_mode & 0o077 == 0
    asyncio.run(changed(path))
    assert asyncio.run(everything(path)) != before
    refused = run_command("restore", copy, "--db", f"sqlite:{path}")
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert asyncio.run(everything(path)) != before
    done = run_command("restore", copy, "--force", "--db", f"sqlite:{path}")
    assert done.exit_code == 0, done.output
    assert asyncio.run(everything(path)) == before
    assert (tmp_path / "n.db.before-restore").is_file()
    assert sorted(p.name for p in copy.parent.iterdir()) == ["copy.db"]


async def changed(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        await add(database, 1)


async def test_a_backup_while_others_write_is_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "PAGES", 1)
    path = tmp_path / "n.db"
    copy = tmp_path / "copy.db"
    await filled(path)
    loop = asyncio.get_running_loop()
    async with SqliteDatabase(path) as database:
        numbers = iter(range(1, 10_000))

        def between(done: int, of: int) -> None:
            if done % 20 == 0:
                asyncio.run_coroutine_threadsafe(add(database, next(numbers)), loop).result(30)

        await asyncio.to_thread(backup.back_up, path, copy, between)
        assert next(numbers) > 2
    kept = await everything(copy)
    assert len(kept[1]) == 1
    assert len(await nodes_of(path)) > 1


async def nodes_of(path: Path) -> list[Node]:
    async with SqliteDatabase(path) as database:
        return await database.source("default").get_nodes(FLOW)


async def test_a_database_in_use_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    copy = tmp_path / "copy.db"
    await filled(path)
    backup.back_up(path, copy, lambda *_: None)
    async with SqliteDatabase(path) as database:
        await database.source("default").get_nodes(FLOW)
        with pytest.raises(DatabaseBusy):
            await asyncio.to_thread(backup.restore, copy, path, force=True)
        await add(database, 1)
    assert len(await nodes_of(path)) == 2


def test_a_backup_that_fails_leaves_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    copy = tmp_path / "copy.db"
    asyncio.run(filled(path))
    backup.back_up(path, copy, lambda *_: None)
    kept = copy.read_bytes()
    assert run_command("backup", copy, "--db", f"sqlite:{path}").exit_code == 2
    assert (
        run_command("backup", copy, "--force", "--db", f"sqlite:{tmp_path / 'none.db'}").exit_code
        == 1
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 7")
    with pytest.raises(DatabaseDamaged):
        backup.back_up(path, copy, lambda *_: None, force=True)
    assert copy.read_bytes() == kept
    assert not list(tmp_path.glob("*.part*"))
    assert threading.active_count() < 50


async def test_a_backup_whose_audit_log_was_altered_is_not_restored(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    copy = tmp_path / "copy.db"
    await filled(path)
    backup.back_up(path, copy, lambda *_: None)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute(
            "UPDATE records SET data = replace(data, 'added', 'gone') WHERE kind = 'audit'"
        )
        connection.commit()
    target = tmp_path / "new.db"
    done = await asyncio.to_thread(run_command, "restore", copy, "--db", f"sqlite:{target}")
    assert done.exit_code == 1
    assert "audit" in done.output
    assert not target.exists()


async def test_a_folder_of_a_workspace_restores_graphs_and_records_into_an_empty_one(
    tmp_path: Path,
) -> None:
    first = tmp_path / "a.db"
    second = tmp_path / "b.db"
    folder = tmp_path / "folder"
    await filled(first)
    async with SqliteDatabase(first) as database:
        records = database.records("default")
        for kind in ("thread", "imports", "usage", "embedding"):
            stored = Record(kind=kind, key="t", data={"graphKey": FLOW})
            await records.put(stored, expected_version=None)
        held = await back_up_folder(database, "default", folder, lambda _: None)
        with pytest.raises(FileExistsError):
            await back_up_folder(database, "default", folder, lambda _: None)
        with pytest.raises(FileExistsError):
            await restore_folder(database, "default", folder, lambda _: None)
    async with SqliteDatabase(second) as database:
        assert await restore_folder(database, "default", folder, lambda _: None) == held
        for kind in ("thread", "imports", "usage", "embedding"):
            assert await database.records("default").get(kind, "t") is not None
    graphs, nodes, audit = await everything(second)
    before = await everything(first)
    assert [nodes, audit] == before[1:]
    assert [graph["_key"] for graph in graphs] == [FLOW]
