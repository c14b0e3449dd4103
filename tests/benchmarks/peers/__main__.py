"""Measures this service beside its peers; `make bench-peers`, or `python -m tests.benchmarks.peers`.

One process a peer and data set, one after another, on the same data. Rows are stored as they come,
so sizes may be measured one by one; at the end the tables are printed and the plot is drawn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.peers import fixtures, plot, report, results
from tests.benchmarks.peers.measure import PEERS
from tests.benchmarks.peers.peer import Data
from tests.benchmarks.peers.results import Row

SIZES = "100,1000,10000,100000"
DATA = Path(__file__).parents[3] / "../shared/data"


def data_sets(sizes: Sequence[int], folder: Path) -> Iterator[Data]:
    """Yield each data set; the real ones where they are, else a line says that they are not."""
    for size in sizes:
        yield asyncio.run(fixtures.synthetic_data(size))
    queries, workflows = folder / "annotated_queries.json", folder / "workflows"
    if queries.is_file() and workflows.is_dir():
        yield asyncio.run(fixtures.real_data(queries, workflows))
    else:
        _say(f"real workflows left out: no annotated_queries.json and workflows/ in {folder.name}/ (--data)")
    facts = sorted(folder.glob("multihop/openie*.json"))
    questions = sorted(folder.glob("multihop/*questions.json"))
    if facts and questions:
        yield asyncio.run(fixtures.multihop_data(facts[0], questions[0]))
    else:
        _say(f"multi-hop questions left out: none in {folder.name}/multihop/ (--data)")


def run(data: Data, peers: Sequence[str], limit_s: float, load_limit_s: float) -> Iterator[Row]:
    """Yield the figures of each peer; one that fails or takes too long gets a row that says so."""
    with tempfile.TemporaryDirectory(prefix="nodius-peers-") as folder:
        file = Path(folder) / "data.pickle"
        fixtures.save(data, file)
        for number, name in enumerate(peers):
            own = Path(folder) / f"peer-{number}"
            own.mkdir()
            command = [sys.executable, "-m", "tests.benchmarks.peers.measure", "--peer", name]
            command += ["--data", str(file), "--folder", str(own), "--limit-seconds", str(limit_s)]
            _say(f"{data.title}: {name}")
            yield _measured(command, data, name, limit_s + load_limit_s)


def _measured(command: Sequence[str], data: Data, name: str, limit_s: float) -> Row:
    count = sum(len(graph.nodes) for graph in data.graphs)
    about = {"peer": name, "data": data.title, "nodes": count, "questions": len(data.questions)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=True)
    except subprocess.TimeoutExpired:
        return {**about, "failed": f"not ready within {limit_s:,.0f} s"}
    except subprocess.CalledProcessError as exc:
        lines = str(exc.stderr).strip().splitlines()
        return {**about, "failed": lines[-1][:120] if lines else f"ended with {exc.returncode}"}
    row: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help="nodes of the synthetic graphs; empty: none")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real sets")
    parser.add_argument(
        "--only", action="append", choices=PEERS, metavar="PEER", help="just this peer (may be repeated)"
    )
    parser.add_argument("--limit-seconds", type=float, default=40.0, help="stop asking a peer after so long")
    parser.add_argument(
        "--load-limit-seconds", type=float, default=600.0, help="give a peer up that is not ready by then"
    )
    parser.add_argument("--report", action="store_true", help="measure nothing; print what is stored")
    given = parser.parse_args()
    rows = results.read()
    if not given.report:
        sizes = [int(size) for size in given.sizes.split(",") if size]
        for data in data_sets(sizes, given.data):
            for row in run(data, given.only or list(PEERS), given.limit_seconds, given.load_limit_seconds):
                rows = results.merged(rows, [row])
                results.write(rows)
    plot.draw(rows, results.PLOT)
    print(f"{results.header()}\n\n{report.tables(rows)}")


if __name__ == "__main__":
    main()
