"""Measures the stores beside each other on the same data; `python -m tests.benchmarks.stores`.

SQLite, PostgreSQL, and PostgreSQL with pgvector, each on a server of its own that is started here.
The data are those of `tests.benchmarks.retrieval`: one big graph beside many small ones. SQLite is
filled first, and its documents and vectors are stored in the others. Latencies are of whole
retrievals (hybrid) with a cold result cache and without the embedding of the question. Recall@20 is
that of the single searches against exhaustive ones; round trips are those of one retrieval.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from datasources.base import Database, MutableGraphDataSource
from datasources.hits import FIELDS, VectorQuery
from datasources.postgres import PostgresDatabase, parse_address
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from graphrag.workers import collect_only_young, resident
from tests.benchmarks import retrieval, synthetic
from tests.benchmarks.exhaustive import ExhaustiveSource
from tests.benchmarks.known_vectors import KnownVectors, local_embedder
from tests.benchmarks.machine import described
from tests.contracts.searches import search_text, search_vectors
from tests.support.postgres import (
    PostgresServer,
    installed_programs,
    new_server,
    pgvector_programs,
)

SIZES = "1000,10000,100000"
STORES = "sqlite,postgres,pgvector"
PAGE = 5_000
# What somebody who runs a server of this size sets, beside the safety of committed data.
OPTIONS = {
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "2GB",
    "maintenance_work_mem": "2GB",
    "max_wal_size": "8GB",
    "work_mem": "32MB",
}


@dataclass(slots=True)
class Figures:
    """Figures of one store and size. Units: milliseconds, nodes a second, seconds, bytes."""

    store: str
    nodes: int
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    trips: float = 0.0
    ingest_nodes_s: float = 0.0
    index_s: float = 0.0
    disk_bytes: int = 0
    memory_bytes: int = 0
    approve_p50_ms: float = 0.0
    recall: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class Questions:
    """Questions with their vectors, and the exhaustive hits of the last ones."""

    known: KnownVectors
    questions: list[str]
    exact: dict[str, list[Any]]


async def prepare(size: int, folder: Path, compared: int) -> Questions:
    """Fills a SQLite file, or uses the one that is there, and searches it exhaustively."""
    embedder = local_embedder()
    vocabulary = synthetic.Vocabulary.make(1)
    filled = folder / "filled.json"
    if not filled.exists():
        _empty(folder)
        figures = await retrieval.make(size, folder, embedder, vocabulary, None)
        filled.write_text(json.dumps(figures))
    made = synthetic.questions(vocabulary, 2 * (retrieval.WARM_UP + retrieval.MEASURED), seed=3)
    questions = list(dict.fromkeys(made))
    vectors = await embedder.embed(questions)
    known = KnownVectors(embedder.model, dict(zip(questions, vectors, strict=True)))
    exact: dict[str, list[Any]] = {}
    async with SqliteDatabase(folder / "bench.db") as database:
        source = ExhaustiveSource.over(database.source(synthetic.WORKSPACE))
        for question in questions[-compared:]:
            exact[question] = [hits async for hits in _searches(source, known, question)]
    return Questions(known, questions, exact)


def _empty(folder: Path) -> None:
    """Removes what an interrupted run left."""
    shutil.rmtree(folder)
    folder.mkdir()


async def _searches(source: Any, known: KnownVectors, question: str) -> AsyncIterator[Any]:
    """Yields the name and the hits of each single search."""
    for part in FIELDS:
        yield (
            f"text, {part}",
            await search_text(source, retrieval.BIG, question, limit=20, field=part),
        )
        query = VectorQuery(vector=known.vectors[question], model=known.model, limit=20, field=part)
        yield f"vectors, {part}", await search_vectors(source, retrieval.BIG, query)


async def copy(folder: Path, target: Database) -> float:
    """Stores what is in the file in another store; returns the seconds it took there."""
    async with SqliteDatabase(folder / "bench.db") as file:
        read = file.source(synthetic.WORKSPACE)
        write = target.source(synthetic.WORKSPACE)
        for config in await read.get_own_configs():
            await write.put_node_config(config)
        return sum([await _copy_graph(read, write, g.key) for g in await read.list_graphs()])


async def _copy_graph(
    read: MutableGraphDataSource, write: MutableGraphDataSource, key: str
) -> float:
    await write.create_graph(await read.get_graph(key))
    stored_s = 0.0
    after = None
    while nodes := await read.get_nodes(key, after=after, limit=PAGE):
        vectors = await read.get_vectors(key, [node.key for node in nodes])
        began = time.perf_counter()
        await write.apply(Mutation(graph_key=key, put_nodes=nodes))
        await write.put_embeddings(key, list(vectors.values()))
        stored_s += time.perf_counter() - began
        after = nodes[-1].key
    after = None
    while edges := await read.get_edges(key, after=after, limit=3 * PAGE):
        began = time.perf_counter()
        await write.apply(Mutation(graph_key=key, put_edges=edges))
        stored_s += time.perf_counter() - began
        after = edges[-1].key
        if sys.stderr.isatty():
            print(f"\r{key}: {after}", end="", file=sys.stderr)
    return stored_s


async def measure(
    figures: Figures, database: Database, asked: Questions, trips: Callable[[], int]
) -> None:
    """Measures retrievals, recall and a small write."""
    collect_only_young()
    source = database.source(synthetic.WORKSPACE)
    before = resident()
    retriever = Retriever(source, asked.known, options=RetrievalOptions(mode="hybrid"))
    times: list[float] = []
    made = retrieval.WARM_UP + retrieval.MEASURED
    for place, question in enumerate(asked.questions[:made]):
        if place == retrieval.WARM_UP:
            first = trips()
        began = time.perf_counter()
        await retriever.retrieve(retrieval.BIG, question)
        if place >= retrieval.WARM_UP:
            times.append((time.perf_counter() - began) * 1e3)
    figures.trips = (trips() - first) / len(times)
    figures.p50_ms, figures.p95_ms = (float(np.percentile(times, part)) for part in (50, 95))
    figures.memory_bytes = max(0, resident() - before)
    shares: dict[str, list[float]] = {}
    for question, wanted in asked.exact.items():
        found = [hits async for hits in _searches(source, asked.known, question)]
        for (name, hits), (_, best) in zip(found, wanted, strict=True):
            shares.setdefault(name, []).append(retrieval.share(hits, best))
    figures.recall = {name: float(np.mean(values)) for name, values in shares.items()}
    figures.approve_p50_ms = await _small_writes(source)


async def _small_writes(source: MutableGraphDataSource) -> float:
    """Returns the median of changes of one node of the big graph, each read again after it."""
    [node] = await source.get_nodes(retrieval.BIG, limit=1)
    times: list[float] = []
    for place in range(20):
        began = time.perf_counter()
        changed = node.replace(pos_x=place)
        await source.apply(Mutation(graph_key=retrieval.BIG, put_nodes=[changed]))
        await source.get_nodes_by_key(retrieval.BIG, [node.key])
        times.append((time.perf_counter() - began) * 1e3)
    return float(np.median(times))


async def measure_sqlite(size: int, folder: Path, asked: Questions) -> Figures:
    stored = json.loads((folder / "filled.json").read_text())
    figures = Figures("SQLite", size, ingest_nodes_s=stored["ingest_nodes_s"])
    figures.index_s = stored["index_s"]
    figures.disk_bytes = retrieval.size_of(folder)
    async with SqliteDatabase(folder / "bench.db") as database:
        await measure(figures, database, asked, lambda: 0)
    return figures


async def measure_postgres(
    size: int, folder: Path, asked: Questions, server: PostgresServer, name: str
) -> Figures:
    figures = Figures(name, size)
    address = parse_address(server.url(server.create_database(), "?pool=6"))
    if server.programs == pgvector_programs():
        server.execute("CREATE EXTENSION vector", database=address.database)
    async with PostgresDatabase(address, prepared=False) as database:
        await database.set_up()
        stored_s = await copy(folder, database)
        figures.ingest_nodes_s = (size + retrieval.SMALL_GRAPHS * retrieval.SMALL_NODES) / stored_s
        began = time.perf_counter()
        await database.set_up()  # makes the indexes of vectors
        figures.index_s = time.perf_counter() - began
        server.execute("VACUUM ANALYZE", database=address.database)
        print(f"{size:,} nodes stored in {name}; searching", file=sys.stderr)
        await measure(figures, database, asked, lambda: database.round_trips)
    size_of = "SELECT pg_database_size(current_database())"
    figures.disk_bytes = server.execute(size_of, database=address.database)[0][0]
    server.drop_database(address.database)
    return figures


async def run(size: int, folder: Path, store: str, compared: int) -> Figures:
    """Measures one store in this process."""
    asked = await prepare(size, folder, compared)
    if store == "sqlite":
        return await measure_sqlite(size, folder, asked)
    programs = pgvector_programs() if store == "pgvector" else installed_programs()
    name = "PostgreSQL with pgvector" if store == "pgvector" else "PostgreSQL"
    server = new_server(programs, options=OPTIONS)
    try:
        return await measure_postgres(size, folder, asked, server, name)
    finally:
        server.remove()


def show(found: list[Figures]) -> None:
    """Prints the tables as Markdown."""
    print(f"\n{described()}\n")
    print(
        "| nodes | store | p50 ms | p95 ms | round trips | change and read ms | stored nodes/s "
        "| index s | disk MB | memory MB |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    for f in found:
        print(
            f"| {f.nodes:,} | {f.store} | {f.p50_ms:.1f} | {f.p95_ms:.1f} | {f.trips:.1f} "
            f"| {f.approve_p50_ms:.1f} | {f.ingest_nodes_s:,.0f} | {f.index_s:.1f} "
            f"| {f.disk_bytes / 1e6:,.0f} | {f.memory_bytes / 1e6:,.0f} |"
        )
    names = list(found[0].recall)
    print(f"\n| nodes | store | {' | '.join(f'recall@20 {name}' for name in names)} |")
    print("|---:|---|" + "---:|" * len(names))
    for f in found:
        print(
            f"| {f.nodes:,} | {f.store} | {' | '.join(f'{f.recall[name]:.3f}' for name in names)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help="nodes of the big graph")
    parser.add_argument("--stores", default=STORES)
    parser.add_argument(
        "--keep", type=Path, help="fill SQLite files in this folder and use them again"
    )
    parser.add_argument("--compared", type=int, default=40, help="questions searched exhaustively")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        size, store = arguments.one.split(":")
        figures = asyncio.run(run(int(size), arguments.keep, store, arguments.compared))
        print(json.dumps(asdict(figures)))
        return
    found: list[Figures] = []
    for size in map(int, arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="nodius-bench-") as temporary:
            folder = Path(temporary) if arguments.keep is None else arguments.keep / str(size)
            folder.mkdir(parents=True, exist_ok=True)
            for store in arguments.stores.split(","):
                found.append(_in_a_process(size, folder, store, arguments.compared))
                print(f"{size:,} nodes in {store} measured", file=sys.stderr)
    show(found)


def _in_a_process(size: int, folder: Path, store: str, compared: int) -> Figures:
    """Measures one store in a process of its own, whose memory is that of this store."""
    command = [sys.executable, "-m", "tests.benchmarks.stores", "--one", f"{size}:{store}"]
    command += ["--keep", str(folder), "--compared", str(compared)]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    return Figures(**json.loads(ended.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
