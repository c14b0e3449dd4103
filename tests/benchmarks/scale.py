"""Measures how the main operations grow with a graph; `python -m tests.benchmarks.scale`.

One big graph beside many small ones, in one database file, as `tests.benchmarks.retrieval` fills it
(`--keep` shares the files with it). Each operation goes the way it goes in the service. Figures are
stored size by size in `results/scale.json`, with a plot beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from datasources.instructions import GraphInstruction
from datasources.sqlite import SqliteDatabase
from datasources.types import Node
from graphrag.app.wiring import Services
from graphrag.approvals import Approvals, Approve, Asked, Person
from graphrag.config import load_settings
from graphrag.embedding import make_embedder
from graphrag.embedding.refresh import embed_nodes, embed_some
from graphrag.importers.exchange import import_bytes
from graphrag.live import LiveGraphs
from graphrag.live.instruction_batch import apply_instructions
from graphrag.workers import resident
from tests.benchmarks import retrieval, synthetic
from tests.benchmarks.machine import described
from tests.support.opened import open_services

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MOST_IMPORTED = 100_000
"""Nodes of the largest file that is imported: a file may have 256 MiB."""
RESULTS = Path(__file__).parent / "results"
STORED = RESULTS / "scale.json"
OPERATIONS = {
    "open_ms": "process opens the database and answers its first question, ms",
    "retrieval_p50_ms": "retrieval (hybrid), p50 ms",
    "retrieval_p95_ms": "retrieval (hybrid), p95 ms",
    "live_open_ms": "open for live editing, ms",
    "live_edit_p50_ms": "live edit until acknowledged, p50 ms",
    "live_edit_p95_ms": "live edit until acknowledged, p95 ms",
    "live_save_ms": "save of 100 changed nodes, ms",
    "reembed_ms": "embed these 100 again, ms",
    "propose_p50_ms": "proposal: validated, dry-run, diffed, stored, p50 ms",
    "approve_p50_ms": "approval: applied, audited, stored, p50 ms",
    "import_250_ms": "import a file of 250 nodes and embed it, ms",
    "import_us": "import a file, µs a node",
    "embed_us": "embed-nodes, µs a node",
    "live_mb": "memory while it is edited live, MB",
    "disk_bytes_node": "disk, bytes a node",
}
_FIRST_ANSWER = """
import asyncio, sys
from graphrag.config import load_settings
from tests.support.opened import open_services
async def main():
    async with open_services(load_settings(db=sys.argv[1], workspace=sys.argv[2])) as services:
        found = await services.retriever.retrieve(sys.argv[3], sys.argv[4])
        assert found.nodes
asyncio.run(main())
"""


class Clock:
    """Collects what operations took. Units: milliseconds."""

    def __init__(self) -> None:
        self.took: dict[str, list[float]] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.took.setdefault(name, []).append((time.perf_counter() - started) * 1e3)

    def percentile(self, name: str, at: float) -> float:
        return float(np.percentile(self.took[name], at))


async def measure(size: int, folder: Path) -> dict[str, float]:
    """Return the figures of one size, by the names of OPERATIONS; absent: not measured
    at this size.
    """
    report = await retrieval.measure(size, folder, ["hybrid"], compared=1)
    hybrid = (report.modes or {})["hybrid"]
    figures = {
        "retrieval_p50_ms": hybrid["p50_ms"],
        "retrieval_p95_ms": hybrid["p95_ms"],
        "disk_bytes_node": report.disk_bytes
        / (size + retrieval.SMALL_GRAPHS * retrieval.SMALL_NODES),
    }
    url = f"sqlite:{folder / 'bench.db'}"
    vocabulary = synthetic.Vocabulary.make(1)
    question = synthetic.questions(vocabulary, 1, seed=11)[0]
    figures["open_ms"] = await asyncio.to_thread(_first_answer, url, question)
    async with open_services(load_settings(db=url, workspace=synthetic.WORKSPACE)) as services:
        clock = Clock()
        await _edit_live(services, clock, figures)
        await _approve(services, clock)
        for name in ("live_edit", "propose", "approve"):
            figures[f"{name}_p50_ms"] = clock.percentile(name, 50)
        figures["live_edit_p95_ms"] = clock.percentile("live_edit", 95)
        for name in ("live_open", "live_save", "reembed"):
            figures[f"{name}_ms"] = clock.percentile(name, 50)
    if size <= MOST_IMPORTED:
        imported, embedded = await _import(size, vocabulary)
        figures |= {"import_us": imported / size * 1e6, "embed_us": embedded / size * 1e6}
    figures["import_250_ms"] = sum(await _import(250, vocabulary)) * 1e3
    return figures


def _first_answer(url: str, question: str) -> float:
    """Return what a new process takes from its start to its first
    retrieval. Units: milliseconds.
    """
    arguments = [
        sys.executable,
        "-c",
        _FIRST_ANSWER,
        url,
        synthetic.WORKSPACE,
        retrieval.BIG,
        question,
    ]
    started = time.perf_counter()
    subprocess.run(arguments, check=True)
    return (time.perf_counter() - started) * 1e3


async def _edit_live(services: Services, clock: Clock, figures: dict[str, float]) -> None:
    """Open the graph, rename a hundred nodes one by one, save, embed them again."""
    database = services.database
    workspace = synthetic.WORKSPACE
    before = resident()
    async with LiveGraphs(database.source, database.records) as graphs:
        with clock.time("live_open"):
            live = await graphs.open(workspace, retrieval.BIG)
        keys = [node.key for node in live.nodes[:: max(1, len(live.nodes) // 100)]][:100]
        figures["live_mb"] = max(0, resident() - before) / 1e6
        for i, key in enumerate(keys):
            change = {"o": 1, "p": ["data", "name"], "v": f"Renamed {i} at {time.time_ns()}"}
            edit = GraphInstruction.model_validate({"i": change, "sheetId": "0", "nodeId": key})
            with clock.time("live_edit"):
                await live.edit("somebody", None, apply_instructions, [edit])
        with clock.time("live_save"):
            await live.save()
        assert services.embedder is not None
        with clock.time("reembed"):
            report = await embed_some(services.source, services.embedder, retrieval.BIG, keys)
        assert report.embedded == len(keys), report.as_dict()


async def _approve(services: Services, clock: Clock, count: int = 20) -> None:
    person = services.local_person()
    keys = [node.key for node in await services.source.get_nodes(retrieval.BIG, limit=count)]
    for i, key in enumerate(keys):
        action: dict[str, Any] = {
            "type": "update_node",
            "payload": {
                "nodeKey": key,
                "changes": {"data": {"name": f"Proposed {time.time_ns()}"}},
            },
        }
        with clock.time("propose"):
            approval = await services.approvals.propose(
                action,
                Asked(
                    graph_key=retrieval.BIG,
                    thread_id=f"scale-{time.time_ns()}",
                    turn=1,
                    tool_call_id=f"call-{i}",
                    asker=person,
                    model="person",
                ),
            )
        with clock.time("approve"):
            decided = await services.approvals.decide(approval.id, Approve(), person)
        assert decided.status == "applied", decided


async def _import(size: int, vocabulary: synthetic.Vocabulary) -> tuple[float, float]:
    """Import a graph as a Nodius file into an empty database, then embed it; return the
    seconds of both.
    """
    nodes: list[Node] = list(synthetic.nodes("big", size, vocabulary, seed=7))
    document = {
        "graph": synthetic.graph("big").to_document(),
        "nodes": [node.to_document() for node in nodes],
        "edges": [edge.to_document() for edge in synthetic.edges("big", size, seed=7)],
        "configs": [config.to_document() for config in synthetic.type_configs()],
    }
    raw = orjson.dumps(document)
    embedder = make_embedder(load_settings(embeddings="local"))
    assert embedder is not None
    with tempfile.TemporaryDirectory(prefix="nodius-scale-") as folder:
        async with SqliteDatabase(Path(folder) / "import.db") as database:
            source = database.source(synthetic.WORKSPACE)
            approvals = Approvals(source, database.records(synthetic.WORKSPACE))
            person = Person("bench", "admin", synthetic.WORKSPACE)
            imported = await _seconds(
                lambda: import_bytes(approvals, raw, person, file_name="big.json")
            )
            embedded = await _seconds(lambda: embed_nodes(source, embedder))
    await embedder.aclose()
    return imported, embedded


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


def report(found: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    figures = {int(size): row for size, row in found["figures"].items()}
    lines = [
        found["machine"],
        "",
        f"| operation | {' | '.join(f'{size:,} nodes' for size in sorted(figures))} |",
    ]
    lines.append("|---|" + "---:|" * len(figures))
    for name, meaning in OPERATIONS.items():
        rows = [figures[size] for size in sorted(figures)]
        cells = [f"{row[name]:,.{_digits(row[name])}f}" if name in row else "–" for row in rows]
        lines.append(f"| {meaning} | {' | '.join(cells)} |")
    return "\n".join(lines)


def stored_report() -> str:
    """Return the report of the stored figures."""
    return report(json.loads(STORED.read_text()))


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1 if value >= 10 else 2


def plot(found: dict[str, Any], file: Path) -> None:
    # Only a measurement needs the package that draws.
    from tests.benchmarks.plots import Panel, draw

    figures = sorted((int(size), row) for size, row in found["figures"].items())

    def lines(names: dict[str, str]) -> dict[str, list[tuple[float, float]]]:
        return {
            shown: [(size, row[name]) for size, row in figures if name in row]
            for name, shown in names.items()
        }

    waited = {
        "retrieval_p50_ms": "retrieval",
        "live_edit_p50_ms": "live edit",
        "propose_p50_ms": "proposal",
        "approve_p50_ms": "approval",
        "live_open_ms": "open for live editing",
        "open_ms": "first answer of a new process",
    }
    each = {"import_us": "import", "embed_us": "embed-nodes"}
    draw(
        [
            Panel(
                title="What a person waits for", x="nodes", y="ms", lines=lines(waited), log="xy"
            ),
            Panel(title="Cost of a node", x="nodes", y="µs a node", lines=lines(each), log="x"),
        ],
        file,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="nodes of the big graph")
    parser.add_argument(
        "--keep", type=Path, help="fill databases in this folder and use them again"
    )
    parser.add_argument(
        "--report", action="store_true", help="measure nothing; print what is stored"
    )
    arguments = parser.parse_args()
    found: dict[str, Any] = json.loads(STORED.read_text()) if STORED.exists() else {"figures": {}}
    for size in [] if arguments.report else map(int, arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="nodius-scale-") as temporary:
            folder = Path(temporary) if arguments.keep is None else arguments.keep / str(size)
            folder.mkdir(parents=True, exist_ok=True)
            found["figures"][str(size)] = asyncio.run(measure(size, folder))
        found["machine"] = described()
        STORED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        plot(found, RESULTS / "scale.svg")
        print(f"{size:,} nodes measured", file=sys.stderr)
    print(report(found))


if __name__ == "__main__":
    main()
