"""Index files beside the database are never trusted: missing, damaged or stale,
answers stay right.
"""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from datasources.hits import Hit, VectorQuery
from datasources.sqlite import change_log
from datasources.sqlite import statements as sql
from datasources.sqlite.index_manager import IndexFiles, is_whole
from datasources.sqlite.source import SqliteSource
from datasources.types import Mutation
from tests.contracts.samples import (
    FLOW,
    MODEL,
    a_graph,
    a_node,
    a_type,
    a_vector,
    assert_same_hits,
    floats,
    keys_of,
)
from tests.contracts.searches import search_text, search_vectors
from tests.datasources.sqlite import workers
from tests.datasources.sqlite.helpers import (
    NOTHING_IS_SMALL,
    files_in,
    finish,
    make_numbered,
    numbered,
    opened,
    start,
    word,
)

COUNT = 60
QUESTIONS = ["common", word(7), f"{word(1)} common {word(59)}", "changed"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graphs.db"


@pytest.fixture
async def indexed(path: Path) -> Path:
    """A database with index files of the text and of both vectors of its one graph."""
    await make_numbered(path, COUNT)
    await build(path)
    assert len(index_files(path)) == 3
    return path


def index_files(path: Path) -> list[Path]:
    return sorted(path.with_name(path.name + "-indexes").glob("*.index"))


async def build(path: Path) -> None:
    async with opened(path, NOTHING_IS_SMALL) as source:
        await source.build_indexes(FLOW)


async def answers(source: SqliteSource, limit: int) -> list[list[Hit]]:
    text = [
        await search_text(source, FLOW, question, limit=limit, field=field)
        for question in QUESTIONS
        for field in ("content", "name")
    ]
    vectors = [
        await search_vectors(
            source,
            FLOW,
            VectorQuery(vector=floats(1, at), model=MODEL, limit=limit, min_score=-1, field=field),
        )
        for at in (0, 30, -5)
        for field in ("content", "name")
    ]
    return text + vectors


async def assert_right(path: Path, source: SqliteSource, *, stale: bool = False) -> None:
    """Compare what large graphs answer with what is found exactly, in memory.

    A `stale` text index finds every node that has a word, and no other; it weighs words
    as they were.
    """
    async with opened(path) as exact:
        limit = 999 if stale else 9
        pairs = zip(await answers(source, limit), await answers(exact, 999), strict=True)
        for number, (found, everything) in enumerate(pairs):
            if stale and number < 2 * len(QUESTIONS):
                assert sorted(keys_of(found)) == sorted(keys_of(everything))
            else:
                assert_same_hits(found, everything, limit=limit, min_score=-1)


async def test_an_index_answers_like_an_exact_search(indexed: Path) -> None:
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        await assert_right(indexed, source)


async def test_searching_without_index_files_makes_them(path: Path) -> None:
    await make_numbered(path, COUNT)
    async with opened(path, NOTHING_IS_SMALL) as source:
        await assert_right(path, source)
        await asyncio.gather(*map(asyncio.wrap_future, source.engine.indexes._updates.values()))
        assert len(index_files(path)) == 3
        await assert_right(path, source)


DAMAGES = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "start overwritten": lambda content: b"\xff" * 64 + content[64:],
    "one bit in the middle": lambda content: _flipped(content, len(content) // 2),
    "one bit near the end": lambda content: _flipped(content, len(content) - 200),
    "a page of zeros": lambda content: content[:512] + bytes(512) + content[1024:],
}


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damaged_files_are_made_again(indexed: Path, damage: str) -> None:
    for folder in index_files(indexed):
        for file in folder.glob("[!.]*"):
            content = file.read_bytes()
            file.write_bytes(DAMAGES[damage](content))
    for _ in range(2):
        async with opened(indexed, NOTHING_IS_SMALL) as source:
            await assert_right(indexed, source)
            await source.build_indexes(FLOW)
            assert len(index_files(indexed)) == 3
            await assert_right(indexed, source)


async def test_vector_indexes_of_an_older_format_are_made_again(indexed: Path) -> None:
    files = IndexFiles(indexed, identity_of(indexed))
    for folder in [path for path in index_files(indexed) if "-vector-" in path.name]:
        _, graph, *name, number, _ = folder.stem.split("-")
        old = {file.name: file.read_bytes() for file in folder.glob("*.npy")}
        shutil.rmtree(folder)

        def write(path: Path, old: dict[str, bytes] = old) -> None:
            for file in ("rids.npy", "unit.npy"):
                (path / file).write_bytes(old[file])
            (path / "codes.npy").write_bytes(b"of four bits")

        files.place(int(graph), "-".join(name), int(number), write)
    assert len(index_files(indexed)) == 3
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        await assert_right(indexed, source)
        await source.build_indexes(FLOW)
        await assert_right(indexed, source)
    folders = [path for path in index_files(indexed) if "-vector-" in path.name]
    assert [(path / "int8.npy").is_file() for path in folders] == [True, True]


def identity_of(path: Path) -> str:
    connection = sqlite3.connect(path)
    (identity,) = connection.execute(sql.IDENTITY).fetchone()
    connection.close()
    return identity


def test_writing_the_same_index_twice_at_once_spoils_neither(tmp_path: Path) -> None:
    files = IndexFiles(tmp_path / "graphs.db", "identity")

    def slow(path: Path) -> None:
        (path / "a").write_bytes(b"half of ")
        files.place(1, "text", 5, lambda other: (other / "a").write_bytes(b"another's") and None)
        with (path / "a").open("ab") as file:
            file.write(b"it")

    for _ in range(2):  # the very same again changes nothing
        files.place(1, "text", 5, slow)
        placed = {
            (path / "a").read_bytes() for _, path in files.versions(1, "text") if is_whole(path)
        }
        assert placed == {b"half of it", b"another's"}
        assert len(files_in(files.folder)) == 2


def test_an_index_that_is_older_than_another_by_the_time_it_is_written_does_not_stay(
    tmp_path: Path,
) -> None:
    files = IndexFiles(tmp_path / "graphs.db", "identity")

    def overtaken(path: Path) -> None:
        files.place(1, "text", 6, lambda newer: (newer / "a").write_bytes(b"newer") and None)
        (path / "a").write_bytes(b"older")

    files.place(1, "text", 5, overtaken)
    assert [number for number, _ in files.versions(1, "text")] == [6]
    assert len(files_in(files.folder)) == 1


async def test_files_with_strange_names_do_no_harm(indexed: Path) -> None:
    folder = index_files(indexed)[0].parent
    identity = identity_of(indexed)[:12]
    of_ours = [
        "-.index",
        "-1.index",
        "-1-text.index",
        "-1-text-x-y.index",
        "-9-text-1-00000000.index",
    ]
    strange = ["x.index", "-1-text-1-0.index", *(identity + name for name in of_ours)]
    for name in strange:
        (folder / name).write_bytes(b"strange")
    (folder / f"{identity}-1-text-1-00000000.index").mkdir()
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        await assert_right(indexed, source)


def test_a_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    files = IndexFiles(tmp_path / "graphs.db", "identity")

    def fail(path: Path) -> None:
        (path / "a").write_bytes(b"half of ")
        raise KeyError("in the middle")

    with pytest.raises(KeyError):
        files.place(1, "text", 5, fail)
    assert files_in(files.folder) == []


async def test_changes_after_the_build_are_found(indexed: Path) -> None:
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        await source.apply(
            Mutation(
                graph_key=FLOW,
                put_nodes=[
                    a_node("n007", data="changed"),
                    a_node("new", data=f"changed {word(7)}"),
                ],
                put_vectors=[
                    a_vector("n007", -1.0, 5.0, name=(-1.0, 0.0)),
                    a_vector("new", 1.0, 30.0),
                ],
                delete_nodes=["n030", "n031"],
            )
        )
        await assert_right(indexed, source, stale=True)
        assert keys_of(await search_text(source, FLOW, word(7), limit=5)) == ["new"]
        found = await search_vectors(
            source, FLOW, VectorQuery(vector=floats(1, 30), model=MODEL, limit=1)
        )
        assert keys_of(found) == ["new"]
        for _ in range(2):
            await source.build_indexes(FLOW)
            await assert_right(indexed, source)
        assert len(index_files(indexed)) == 3


async def test_a_changed_type_is_found_in_a_stale_index(indexed: Path) -> None:
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        await source.put_node_config(a_type("task", display_name="Changed"))
        assert len(await search_text(source, FLOW, "changed", limit=999, field="name")) == COUNT
        await assert_right(indexed, source, stale=True)


@pytest.mark.parametrize("most", [0, 1, 5])
@pytest.mark.slow
async def test_an_index_that_lags_too_far_behind_is_not_used(
    indexed: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(change_log, "MAX_BEHIND", most)
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        for turn in range(4):
            await source.apply(numbered(range(turn * 9, turn * 9 + 4), note="changed"))
            await source.apply(Mutation(graph_key=FLOW, delete_nodes=[f"n{turn * 9 + 1:03}"]))
            await assert_right(indexed, source, stale=True)
        await source.build_indexes(FLOW)
        await assert_right(indexed, source)


async def test_older_files_go_when_newer_are_in_place(indexed: Path) -> None:
    before = index_files(indexed)
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        await source.apply(numbered(range(5), note="changed"))
        await source.build_indexes(FLOW)
    after = index_files(indexed)
    assert len(after) == 3
    assert not set(before) & set(after)


async def test_what_a_killed_process_left_is_removed_once_it_is_old(indexed: Path) -> None:
    folder = index_files(indexed)[0].parent
    old = folder / "any-1.999.tmp"
    fresh = folder / "any-2.999.tmp"
    for folder_left in (old, fresh):
        folder_left.mkdir()
        (folder_left / "a").write_bytes(b"half")
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    async with opened(indexed, NOTHING_IS_SMALL):
        assert set(folder.iterdir()) == {fresh, *index_files(indexed)}


async def test_a_deleted_graph_takes_its_files_along_and_no_others(indexed: Path) -> None:
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        for number in range(12):  # up to a graph id that begins with the first one's
            await source.create_graph(a_graph(f"g{number}"))
        await source.apply(Mutation(graph_key="g11", put_nodes=[a_node("n", "g11", data="common")]))
        await source.build_indexes("g11")
        assert len(index_files(indexed)) == 4
        await source.delete_graph(FLOW)
        assert len(index_files(indexed)) == 1
        await source.build_indexes("g11")
        assert keys_of(await search_text(source, "g11", "common", limit=5)) == ["n"]


async def test_a_graph_deleted_while_its_index_is_built_leaves_no_file(indexed: Path) -> None:
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        await source.apply(numbered(range(40), note="changed"))
        building = asyncio.create_task(source.build_indexes(FLOW))
        await asyncio.sleep(0)
        await source.delete_graph(FLOW)
        await asyncio.gather(building, return_exceptions=True)
    assert index_files(indexed) == []


async def test_files_of_another_database_are_not_taken(indexed: Path) -> None:
    """A database put in place of another one under its name finds the other's files,
    and leaves them.
    """
    theirs = index_files(indexed)
    shutil.move(indexed, indexed.with_name("elsewhere.db"))
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        await source.create_graph(a_graph())
        await source.apply(
            Mutation(
                graph_key=FLOW,
                put_nodes=[a_node("n", data="common")],
                put_vectors=[a_vector("n", 1.0, 0.0)],
            )
        )
        assert keys_of(await search_text(source, FLOW, "common", limit=5)) == ["n"]
        assert keys_of(
            await search_vectors(
                source, FLOW, VectorQuery(vector=floats(1, 0), model=MODEL, limit=5)
            )
        ) == ["n"]
        await source.build_indexes(FLOW)
        assert set(theirs) < set(index_files(indexed))


async def test_an_older_copy_put_in_place_does_not_trust_newer_files(indexed: Path) -> None:
    """A restored copy has fewer versions than the index files beside it know."""
    copy = shutil.copy(indexed, indexed.with_name("copy.db"))
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        for turn in range(3):
            await source.apply(numbered(range(turn, 40 + turn), note="changed"))
        await source.apply(Mutation(graph_key=FLOW, delete_nodes=["n050", "n051"]))
        await source.build_indexes(FLOW)
    shutil.copy(copy, indexed)
    async with opened(indexed, NOTHING_IS_SMALL) as source:
        await assert_right(indexed, source)
        await source.apply(numbered(range(50, 52), note="changed"))
        await assert_right(indexed, source, stale=True)


@pytest.mark.slow
async def test_two_processes_build_and_search_while_one_writes(
    path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    await make_numbered(path, COUNT)
    processes.extend(start(workers.build_and_search, path, 12) for _ in range(2))
    async with opened(path, NOTHING_IS_SMALL) as source:
        for turn in range(12):
            await source.apply(numbered(range(turn, turn + 20), note="changed"))
            await source.build_indexes(FLOW)
        for builder in processes:
            assert await asyncio.to_thread(finish, builder) == "done\n"
        await source.build_indexes(FLOW)
        await assert_right(path, source)
        assert len({file.stem.rpartition("-")[0] for file in index_files(path)}) == 3
