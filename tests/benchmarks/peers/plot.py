"""Draws the measured latency and recall of peers over the size of the graph, as one SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.peers.report import FAMILY
from tests.benchmarks.peers.results import Row
from tests.benchmarks.plots import Panel, draw

ASKED_AT_LEAST = 30
"""The recall of fewer questions says little; their time is shown nevertheless."""

SHOWN = (
    ("Time to the context", "ms (p50)", "p50_ms", "xy", None),
    ("Recall, one node to find", "recall@10", "recall_10", "x", 1.02),
)


def plot(rows: Sequence[Row], file: Path) -> None:
    """Write the plot; only synthetic graphs have sizes to compare."""
    sized = [
        row for row in rows if row["data"].replace(",", "").isdigit() and not row.get("failed")
    ]
    sized.sort(key=lambda row: row["nodes"])
    names = list(dict.fromkeys(row["peer"] for row in sized))
    draw(
        [
            Panel(
                title=title,
                x="nodes",
                y=unit,
                lines={name: _line(sized, name, figure) for name in names},
                log=log,
                bold=[name for name in names if name.startswith(FAMILY)],
                top=top,
            )
            for title, unit, figure, log, top in SHOWN
        ],
        file,
    )


def _line(rows: Sequence[Row], name: str, figure: str) -> list[tuple[float, float]]:
    most = 0 if figure == "p50_ms" else ASKED_AT_LEAST
    return [
        (row["nodes"], row[figure]) for row in rows if row["peer"] == name and row["asked"] >= most
    ]
