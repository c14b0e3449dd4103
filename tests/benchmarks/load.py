"""Puts more and more load on a server and says how it bears it; `python -m tests.benchmarks.load`.

Answers streamed at once, editors of one graph at once, and what a turn costs beside its model.
Writes `results/load.json` and `results/load.svg`, and prints the report as Markdown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import agent, live_editing, streaming
from tests.benchmarks.machine import described

RESULTS = Path(__file__).parent / "results"
STORED = RESULTS / "load.json"
STREAMS = (50, 100, 200, 300)
EDITORS = (10, 25, 50)
PIECES, PACE_MS = 100, 100.0
EDITS_S, SECONDS = 10.0, 10.0
TURNS = 300
Figures = dict[str, float]


def measure(streams: Sequence[int], editors: Sequence[int]) -> dict[str, Any]:
    """Measure one load after the other; each starts its own server."""
    found: dict[str, Any] = {"machine": described(), "streams": [], "editors": []}
    for count in streams:
        found["streams"].append(asyncio.run(streaming.measure(count, PIECES, PACE_MS)))
        print(f"{count} streams measured", file=sys.stderr)
    for count in editors:
        found["editors"].append(asyncio.run(live_editing.measure(count, EDITS_S, SECONDS)))
        print(f"{count} editors measured", file=sys.stderr)
    found["turn"] = asyncio.run(agent.main(TURNS))
    return found


def report(found: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = [
        f"{found['machine']}; model, server and clients are processes of this one machine",
        "",
        "| answers at once | pieces a second | added to a piece while all run, p50 / p95 ms"
        " | over the whole time, p50 / p95 ms | until the first piece, p50 / p95 ms | memory a stream, KiB |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for row in found["streams"]:
        cells = [f"{row['streams']:.0f}", f"{row['streams'] * 1000 / row['pace_ms']:,.0f}"]
        cells += [_pair(row, name) for name in ("steady", "added", "first")]
        lines.append(f"| {' | '.join(cells)} | {row['stream_kib']:.0f} |")
    lines += [
        "",
        "| editors at once | edits a second | acknowledged, p50 / p95 ms | seen by another, p50 / p95 ms |",
        "|---:|---:|---:|---:|",
    ]
    for row in found["editors"]:
        rate = row["editors"] * row["edits_s"]
        lines.append(
            f"| {row['editors']:.0f} | {rate:,.0f} | {_pair(row, 'ack')} | {_pair(row, 'seen')} |"
        )
    turn = found["turn"]
    took = f"p50 {turn['p50_ms']:.1f} ms, p95 {turn['p95_ms']:.1f} ms"
    return "\n".join(
        [*lines, "", f"A turn with two reads and a model that answers at once: {took}."]
    )


def stored_report() -> str:
    """Return the report of the stored figures."""
    return report(json.loads(STORED.read_text()))


def _pair(row: Figures, name: str) -> str:
    if f"{name}_p50_ms" not in row:
        return "–"
    return f"{row[f'{name}_p50_ms']:,.1f} / {row[f'{name}_p95_ms']:,.1f}"


def plot(found: dict[str, Any], file: Path) -> None:
    # Only a measurement needs the package that draws.
    from tests.benchmarks.plots import Panel, draw

    def line(rows: Sequence[Figures], x: str, y: str) -> list[tuple[float, float]]:
        return [(row[x], row[y]) for row in rows if y in row]

    streams = found["streams"]
    editors = found["editors"]
    draw(
        [
            Panel(
                title="Answers streamed at once",
                x="answers",
                y="ms added to a piece while all run",
                lines={p: line(streams, "streams", f"steady_{p}_ms") for p in ("p50", "p95")},
            ),
            Panel(
                title="Editors of one graph, 10 edits a second each",
                x="editors",
                y="ms",
                lines={
                    f"{shown}, {p}": line(editors, "editors", f"{name}_{p}_ms")
                    for name, shown in {"ack": "acknowledged", "seen": "seen by another"}.items()
                    for p in ("p50", "p95")
                },
            ),
        ],
        file,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--streams", default=",".join(map(str, STREAMS)), help="answers at once, each in turn"
    )
    parser.add_argument(
        "--editors", default=",".join(map(str, EDITORS)), help="editors at once, each in turn"
    )
    parser.add_argument(
        "--report", action="store_true", help="measure nothing; print what is stored"
    )
    given = parser.parse_args()
    if not given.report:
        streams, editors = (
            [int(n) for n in text.split(",") if n] for text in (given.streams, given.editors)
        )
        found = measure(streams, editors)
        RESULTS.mkdir(exist_ok=True)
        STORED.write_text(json.dumps(found, indent=1) + "\n")
        plot(found, RESULTS / "load.svg")
    print(stored_report())


if __name__ == "__main__":
    main()
