"""Counts the edges of a layout that cross."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from datasources.types import Edge, Node
from graphrag.layout.boxes import Box


def crossings(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> int:
    """Count the pairs of edges, drawn straight, that cross; those that share a node do not count."""
    places = {key: number for number, key in enumerate(nodes)}
    lines: list[tuple[float, ...]] = []
    ends: list[tuple[int, int]] = []
    sheets: list[int] = []
    numbers = {sheet: number for number, sheet in enumerate(sorted({n.sheet for n in nodes.values()}))}
    for edge in edges:
        source, target = nodes.get(edge.source), nodes.get(edge.target)
        if source is None or target is None or source is target or source.sheet != target.sheet:
            continue
        lines.append(_line(Box.of(source), Box.of(target), upwards=rises(source, edge)))
        ends.append((places[edge.source], places[edge.target]))
        sheets.append(numbers[source.sheet])
    if not lines:
        return 0
    return _crossing_pairs(np.array(lines), np.array(ends), np.array(sheets))


def rises(source: Node, edge: Edge) -> bool:
    """Say whether an edge leaves its source upwards: the source serves what stands above it."""
    group = source.handles.get("T")
    return group is not None and any(p.type == "out" and p.id == edge.source_handle for p in group.point)


def _line(source: Box, target: Box, *, upwards: bool) -> tuple[float, ...]:
    if upwards:
        return source.middle[0], source.y, target.middle[0], target.bottom
    return source.right, source.middle[1], target.x, target.middle[1]


def _crossing_pairs(lines: NDArray[np.float64], ends: NDArray[np.int64], sheets: NDArray[np.int64]) -> int:
    left, right = lines[:, ::2].min(axis=1), lines[:, ::2].max(axis=1)
    order = np.argsort(left, kind="stable")
    lines, ends, sheets, left, right = lines[order], ends[order], sheets[order], left[order], right[order]
    met: NDArray[np.int64] = left.searchsorted(right, side="right")  # what begins further right is not met
    count = 0
    for number in range(len(lines) - 1):
        after = slice(number + 1, int(met[number]))
        one, others = lines[number], lines[after]
        apart = (ends[after, None, :] != ends[number][:, None]).all(axis=(1, 2))
        apart &= sheets[after] == sheets[number]
        a, b, c, d = one[:2], one[2:], others[:, :2], others[:, 2:]
        across = _turn(a, b, c) * _turn(a, b, d) < 0
        count += int((apart & across & (_turn(c, d, a) * _turn(c, d, b) < 0)).sum())
    return count


def _turn(a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return on which side of the line from a to b the point c lies, by its sign."""
    along, aside = b - a, c - a
    return along[..., 0] * aside[..., 1] - along[..., 1] * aside[..., 0]
