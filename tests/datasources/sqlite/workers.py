"""What other processes do to a database during a test: each function is one process."""

import asyncio
import random
import sys
from pathlib import Path

from datasources.base import Record, RecordWrite
from datasources.errors import RecordConflict, RevisionConflict
from datasources.hits import VectorQuery
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from tests.contracts.samples import (
    FLOW,
    MODEL,
    WORKSPACE,
    a_node,
    a_type,
    a_vector,
    an_edge,
    floats,
)
from tests.contracts.searches import search_text, search_vectors
from tests.datasources.sqlite.helpers import NOTHING_IS_SMALL, opened, word


def a_step(revision: int, seed: int, old: list[str]) -> tuple[Mutation, list[str]]:
    """Return the mutation that makes a revision, and the node keys then there: the same for
    all who ask.
    """
    chance = random.Random(f"{seed}-{revision}")
    gone = chance.sample(old, min(len(old), chance.randrange(3))) if len(old) > 12 else []
    new = [f"r{revision:05}-{i}" for i in range(3)]
    kept = [key for key in old if key not in gone]
    changed = chance.sample(kept, min(len(kept), 2))
    mutation = Mutation(
        graph_key=FLOW,
        put_nodes=[
            a_node(
                key,
                type=chance.choice(["task", "log"]),
                data=f"{word(revision)} {chance.choice('abc')}",
            )
            for key in (*new, *changed)
        ],
        put_edges=[
            an_edge(f"e{revision:05}-{i}", new[i], chance.choice([*kept, *new])) for i in range(3)
        ],
        put_vectors=[
            a_vector(key, 1.0, chance.random(), name=(1.0, 1.0)) for key in (*new, *changed)
        ],
        put_configs=[a_type("log", display_name=f"Log {word(revision)}")]
        if revision % 5 == 0
        else [],
        delete_nodes=gone,
    )
    return mutation, kept + new


async def write_until_killed(path: str, seed: str) -> None:
    """Apply steps with a record each, and print every acknowledged revision."""
    async with opened(Path(path), NOTHING_IS_SMALL) as source:
        revision = (await source.get_graph(FLOW)).revision
        keys = sorted(node.key for node in await source.get_nodes(FLOW))
        while True:
            revision += 1
            mutation, keys = a_step(revision, int(seed), sorted(keys))
            write = RecordWrite(
                kind="audit",
                key=f"{revision:05}",
                data={"sequence": revision},
                expected_version=None,
            )
            await source.apply(mutation, expected_revision=revision - 1, records=[write])
            print(revision, flush=True)
            if revision % 4 == 0:
                await source.build_indexes(FLOW)


async def write_whole_revisions(path: str, count: str) -> None:
    """Write revisions in each of which every node, edge, vector and record tells
    the same number.
    """
    async with SqliteDatabase(Path(path)) as database:
        source = database.source(WORKSPACE)
        records = database.records(WORKSPACE)
        for number in range(1, int(count) + 1):
            stored = await records.get("audit", "now")
            write = RecordWrite(
                kind="audit",
                key="now",
                data={"sequence": number},
                expected_version=stored.version if stored else None,
            )
            await source.apply(whole_revision(number), records=[write])
    print("done", flush=True)


def whole_revision(number: int) -> Mutation:
    """A mutation after which the graph has 5 or 7 nodes, a ring of as many edges, all
    of this number.
    """
    size = 5 + number % 2 * 2
    keys = [f"n{i}" for i in range(size)]
    return Mutation(
        graph_key=FLOW,
        put_nodes=[a_node(key, data=word(number)) for key in keys],
        put_edges=[
            an_edge(f"e{i}", keys[i], keys[(i + 1) % size], label=str(number)) for i in range(size)
        ],
        put_vectors=[a_vector(key, 1.0, 1.0, hash=str(number)) for key in keys],
        delete_nodes=[f"n{i}" for i in range(5, 7)] if size == 5 and number > 1 else [],
    )


async def read_whole_revisions(path: str, large: str) -> None:
    """Read until a line comes in; complain of any answer that mixes two revisions.
    Prints how many.
    """
    limits = NOTHING_IS_SMALL if large == "large" else None
    stop = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    reads, last = 0, 0
    async with opened(Path(path), limits) as source:
        print("ready", flush=True)
        while not stop.done():
            nodes = await source.get_nodes(FLOW)
            edges = await source.get_edges(FLOW)
            around = await source.get_neighborhood(FLOW, ["n0"], max_depth=9, limit=50)
            stats = await source.get_stats(FLOW)
            assert len(nodes) in (0, 5, 7), len(nodes)
            assert len({str(node.data) for node in nodes}) <= 1
            assert len({edge.label for edge in edges}) <= 1
            assert len(edges) in (0, 5, 7)
            assert len(around.nodes) == len(around.edges)
            assert len({str(node.data) for node in around.nodes}) <= 1
            assert (
                stats.nodes
                == stats.edges
                == sum(stats.types.values())
                == sum(stats.vectors.values())
            )
            hashes = await source.get_vector_info(FLOW, [f"n{i}" for i in range(7)])
            assert len({info.hash for info in hashes.values()}) <= 1
            revision = (await source.get_graph(FLOW)).revision
            assert revision >= last
            last = revision
            found = await search_text(source, FLOW, word(revision), limit=9)
            assert len(found) in (0, 5, 7)
            reads += 1
    print(reads, last, flush=True)


async def add_to_a_sum(path: str, times: str) -> None:
    """Add one to a number in a node, again and again, with expected revisions;
    print the conflicts.
    """
    conflicts = 0
    async with opened(Path(path)) as source:
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(int(times)):
            while True:
                graph = await source.get_graph(FLOW)
                (node,) = await source.get_nodes_by_key(FLOW, ["sum"])
                more = Mutation(
                    graph_key=FLOW, put_nodes=[a_node("sum", data={"sum": node.data["sum"] + 1})]
                )
                try:
                    await source.apply(more, expected_revision=graph.revision)
                except RevisionConflict:
                    conflicts += 1
                else:
                    break
    print(conflicts, flush=True)


async def claim_records(path: str, who: str, count: str) -> None:
    """Claim every record that is still pending; print the keys of those that were got."""
    async with SqliteDatabase(Path(path)) as database:
        records = database.records(WORKSPACE)
        print("ready", flush=True)
        sys.stdin.readline()
        got: list[str] = []
        for number in range(int(count)):
            write = Record(kind="lease", key=f"k{number}", data={"owner": who})
            try:
                await records.put(write, expected_version=None)
            except RecordConflict:
                continue
            got.append(write.key)
        print(" ".join(got), flush=True)


async def build_and_search(path: str, times: str) -> None:
    """Bring the index files up to date and search, again and again, while others do the same."""
    async with opened(Path(path), NOTHING_IS_SMALL) as source:
        for _ in range(int(times)):
            await source.build_indexes(FLOW)
            assert len(await search_text(source, FLOW, "common", limit=99)) == 60
            found = await search_vectors(
                source, FLOW, VectorQuery(vector=floats(1, 30), model=MODEL, limit=5)
            )
            assert len(found) == 5
    print("done", flush=True)
