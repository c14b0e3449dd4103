"""The areas of nodes, the note or group that contains each node, and the number of crossing
edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasources.types import Edge, Node
from tools.checks.checked_graph import data_of

# Distance between a node and the one before it; nodes side by side have half of it.
GAP = 80

# Coordinates and sizes are clamped to this.
LIMIT = 10_000_000
# The types of nodes that may contain others.
FRAMES = ("note", "group")


@dataclass(frozen=True, slots=True)
class Box:
    """An area: its top-left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @classmethod
    def of(cls, node: Node) -> Box:
        """Returns a node's area, clamped so that extreme stored values do not overflow."""
        x, y = (min(max(float(value), -LIMIT / 2), LIMIT / 2) for value in (node.pos_x, node.pos_y))
        width, height = (min(max(float(v), 1), LIMIT) for v in (node.size.width, node.size.height))
        return cls(x, y, width, height)

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2

    def at(self, x: float, y: float) -> Box:
        """Returns an area of the same size at another place."""
        return Box(x, y, self.width, self.height)

    def rounded(self) -> Box:
        """Returns the area in whole pixels, clamped."""
        x, y = (round(min(max(value, -LIMIT), LIMIT)) for value in (self.x, self.y))
        return Box(x, y, round(self.width), round(self.height))

    def around(self, others: Iterable[Box], pad: float) -> Box:
        """Returns the area, extended to the right and below until it contains the others with a
        margin.
        """
        listed = list(others)
        right = max([self.right, *(other.right + pad for other in listed)])
        bottom = max([self.bottom, *(other.bottom + pad for other in listed)])
        return Box(self.x, self.y, right - self.x, bottom - self.y)


class Boxes:
    """The occupied areas of one sheet."""

    def __init__(self, boxes: Iterable[Box] = ()) -> None:
        rows = [(box.x, box.y, box.right, box.bottom) for box in boxes]
        self._rows: NDArray[np.float64] = np.array(rows, dtype=np.float64).reshape(-1, 4)

    def is_free(self, box: Box, gap: float = GAP / 2) -> bool:
        left, top, right, bottom = self._rows.T
        meets = (left < box.right + gap) & (right > box.x - gap)
        meets &= (top < box.bottom + gap) & (bottom > box.y - gap)
        return not bool(meets.any())

    def below(self) -> tuple[float, float]:
        """Returns the start of a row below everything."""
        if not len(self._rows):
            return 0.0, 0.0
        return float(self._rows[:, 0].min()), float(self._rows[:, 3].max()) + GAP


def is_frame(node: Node) -> bool:
    """Returns whether a node may contain others."""
    return node.type in FRAMES


def holders(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Returns the note or group that contains each node: its own group, or else the smallest frame
    around its middle.

    A frame is contained in a larger one that surrounds it completely.
    """
    frame_of: dict[str, str] = {}
    for sheet in {node.sheet for node in nodes.values() if is_frame(node)}:
        sheet_nodes = {key: node for key, node in nodes.items() if node.sheet == sheet}
        frame_of |= _frames_on_sheet(sheet_nodes)
    return {key: frame for key, frame in frame_of.items() if key not in ancestors(frame, frame_of)}


def _frames_on_sheet(nodes: Mapping[str, Node]) -> dict[str, str]:
    boxes = {key: Box.of(node) for key, node in nodes.items()}
    frames = [key for key, node in nodes.items() if is_frame(node)]
    frames.sort(key=lambda key: (boxes[key].width * boxes[key].height, key))
    order = {frame: number for number, frame in enumerate(frames)}
    rows = [(boxes[key].x, boxes[key].y, boxes[key].right, boxes[key].bottom) for key in frames]
    left, top, right, bottom = np.array(rows, dtype=np.float64).T
    frame_of: dict[str, str] = {}
    for key, node in nodes.items():
        group = data_of(node).get("group")
        box = boxes[key]
        if isinstance(group, str) and group in order and group != key:
            frame_of[key] = group
            continue
        # a frame must lie completely in a larger one; of a node only the middle
        first = order.get(key, -1) + 1
        low, high = ((box.x, box.y), (box.right, box.bottom)) if first else (box.middle, box.middle)
        holds = (left <= low[0]) & (right >= high[0]) & (top <= low[1]) & (bottom >= high[1])
        if (containing := np.flatnonzero(holds[first:])).size:
            frame_of[key] = frames[first + int(containing[0])]
    return frame_of


def ancestors(key: str, frame_of: Mapping[str, str]) -> Iterator[str]:
    """Yields a node and then its frames from inside to outside. Ends at a cycle."""
    seen: set[str] = set()
    current: str | None = key
    while current is not None and current not in seen:
        seen.add(current)
        yield current
        current = frame_of.get(current)


def crossings(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> int:
    """Returns the number of pairs of edges that cross as straight lines; edges of a common node do
    not count.
    """
    places = {key: number for number, key in enumerate(nodes)}
    lines: list[tuple[float, ...]] = []
    ends: list[tuple[int, int]] = []
    sheets: list[int] = []
    numbers = {
        sheet: number for number, sheet in enumerate(sorted({n.sheet for n in nodes.values()}))
    }
    for edge in edges:
        source = nodes.get(edge.source)
        target = nodes.get(edge.target)
        if source is None or target is None or source is target or source.sheet != target.sheet:
            continue
        lines.append(_line(Box.of(source), Box.of(target), upwards=rises(source, edge)))
        ends.append((places[edge.source], places[edge.target]))
        sheets.append(numbers[source.sheet])
    if not lines:
        return 0
    return _crossing_pairs(np.array(lines), np.array(ends), np.array(sheets))


def rises(source: Node, edge: Edge) -> bool:
    """Returns whether an edge leaves its source at the top, because the source serves the node
    above it.
    """
    group = source.handles.get("T")
    return group is not None and any(
        p.type == "out" and p.id == edge.source_handle for p in group.point
    )


def _line(source: Box, target: Box, *, upwards: bool) -> tuple[float, ...]:
    if upwards:
        return source.middle[0], source.y, target.middle[0], target.bottom
    return source.right, source.middle[1], target.x, target.middle[1]


def _crossing_pairs(
    lines: NDArray[np.float64], ends: NDArray[np.int64], sheets: NDArray[np.int64]
) -> int:
    left = lines[:, ::2].min(axis=1)
    right = lines[:, ::2].max(axis=1)
    order = np.argsort(left, kind="stable")
    lines = lines[order]
    ends = ends[order]
    sheets = sheets[order]
    left = left[order]
    right = right[order]
    # lines that begin further right cannot cross
    met: NDArray[np.int64] = left.searchsorted(right, side="right")
    count = 0
    for number in range(len(lines) - 1):
        after = slice(number + 1, int(met[number]))
        one = lines[number]
        others = lines[after]
        apart = (ends[after, None, :] != ends[number][:, None]).all(axis=(1, 2))
        apart &= sheets[after] == sheets[number]
        a = one[:2]
        b = one[2:]
        c = others[:, :2]
        d = others[:, 2:]
        across = _turn(a, b, c) * _turn(a, b, d) < 0
        count += int((apart & across & (_turn(c, d, a) * _turn(c, d, b) < 0)).sum())
    return count


def _turn(
    a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the side of the line from a to b on which c lies, as a sign."""
    along = b - a
    aside = c - a
    return along[..., 0] * aside[..., 1] - along[..., 1] * aside[..., 0]
