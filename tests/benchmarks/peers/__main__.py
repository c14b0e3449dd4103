"""Measures this service beside its peers; `make bench-peers`, or `python -m
tests.benchmarks.peers`.

One process a peer and data set, one after another, on the same data. Rows are stored as they come:
a run that was stopped goes on with --resume, and sizes or peers may be measured one by one. No peer
takes longer than its limits, nor all of them longer than --minutes; a row says which limit it met.
At the end the tables are printed and the plot is drawn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.machine import busy
from tests.benchmarks.packages import read_packages
from tests.benchmarks.peers import fixtures, report, results
from tests.benchmarks.peers.measure import PEERS
from tests.benchmarks.peers.peer import Data
from tests.benchmarks.peers.results import Row

SIZES = "100,1000,10000,100000"
DATA = Path(__file__).parents[3] / "../shared/data"


def data_sets(sizes: Sequence[int], folder: Path) -> Iterator[Data]:
    """Yield each data set; the real ones where they are, else a line says that they are not."""
    for size in sizes:
        yield asyncio.run(fixtures.synthetic_data(size))
    packages = read_packages()
    if isinstance(packages, str):
        _say(f"packages left out: {packages}")
    else:
        yield asyncio.run(fixtures.packages_data(packages))
    queries = folder / "annotated_queries.json"
    workflows = folder / "workflows"
    if queries.is_file() and workflows.is_dir():
        yield asyncio.run(fixtures.real_data(queries, workflows))
    else:
        _say(
            f"real workflows left out: no annotated_queries.json and workflows/ in {folder.name}/ (--data)"
        )
    facts = sorted(folder.glob("multihop/openie*.json"))
    questions = sorted(folder.glob("multihop/*questions.json"))
    if facts and questions:
        yield asyncio.run(fixtures.multihop_data(facts[0], questions[0]))
    else:
        _say(f"multi-hop questions left out: none in {folder.name}/multihop/ (--data)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a peer may ask and load, and when all is over. Units: seconds;
    `end` of time.monotonic().
    """

    ask_s: float
    load_s: float
    end: float

    @property
    def left_s(self) -> float:
        return self.end - time.monotonic()


def run(data: Data, peers: Sequence[str], limits: Limits) -> Iterator[Row]:
    """Yield the figures of each peer; one that fails or takes too long gets a row that says so."""
    with tempfile.TemporaryDirectory(prefix="nodius-peers-") as folder:
        file = Path(folder) / "data.pickle"
        fixtures.save(data, file)
        for number, name in enumerate(peers):
            own = Path(folder) / f"peer-{number}"
            own.mkdir()
            command = [sys.executable, "-m", "tests.benchmarks.peers.measure", "--peer", name]
            command += [
                "--data",
                str(file),
                "--folder",
                str(own),
                "--limit-seconds",
                str(limits.ask_s),
            ]
            _say(f"{data.title}: {name}")
            yield _measured(command, data, name, limits)


def _measured(command: Sequence[str], data: Data, name: str, limits: Limits) -> Row:
    count = sum(len(graph.nodes) for graph in data.graphs)
    about = {"peer": name, "data": data.title, "nodes": count, "questions": len(data.questions)}
    about["busy"] = busy()
    limit_s = min(limits.ask_s + limits.load_s, limits.left_s)
    if limit_s <= 0:
        return {**about, "failed": results.LEFT_OUT}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=True)
    except subprocess.TimeoutExpired:
        return {**about, "failed": f"given up after {limit_s:,.0f} s"}
    except subprocess.CalledProcessError as exc:
        lines = str(exc.stderr).strip().splitlines()
        return {**about, "failed": lines[-1][:120] if lines else f"ended with {exc.returncode}"}
    return {**about, **json.loads(done.stdout.strip().splitlines()[-1])}


def left_to_do(data: Data, peers: Sequence[str], rows: Sequence[Row], run_id: str) -> list[str]:
    """Return the peers that have no figures of this data from this run; one that
    failed is tried again.
    """
    done: Collection[str] = {
        row["peer"]
        for row in rows
        if row["data"] == data.title and row.get("run") == run_id and not row.get("failed")
    }
    return [name for name in peers if name not in done]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _measure(given: argparse.Namespace, rows: list[Row]) -> None:
    run_id = (
        results.last_run(rows) if given.resume else None
    ) or f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    limits = Limits(
        ask_s=given.limit_seconds,
        load_s=given.load_limit_seconds,
        end=time.monotonic() + given.minutes * 60,
    )
    for data in data_sets([int(size) for size in given.sizes.split(",") if size], given.data):
        for row in run(data, left_to_do(data, given.only or list(PEERS), rows, run_id), limits):
            rows = results.merged(rows, [{**row, "run": run_id}])
            results.write(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help="nodes of the synthetic graphs; empty: none")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real sets")
    parser.add_argument(
        "--only",
        action="append",
        choices=PEERS,
        metavar="PEER",
        help="just this peer (may be repeated)",
    )
    parser.add_argument(
        "--limit-seconds", type=float, default=40.0, help="stop asking a peer after so long"
    )
    parser.add_argument(
        "--load-limit-seconds",
        type=float,
        default=300.0,
        help="give a peer up that is not ready by then",
    )
    parser.add_argument("--minutes", type=float, default=45.0, help="what all of it may take")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the last run: leave out what it has"
    )
    parser.add_argument(
        "--report", action="store_true", help="measure nothing; print what is stored"
    )
    given = parser.parse_args()
    rows = results.read()
    if not given.report:
        _measure(given, rows)
        rows = results.read()
    # Only a measurement needs the package that draws.
    from tests.benchmarks.peers.plot import plot

    plot(rows, results.PLOT)
    print(report.stored_report())


if __name__ == "__main__":
    main()
