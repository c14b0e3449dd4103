"""Draws measured figures as SVG files that are the same for the same figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "nodius"

from matplotlib import pyplot as plt  # noqa: E402


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes: named lines over the same kind of x."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    log: str = ""
    """Which axes are logarithmic: any of `x` and `y`."""
    bold: Collection[str] = ()
    """The lines to see first."""
    top: float | None = None
    """Where the y axis ends, if it is known."""


def draw(panels: Sequence[Panel], file: Path) -> None:
    """Write the panels side by side."""
    figure, drawn = plt.subplots(
        1, len(panels), figsize=(5.5 * len(panels), 4.2), layout="constrained"
    )
    axes: list[Any] = list(drawn) if len(panels) > 1 else [drawn]
    for panel, axis in zip(panels, axes, strict=True):
        for name, points in panel.lines.items():
            width = 2.5 if name in panel.bold else 1.5
            axis.plot(
                [x for x, _ in points],
                [y for _, y in points],
                marker="o",
                label=name,
                linewidth=width,
            )
        axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        for side in panel.log:
            getattr(axis, f"set_{side}scale")("log")
        if "y" not in panel.log:
            axis.set_ylim(bottom=0, top=panel.top)
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend(fontsize="small")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
