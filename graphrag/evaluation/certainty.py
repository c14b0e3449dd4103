"""Says how sure mean scores are, and for which questions they hold: intervals, and splits of the questions.

Intervals are those of the bootstrap: the questions drawn again and again, with the same seed each time.
Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), percentile intervals of 95 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 1_000
SIZES = (20, 60, 1_000, 10_000)
MAX_RELEVANT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """What one question scored, by measure; how many nodes its graph has, and how many answer it."""

    measures: Mapping[str, float]
    nodes: int
    relevant: int
    language: str


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return between what the mean lies in 95 of 100 draws of as many values."""
    found = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(0).integers(len(found), size=(DRAWS, len(found)))
    low, high = np.percentile(found[draws].mean(axis=1), [2.5, 97.5]).tolist()
    return low, high


def intervals(rows: Sequence[ScoredRow]) -> dict[str, tuple[float, float]]:
    """Return the interval of each measure."""
    return {name: interval([row.measures[name] for row in rows]) for name in rows[0].measures} if rows else {}


def splits(rows: Sequence[ScoredRow]) -> dict[str, list[ScoredRow]]:
    """Return the questions by size of graph, number of relevant nodes, language; none of one group."""
    groups: dict[str, dict[str, list[ScoredRow]]] = {"graph": {}, "relevant": {}, "language": {}}
    for row in sorted(rows, key=lambda row: (row.nodes, row.relevant, row.language)):
        most = next((size for size in SIZES if row.nodes <= size), None)
        size = f"> {SIZES[-1]:,} nodes" if most is None else f"≤ {most:,} nodes"
        many = row.relevant >= MAX_RELEVANT
        groups["graph"].setdefault(size, []).append(row)
        groups["relevant"].setdefault(f"{min(row.relevant, MAX_RELEVANT)}{'+' * many}", []).append(row)
        groups["language"].setdefault(row.language, []).append(row)
    return {
        f"{kind} {name}": group
        for kind, parts in groups.items()
        if len(parts) > 1
        for name, group in sorted(parts.items(), key=lambda part: part[0] if kind != "graph" else "")
    }
