"""Draws the measured latency and recall of peers over the size of the graph, as one SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from tests.benchmarks.peers.results import Row

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "peers"  # the same figures give the same file

from matplotlib import pyplot as plt  # noqa: E402


def draw(rows: Sequence[Row], file: Path) -> None:
    """Write the plot; only synthetic graphs have sizes to compare."""
    sized = [row for row in rows if row["data"].replace(",", "").isdigit() and not row.get("failed")]
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name in dict.fromkeys(row["peer"] for row in sized):
        of_peer = sorted((row for row in sized if row["peer"] == name), key=lambda row: row["nodes"])
        nodes = [row["nodes"] for row in of_peer]
        style: dict[str, Any] = {"marker": "o", "label": name}
        if name.startswith("this service"):
            style["linewidth"] = 2.5
        axes[0].plot(nodes, [row["p50_ms"] for row in of_peer], **style)
        axes[1].plot(nodes, [row["recall_10"] for row in of_peer], **style)
    axes[0].set(xscale="log", yscale="log", xlabel="nodes", ylabel="ms to the context (p50)")
    axes[1].set(xscale="log", ylim=(0, 1.02), xlabel="nodes", ylabel="recall@10, one node to find")
    for axis in axes:
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[0].legend(fontsize="small")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
