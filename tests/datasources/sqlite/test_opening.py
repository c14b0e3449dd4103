"""Opening a file: what is not ours is refused with a clear error and left as it was,
byte for byte.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from datasources.base import Record
from datasources.errors import (
    DatabaseDamaged,
    DatabaseOutdated,
    DatabaseVersion,
    SourceError,
    SourceUnavailable,
)
from datasources.sqlite import SqliteDatabase, schema
from datasources.types import Mutation
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, keys_of, make_flow
from tests.contracts.searches import search_text
from tests.datasources.sqlite.helpers import digest, files_in, make_numbered, opened
from tests.datasources.sqlite.recount import faults


async def refused(path: Path) -> SourceError:
    """Open a file that cannot be opened, and look that nothing was changed or left beside it."""
    before = digest(path)
    others = files_in(path.parent)
    with pytest.raises(SourceError) as caught:
        async with SqliteDatabase(path):
            pass
    assert digest(path) == before
    assert files_in(path.parent) == others
    assert str(path) in str(caught.value)
    return caught.value


async def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="it is a directory") as caught:
        async with SqliteDatabase(tmp_path):
            pass
    assert caught.value.source == str(tmp_path)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    "content", [b"hello", b"SQLite format 3\0" + b"x" * 2000, os.urandom(5000)]
)
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    assert isinstance(await refused(path), DatabaseDamaged)


@pytest.mark.parametrize("user_version", [0, 1, 7])
async def test_a_database_of_another_program_is_refused(tmp_path: Path, user_version: int) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE nodes (id INTEGER)")
    other.execute(f"PRAGMA user_version = {user_version}")
    other.commit()
    other.close()
    error = await refused(path)
    assert isinstance(error, DatabaseDamaged)
    assert "another program" in error.reason


async def test_an_empty_database_marked_by_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("PRAGMA application_id = 1234")
    other.commit()
    other.close()
    assert isinstance(await refused(path), DatabaseDamaged)


async def test_a_new_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "made" / "a.db"
    async with SqliteDatabase(path) as database:
        await make_flow(database)
        modes = {
            file.name: file.stat().st_mode & 0o777
            for file in path.parent.iterdir()
            if file.is_file()
        }
        assert modes.pop("a.db") == 0o600
        assert set(modes.values()) == {0o600}  # what SQLite puts beside it
        assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_database_that_others_were_let_read_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SqliteDatabase(path):
        pass
    path.chmod(0o640)
    async with SqliteDatabase(path):
        assert path.stat().st_mode & 0o777 == 0o640


async def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    with pytest.raises(SourceUnavailable):
        async with SqliteDatabase(tmp_path / "file" / "graphs.db"):
            pass
    assert (tmp_path / "file").read_text() == "content"


@pytest.mark.parametrize(
    "name", ["with space.db", "100%.db", "a?mode=ro.db", "#.db", "é'\".db", "[x].db"]
)
async def test_any_file_name_works(tmp_path: Path, name: str) -> None:
    await make_numbered(tmp_path / name, 2)
    assert {file.partition(name)[0] for file in files_in(tmp_path)} == {""}
    async with opened(tmp_path / name) as source:
        assert keys_of(await source.get_nodes(FLOW)) == ["n000", "n001"]


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A folder that anyone may enter, while this process has the rights of an ordinary user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o700)


def set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)


@contextmanager
def without_privileges() -> Iterator[None]:
    """Lay down the rights of root, if this is root: root may do what modes forbid."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(mine)


async def test_a_folder_that_may_not_be_written_is_refused(nobodys: Path) -> None:
    set_mode(nobodys, 0o555)
    with without_privileges(), pytest.raises(SourceUnavailable, match="Permission denied"):
        async with SqliteDatabase(nobodys / "graphs.db"):
            pass
    assert files_in(nobodys) == []


@pytest.mark.parametrize(
    ("file", "folder"), [(0, 0o777), (0o444, 0o555)], ids=["unreadable", "in a read-only folder"]
)
async def test_a_file_without_the_rights_that_it_takes_is_refused(
    nobodys: Path, file: int, folder: int
) -> None:
    path = nobodys / "graphs.db"
    await make_numbered(path, 2)
    set_mode(path, file)
    set_mode(nobodys, folder)
    before = digest(path)
    with without_privileges(), pytest.raises(SourceUnavailable):
        async with opened(path) as source:
            await source.get_nodes(FLOW)
    assert digest(path) == before


async def test_a_file_that_may_only_be_read_is_read_and_refuses_writes(nobodys: Path) -> None:
    path = nobodys / "graphs.db"
    await make_numbered(path, 2)
    set_mode(path, 0o444)
    set_mode(nobodys, 0o777)
    before = digest(path)
    with without_privileges():
        async with opened(path) as source:
            assert keys_of(await source.get_nodes(FLOW)) == ["n000", "n001"]
            with pytest.raises(SourceUnavailable, match="readonly"):
                await source.apply(Mutation(graph_key=FLOW, delete_nodes=["n000"]))
    assert digest(path) == before


async def test_a_full_disk_refuses_the_write_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "graphs.db"
    await make_numbered(path, 2)
    async with SqliteDatabase(path) as database:
        source = database.source(WORKSPACE)

        def fill(connection: sqlite3.Connection) -> None:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")

        await database._opened.pool.write(fill)
        big = [a_node(f"big{i}", data="word " * 3000) for i in range(40)]
        with pytest.raises(SourceUnavailable, match="full"):
            await source.apply(Mutation(graph_key=FLOW, put_nodes=big))
        assert keys_of(await source.get_nodes(FLOW)) == ["n000", "n001"]
        assert await source.apply(Mutation(graph_key=FLOW, delete_nodes=["n000"])) == 2
    assert faults(path) == []


def damage(path: Path, first_page: int) -> None:
    content = bytearray(path.read_bytes())
    for start in range(first_page * schema.PAGE_BYTES, len(content), schema.PAGE_BYTES):
        content[start : start + 200] = b"\xa5" * 200
    path.write_bytes(content)


async def use_all(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        source = database.source(WORKSPACE)
        assert (await database.check())[-1].status == "error"
        await source.list_graphs()
        await search_text(source, FLOW, "common", limit=5)
        await source.get_nodes(FLOW)
        await source.get_neighborhood(FLOW, ["n000"], max_depth=1, limit=5)
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n")]))


@pytest.mark.parametrize("first_page", [*range(1, 8), *range(8, 30, 4)])
async def test_damage_anywhere_is_one_of_our_errors(tmp_path: Path, first_page: int) -> None:
    path = tmp_path / "graphs.db"
    await make_numbered(path, 200)
    damage(path, first_page)
    with pytest.raises(DatabaseDamaged):
        await use_all(path)


async def test_a_truncated_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "graphs.db"
    await make_numbered(path, 200)
    path.write_bytes(path.read_bytes()[: 3 * schema.PAGE_BYTES])
    with pytest.raises((DatabaseDamaged, SourceUnavailable)):
        async with opened(path) as source:
            await source.get_nodes(FLOW)


@pytest.mark.parametrize("later", [1, -1])
async def test_a_file_of_another_version_is_refused(tmp_path: Path, later: int) -> None:
    path = tmp_path / "graphs.db"
    async with SqliteDatabase(path) as database:
        await make_flow(database)
    file = sqlite3.connect(path)
    file.execute(f"PRAGMA user_version = {schema.VERSION + later}")
    file.close()
    problem = await refused(path)
    assert isinstance(problem, DatabaseVersion if later > 0 else DatabaseOutdated)
    assert ("export its graphs" in str(problem)) == (later < 0)


async def test_a_file_without_the_count_of_changes_gets_it(tmp_path: Path) -> None:
    """As a program made it that did not count: what that one changes from now on is counted too."""
    path = tmp_path / "graphs.db"
    async with opened(path) as source:
        await source.create_graph(a_graph())
    older = sqlite3.connect(path, isolation_level=None)
    for name in schema.TRIGGER_STATEMENTS:
        older.execute(f"DROP TRIGGER {name}")
    older.execute("DELETE FROM meta WHERE name = ?", [schema.GRAPH_CHANGES])
    async with opened(path) as source:
        assert (await source.get_graph(FLOW)).revision == 0
        older.execute("UPDATE graphs SET body = json_set(CAST(body AS TEXT), '$.revision', 7)")
        assert (await source.get_graph(FLOW)).revision == 7
    older.close()


async def test_a_file_without_an_index_of_records_gets_it_and_keeps_its_records(
    tmp_path: Path,
) -> None:
    """As a program made it that knew fewer kinds."""
    path = tmp_path / "graphs.db"
    async with SqliteDatabase(path) as database:
        data = {"enabled": True, "nextTime": 5}
        stored = await database.records(WORKSPACE).put(
            Record(kind="automation", key="a", data=data), expected_version=None
        )
    older = sqlite3.connect(path)
    for name in schema.RECORD_INDEX_STATEMENTS:
        if name.startswith(("records_automation_", "records_session_")):
            older.execute(f"DROP INDEX {name}")
    older.close()
    async with SqliteDatabase(path) as database:
        records = database.records(WORKSPACE)
        found = await records.query("automation", {"enabled": True}, order_by="nextTime", at_most=5)
        assert found == [stored]
        assert await records.query("session", {"open": True}) == []
    assert faults(path) == []


async def test_the_first_write_ahead_log_is_read_by_the_next_opening(tmp_path: Path) -> None:
    """A copy taken with its log, as a crash leaves them, holds what was acknowledged."""
    path = tmp_path / "graphs.db"
    copy = tmp_path / "copy" / "graphs.db"
    copy.parent.mkdir()
    async with SqliteDatabase(path) as database:
        await make_flow(database)
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    async with opened(copy) as source:
        assert len(await source.get_nodes(FLOW)) == 5
    assert faults(copy) == []


async def test_words_that_an_older_version_made_are_made_anew_once(tmp_path: Path) -> None:
    path = tmp_path / "graphs.db"
    async with SqliteDatabase(path) as database:
        source = database.source(WORKSPACE)
        await make_flow(database)
        node = a_node("street", data={"name": "Straße prüfen"})
        await source.apply(Mutation(graph_key=FLOW, put_nodes=(node,)))
    older = sqlite3.connect(path)
    (rid,) = older.execute("SELECT rid FROM nodes WHERE key = 'street'").fetchone()
    older.execute(
        "UPDATE words SET name = 'stra ß e prufen', data = 'name stra ß e prufen' WHERE rowid = ?",
        (rid,),
    )
    older.execute("UPDATE graphs SET text_version = text_version + 1")
    older.execute("DELETE FROM meta WHERE name = 'words'")
    older.commit()
    older.close()
    for _ in range(2):
        async with SqliteDatabase(path) as database:
            hits = await search_text(database.source(WORKSPACE), FLOW, "strasse", limit=3)
            assert [hit.key for hit in hits] == ["street"]
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute("SELECT value FROM meta WHERE name = 'words'").fetchall()
    assert rows == [("2",)]
