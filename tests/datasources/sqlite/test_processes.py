"""Several processes on one file: each read sees one moment, no write is lost, also of
a killed one.
"""

import asyncio
import random
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest

from datasources.errors import DatabaseBusy
from datasources.hits import VectorQuery
from datasources.sqlite import SqliteDatabase, schema
from datasources.types import Mutation
from tests.contracts.samples import (
    FLOW,
    MODEL,
    WORKSPACE,
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
    finish,
    line_of,
    opened,
    start,
    word,
)
from tests.datasources.sqlite.recount import faults


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graphs.db"


async def all_ready(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert await line_of(process) == "ready"


@pytest.mark.slow
async def test_every_read_of_other_processes_sees_a_whole_revision(
    path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    async with opened(path) as source:
        await source.create_graph(a_graph())
    processes.extend(start(workers.read_whole_revisions, path, size) for size in ("small", "large"))
    await all_ready(processes)
    writer = start(workers.write_whole_revisions, path, 150)
    processes.append(writer)
    assert await asyncio.to_thread(finish, writer) == "done\n"
    for reader in processes[:2]:
        reads, _ = (await asyncio.to_thread(_output_after_stop, reader)).split()
        assert int(reads) > 1
    assert faults(path) == []


def _output_after_stop(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate("stop\n", timeout=60)
    assert process.returncode == 0, output
    return output


@pytest.mark.slow
async def test_two_writing_processes_lose_no_update(
    path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    async with opened(path) as source:
        await source.create_graph(a_graph())
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("sum", data={"sum": 0})]))
    processes.extend(start(workers.add_to_a_sum, path, 60) for _ in range(2))
    await all_ready(processes)
    await asyncio.gather(*(asyncio.to_thread(_output_after_stop, process) for process in processes))
    async with opened(path) as source:
        (node,) = await source.get_nodes_by_key(FLOW, ["sum"])
        assert node.data == {"sum": 120}
        assert (await source.get_graph(FLOW)).revision == 121
    assert faults(path) == []


@pytest.mark.slow
async def test_two_processes_never_get_the_same_lease(
    path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    async with SqliteDatabase(path):
        pass
    processes.extend(start(workers.claim_records, path, who, 60) for who in ("ann", "bob"))
    await all_ready(processes)
    got = await asyncio.gather(
        *(asyncio.to_thread(_output_after_stop, process) for process in processes)
    )
    claimed = [output.split() for output in got]
    assert sorted(claimed[0] + claimed[1]) == sorted(f"k{i}" for i in range(60))
    async with SqliteDatabase(path) as database:
        records = database.records(WORKSPACE)
        for who, keys in zip(("ann", "bob"), claimed, strict=True):
            assert sorted(keys_of(await records.query("lease", {"owner": who}))) == sorted(keys)


async def test_a_file_held_by_another_is_busy_after_a_while(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_S", 0.05)
    async with opened(path) as source:
        await source.create_graph(a_graph())
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy) as caught:
            await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n")]))
        assert (caught.value.path, caught.value.seconds) == (str(path), 0.05)
        assert await source.get_nodes(FLOW) == []  # reading goes on meanwhile
        other.execute("ROLLBACK")
        other.close()
        assert await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n")])) == 1


async def test_opening_waits_no_longer_for_a_file_that_is_held_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as source:
        await source.create_graph(a_graph())
    monkeypatch.setattr(schema, "BUSY_S", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseBusy):
        async with SqliteDatabase(path):
            pass
    other.execute("ROLLBACK")
    other.close()
    async with opened(path) as source:
        assert keys_of(await source.list_graphs()) == [FLOW]


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(None, id="held", marks=pytest.mark.slow),
        pytest.param(NOTHING_IS_SMALL, id="large"),
    ],
)
async def test_a_file_held_whole_by_another_keeps_a_read_waiting_and_not_the_event_loop(
    path: Path, monkeypatch: pytest.MonkeyPatch, limits: object
) -> None:
    async with opened(path) as source:
        await source.create_graph(a_graph())
    monkeypatch.setattr(schema, "BUSY_S", 0.9)
    async with opened(path, limits) as source:  # pyright: ignore[reportArgumentType]
        # A new connection of a reader must wait for the one that holds the file.
        pool = source.engine.pool
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        monkeypatch.setattr(pool, "_local", threading.local())
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        reads = [
            source.get_versions(FLOW),
            source.get_nodes_by_key(FLOW, ["n"]),
            source.get_node_configs(),
            search_text(source, FLOW, "n", limit=5),
            search_vectors(source, FLOW, VectorQuery(vector=floats(1, 0), model=MODEL, limit=5)),
        ]
        waiting = asyncio.gather(*reads, return_exceptions=True)
        longest = 0.0
        last = time.perf_counter()
        while not waiting.done():
            await asyncio.sleep(0.005)
            longest = max(longest, time.perf_counter() - last)
            last = time.perf_counter()
        assert all(isinstance(outcome, DatabaseBusy) for outcome in await waiting)
        assert longest < 0.6
        other.close()


@pytest.mark.parametrize("limits", [None, NOTHING_IS_SMALL], ids=["held", "large"])
async def test_what_another_connection_writes_is_seen_at_once(path: Path, limits: object) -> None:
    async with opened(path, limits) as reader, opened(path) as writer:  # pyright: ignore[reportArgumentType]
        await writer.create_graph(a_graph())
        for turn in range(1, 6):
            await writer.apply(
                Mutation(
                    graph_key=FLOW,
                    put_nodes=[a_node(f"n{turn}", data=word(turn))],
                    put_vectors=[a_vector(f"n{turn}", 1.0, float(turn))],
                )
            )
            key = f"n{turn}"
            assert (await reader.get_graph(FLOW)).revision == turn
            assert keys_of(await reader.get_nodes_by_key(FLOW, [key])) == [key]
            assert keys_of(await search_text(reader, FLOW, word(turn), limit=5)) == [key]
            hits = await search_vectors(
                reader, FLOW, VectorQuery(vector=floats(1, turn), model=MODEL, limit=9)
            )
            assert len(hits) == turn
            assert hits[0].score == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("limits", [None, NOTHING_IS_SMALL], ids=["held", "large"])
async def test_a_graph_made_again_under_an_old_key_never_shows_old_data(
    path: Path, limits: object
) -> None:
    """The other process deletes and makes the graph again up to the very revision that was read."""
    async with opened(path, limits) as reader, opened(path) as writer:  # pyright: ignore[reportArgumentType]
        for turn in range(4):
            await writer.create_graph(a_graph(description=f"turn {turn}"))
            await writer.apply(
                Mutation(
                    graph_key=FLOW,
                    put_nodes=[a_node("n", data=word(turn)), a_node(f"only{turn}")],
                    put_vectors=[a_vector("n", float(turn), 1.0)],
                )
            )
            assert (await reader.get_graph(FLOW)).description == f"turn {turn}"
            (node, other) = await reader.get_nodes_by_key(
                FLOW, ["n", "only0", "only1", "only2", "only3"]
            )
            assert (node.data, other.key) == (word(turn), f"only{turn}")
            for old in range(4):
                found = keys_of(await search_text(reader, FLOW, word(old), limit=5))
                assert found == (["n"] if old == turn else [])
            (hit,) = await search_vectors(
                reader, FLOW, VectorQuery(vector=floats(turn, 1), model=MODEL, limit=5)
            )
            assert hit.score == pytest.approx(1, abs=1e-5)
            around = await reader.get_neighborhood(FLOW, ["n"], max_depth=1, limit=5)
            assert around.nodes[0].data == word(turn)
            if limits is not None:
                await reader.build_indexes(FLOW)
            await writer.delete_graph(FLOW)


async def test_a_type_changed_by_another_connection_is_seen_at_once(path: Path) -> None:
    async with opened(path) as reader, opened(path) as writer:
        await writer.create_graph(a_graph())
        await writer.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n", type="log")]))
        assert await reader.get_node_configs() == []
        await writer.put_node_config(a_type("log", display_name="Chronicle"))
        assert [config.display_name for config in await reader.get_node_configs()] == ["Chronicle"]
        assert keys_of(await search_text(reader, FLOW, "chronicle", limit=5)) == ["n"]


ROUNDS = 12


@pytest.mark.slow
async def test_a_writer_killed_at_any_moment_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "graphs.db"
    seed = 7
    chance = random.Random(seed)
    async with opened(path) as source:
        await source.create_graph(a_graph())
    revision = 0
    for _ in range(ROUNDS):
        process = start(workers.write_until_killed, path, seed)
        acknowledged = revision
        try:
            for _ in range(chance.randrange(1, 12)):
                acknowledged = int(await line_of(process))
            spin = chance.randrange(300_000)  # so that the kill falls anywhere within a write
            sum(range(spin))
        finally:
            process.kill()
            rest = process.stdout.read()  # not communicate(): it passes over lines already buffered
            process.communicate()
        # A line may be cut by the kill; what is whole was acknowledged.
        acknowledged = max([acknowledged, *(int(line) for line in rest.split("\n")[:-1] if line)])
        assert faults(path) == []
        revision = await _as_replayed(path, seed)
        assert revision - acknowledged in (
            0,
            1,
        )  # the last one may be in without having been acknowledged
    assert revision > ROUNDS


async def _as_replayed(path: Path, seed: int) -> int:
    """Compare the graph with what its steps lead to, document by document; return its revision."""
    async with SqliteDatabase(path, limits=NOTHING_IS_SMALL) as database:
        source = database.source(WORKSPACE)
        records = database.records(WORKSPACE)
        revision = (await source.get_graph(FLOW)).revision
        keys: list[str] = []
        nodes: dict[str, object] = {}
        for number in range(1, revision + 1):
            mutation, keys = workers.a_step(number, seed, sorted(keys))
            nodes.update((node.key, node.data) for node in mutation.put_nodes)
            for key in mutation.delete_nodes:
                del nodes[key]
        stored = await source.get_nodes(FLOW)
        assert {node.key: node.data for node in stored} == nodes
        assert sorted(await source.get_vectors(FLOW, keys)) == sorted(nodes)
        audit = await records.query("audit", order_by="sequence", limit=10_000)
        assert [record.data["sequence"] for record in audit] == list(range(1, revision + 1))
        async with opened(path) as exact:
            query = floats(1, 0.5)
            hits = await search_vectors(
                source, FLOW, VectorQuery(vector=query, model=MODEL, limit=10)
            )
            assert_same_hits(
                hits,
                await search_vectors(
                    exact, FLOW, VectorQuery(vector=query, model=MODEL, limit=9999)
                ),
                limit=10,
            )
            asked = word(revision)
            assert keys_of(await search_text(source, FLOW, asked, limit=99)) == keys_of(
                await search_text(exact, FLOW, asked, limit=99)
            )
        return revision
