"""Measures retrieval, ingest, memory and disk at several sizes; `python -m
tests.benchmarks.retrieval`.

A big graph lies beside many small ones in one database file. Latencies are of whole retrievals
(search, spreading, reading of nodes, edges and types) with a cold result cache and without the
embedding of the question. Recall@20 compares the nodes found with those of the same retrieval over
exhaustive searches. Beside the synthetic sizes stands a real graph, `packages` in `--sizes`: that
of the machine's distribution, left out with the reason where apt does not know it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from datasources.base import GraphDataSource
from datasources.hits import FIELDS, Hit, NodeVector, VectorQuery
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation, Node
from graphrag.embedding.embedder import EmbeddingProvider, content_text, embedding_hash, name_text
from graphrag.retrieval.retrieval_result import Mode, RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from graphrag.workers import collect_only_young, resident
from tests.benchmarks import synthetic
from tests.benchmarks.exhaustive import ExhaustiveSource
from tests.benchmarks.known_vectors import KnownVectors, local_embedder
from tests.benchmarks.machine import described
from tests.benchmarks.packages import Packages, package_type, read_packages
from tests.contracts.searches import search_text, search_vectors

SIZES = ("1000", "100000", "packages")
SMALL_GRAPHS = 200
SMALL_NODES = 50
BATCH = 5_000
WARM_UP = 30
MEASURED = 300
COMPARED = 40
BIG = "big"
T = TypeVar("T")


@dataclass(slots=True)
class Report:
    """Figures of one size. Units: milliseconds, nodes a second, bytes."""

    nodes: int
    name: str = "synthetic"
    ingest_nodes_s: float = 0.0
    embed_nodes_s: float = 0.0
    index_s: float = 0.0
    disk_bytes: int = 0
    memory_bytes: int = 0
    modes: dict[str, dict[str, float]] | None = None
    searches: dict[str, float] | None = None


async def measure(
    size: int,
    folder: Path,
    modes: Sequence[Mode],
    compared: int = COMPARED,
    packages: Packages | None = None,
) -> Report:
    """Fill a database, or use the one that is there, and measure every mode on it."""
    embedder = local_embedder()
    collect_only_young()  # as the service and the command line do
    vocabulary = synthetic.Vocabulary.make(1)
    filled = folder / "filled.json"
    if not await asyncio.to_thread(filled.exists):
        figures = await make(size, folder, embedder, vocabulary, packages)
        await asyncio.to_thread(filled.write_text, json.dumps(figures))
    gc.collect()
    gc.freeze()
    name = "synthetic" if packages is None else "packages"
    report = Report(
        nodes=size, name=name, modes={}, **json.loads(await asyncio.to_thread(filled.read_text))
    )
    async with SqliteDatabase(folder / "bench.db") as database:
        source = database.source(synthetic.WORKSPACE)
        asked = 2 * (WARM_UP + MEASURED)
        made = (
            synthetic.questions(vocabulary, asked, seed=3)
            if packages is None
            else packages.questions(asked, 3)
        )
        questions = list(dict.fromkeys(made))
        vectors = await embedder.embed(questions)
        known = KnownVectors(embedder.model, dict(zip(questions, vectors, strict=True)))
        before = resident()
        for mode in modes:
            report.modes[mode] = await _latencies(source, known, questions, mode)
            report.modes[mode]["recall_20"] = await _recall(
                source, known, questions[-compared:], mode
            )
        report.searches = await _search_recall(source, known, questions[-compared:])
        report.memory_bytes = max(0, resident() - before)
    report.disk_bytes = await asyncio.to_thread(size_of, folder)
    return report


async def make(
    size: int,
    folder: Path,
    embedder: EmbeddingProvider,
    vocabulary: synthetic.Vocabulary,
    packages: Packages | None,
) -> dict[str, float]:
    """Fill a database and build its indexes; return what that took."""
    async with SqliteDatabase(folder / "bench.db") as database:
        source = database.source(synthetic.WORKSPACE)
        for config in [*synthetic.type_configs(), package_type()]:
            await source.put_node_config(config)
        for i in range(SMALL_GRAPHS):
            await _fill(source, embedder, vocabulary, f"small-{i:03d}", SMALL_NODES, seed=100 + i)
        stored, embedded = await _fill(
            source, embedder, vocabulary, BIG, size, seed=7, packages=packages
        )
        started = time.perf_counter()
        await source.build_indexes(BIG)
        return {
            "ingest_nodes_s": stored,
            "embed_nodes_s": embedded,
            "index_s": time.perf_counter() - started,
        }


async def _fill(
    source: Any,
    embedder: EmbeddingProvider,
    vocabulary: synthetic.Vocabulary,
    key: str,
    count: int,
    seed: int,
    packages: Packages | None = None,
) -> tuple[float, float]:
    """Store a graph with its edges and embeddings; return nodes a second of storing
    and of embedding.
    """
    await source.create_graph(synthetic.graph(key))
    storing = embedding = 0.0
    types = {config.type: config for config in [*synthetic.type_configs(), package_type()]}
    nodes = (
        synthetic.nodes(key, count, vocabulary, seed) if packages is None else packages.nodes(key)
    )
    edges = synthetic.edges(key, count, seed) if packages is None else packages.edges(key)
    for batch in _batches(nodes, BATCH):
        started = time.perf_counter()
        await source.apply(Mutation(graph_key=key, put_nodes=batch))
        storing += time.perf_counter() - started
        started = time.perf_counter()
        vectors = await _embedded(embedder, batch, types)
        await source.put_embeddings(key, vectors)
        embedding += time.perf_counter() - started
    for batch in _batches(edges, BATCH * synthetic.EDGES_PER_NODE):
        started = time.perf_counter()
        await source.apply(Mutation(graph_key=key, put_edges=batch))
        storing += time.perf_counter() - started
        if count >= 100_000 and sys.stderr.isatty():
            print(f"\r{key}: {batch[-1].key}", end="", file=sys.stderr)
    return count / storing, count / embedding


async def _embedded(
    embedder: EmbeddingProvider, nodes: Sequence[Node], types: Any
) -> list[NodeVector]:
    texts = [
        text
        for node in nodes
        for text in (content_text(node, types[node.type]), name_text(node, types[node.type]))
    ]
    vectors = await embedder.embed(texts)
    return [
        NodeVector(
            key=node.key,
            model=embedder.model,
            hash=embedding_hash(node, types[node.type]),
            content=vectors[2 * i],
            name=vectors[2 * i + 1],
        )
        for i, node in enumerate(nodes)
    ]


async def _latencies(
    source: GraphDataSource, known: KnownVectors, questions: Sequence[str], mode: Mode
) -> dict[str, float]:
    retriever = Retriever(source, known, options=RetrievalOptions(mode=mode))
    times: list[float] = []
    for i, question in enumerate(questions[: WARM_UP + MEASURED]):
        started = time.perf_counter()
        found = await retriever.retrieve(BIG, question)
        if i >= WARM_UP:
            times.append((time.perf_counter() - started) * 1e3)
        assert not found.cached
    return {"p50_ms": float(np.percentile(times, 50)), "p95_ms": float(np.percentile(times, 95))}


async def _recall(
    source: GraphDataSource, known: KnownVectors, questions: Sequence[str], mode: Mode
) -> float:
    options = RetrievalOptions(mode=mode)
    ours = Retriever(source, known, options=options)
    exact = Retriever(ExhaustiveSource.over(source), known, options=options)
    shares: list[float] = []
    for question in questions:
        wanted = {scored.node.key for scored in (await exact.retrieve(BIG, question)).nodes}
        found = {scored.node.key for scored in (await ours.retrieve(BIG, question)).nodes}
        shares.append(len(wanted & found) / max(1, len(wanted)))
    return float(np.mean(shares))


async def _search_recall(
    source: GraphDataSource, known: KnownVectors, questions: Sequence[str]
) -> dict[str, float]:
    """Return recall@20 of each single search."""
    exact = ExhaustiveSource.over(source)
    shares: dict[str, list[float]] = {}
    for question in questions:
        for field in FIELDS:
            found = await search_text(source, BIG, question, limit=20, field=field)
            wanted = await search_text(exact, BIG, question, limit=20, field=field)
            shares.setdefault(f"text, {field}", []).append(share(found, wanted))
            vector = known.vectors[question]
            query = VectorQuery(vector=vector, model=known.model, limit=20, field=field)
            near = await search_vectors(source, BIG, query)
            nearest = await search_vectors(exact, BIG, query)
            shares.setdefault(f"vectors, {field}", []).append(share(near, nearest))
    return {name: float(np.mean(values)) for name, values in shares.items()}


def share(found: Sequence[Hit], wanted: Sequence[Hit]) -> float:
    """Return the share of the wanted scores that was reached: hits of equal score are as good."""
    if not wanted:
        return 1.0
    least = wanted[-1].score - 1e-5
    return sum(hit.score >= least for hit in found[: len(wanted)]) / len(wanted)


def _batches(items: Iterable[T], size: int) -> Iterable[list[T]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def show(reports: Sequence[Report]) -> None:
    """Print the tables as Markdown."""
    print(f"\n{described()}\n")
    print("| graph | nodes | mode | p50 ms | p95 ms | recall@20 |\n|---|---:|---|---:|---:|---:|")
    for report in reports:
        for mode, row in (report.modes or {}).items():
            figures = f"{row['p50_ms']:.2f} | {row['p95_ms']:.2f} | {row['recall_20']:.3f}"
            print(f"| {report.name} | {report.nodes:,} | {mode} | {figures} |")
    names = list(reports[0].searches or {})
    print(f"\n| nodes | {' | '.join(f'recall@20 {name}' for name in names)} |")
    print("|---:|" + "---:|" * len(names))
    for r in reports:
        print(
            f"| {r.nodes:,} | {' | '.join(f'{(r.searches or {})[name]:.3f}' for name in names)} |"
        )
    print("\n| nodes | ingest nodes/s | embed nodes/s | index s | disk MB | memory MB |")
    print("|---:|---:|---:|---:|---:|---:|")
    for r in reports:
        print(
            f"| {r.nodes:,} | {r.ingest_nodes_s:,.0f} | {r.embed_nodes_s:,.0f} | {r.index_s:.1f} "
            f"| {r.disk_bytes / 1e6:,.0f} | {r.memory_bytes / 1e6:,.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = "nodes of the big graph; `packages`: the real one"
    parser.add_argument("--sizes", default=",".join(SIZES), help=sizes)
    parser.add_argument("--modes", default="hybrid,vector", help="retrieval modes")
    parser.add_argument(
        "--keep", type=Path, help="fill databases in this folder and use them again"
    )
    parser.add_argument(
        "--compared",
        type=int,
        default=COMPARED,
        help="questions that are searched exhaustively too",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    reports: list[Report] = []
    for wanted in arguments.sizes.split(","):
        packages = read_packages() if wanted == "packages" else None
        if isinstance(packages, str):
            print(f"packages left out: {packages}", file=sys.stderr)
            continue
        size = len(packages) if packages is not None else int(wanted)
        with tempfile.TemporaryDirectory(prefix="nodius-bench-") as temporary:
            folder = Path(temporary) if arguments.keep is None else arguments.keep / wanted
            folder.mkdir(parents=True, exist_ok=True)
            measuring = measure(
                size, folder, arguments.modes.split(","), arguments.compared, packages
            )
            reports.append(asyncio.run(measuring))
            print(f"{size:,} nodes measured", file=sys.stderr)
    if arguments.json:
        print(json.dumps([{f: getattr(r, f) for f in Report.__slots__} for r in reports], indent=2))
    else:
        show(reports)


if __name__ == "__main__":
    main()
