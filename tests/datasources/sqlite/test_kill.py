"""A process killed in the middle of writing loses nothing it acknowledged and leaves nothing half done."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from datasources.sqlite import SqliteDatabase
from datasources.types import VectorQuery
from tests.contracts.samples import FLOW, MODEL, WORKSPACE, a_graph, assert_same_hits, floats, keys_of
from tests.datasources.sqlite import workers
from tests.datasources.sqlite.helpers import NOTHING_IS_SMALL, line_of, opened, start, word
from tests.datasources.sqlite.recount import faults

ROUNDS = 12


@pytest.mark.slow
async def test_a_writer_killed_at_any_moment_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path, seed = tmp_path / "graphs.db", 7
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
            assert process.stdout is not None
            rest = process.stdout.read()  # not communicate(): it passes over lines already buffered
            process.communicate()
        # A line may be cut by the kill; what is whole was acknowledged.
        acknowledged = max([acknowledged, *(int(line) for line in rest.split("\n")[:-1] if line)])
        assert faults(path) == []
        revision = await _as_replayed(path, seed)
        assert revision - acknowledged in (0, 1)  # the last one may be in without having been acknowledged
    assert revision > ROUNDS


async def _as_replayed(path: Path, seed: int) -> int:
    """Compare the graph with what its steps lead to, document by document; return its revision."""
    async with SqliteDatabase(path, limits=NOTHING_IS_SMALL) as database:
        source, records = database.source(WORKSPACE), database.records(WORKSPACE)
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
            hits = await source.search_vectors(FLOW, VectorQuery(vector=query, model=MODEL, limit=10))
            assert_same_hits(
                hits,
                await exact.search_vectors(FLOW, VectorQuery(vector=query, model=MODEL, limit=9999)),
                limit=10,
            )
            asked = word(revision)
            assert keys_of(await source.search_text(FLOW, asked, limit=99)) == keys_of(
                await exact.search_text(FLOW, asked, limit=99)
            )
        return revision
