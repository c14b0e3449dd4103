"""Finds free places for new nodes, beside what they are connected to. Units: the editor's pixels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from datasources.types import Edge, Node

Place = tuple[int, int]

GAP = 80
"""Between a node and the one before it; nodes side by side keep half of it."""

LIMIT = 10_000_000
_STEPS = 60


class Boxes:
    """The areas that nodes of one sheet take; says whether another one still fits."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        rows = [(n.pos_x, n.pos_y, n.pos_x + n.size.width, n.pos_y + n.size.height) for n in nodes]
        # A node may be stored anywhere; what is out of all bounds must not overflow.
        self._rows: NDArray[np.float64] = np.clip(
            np.array(rows, dtype=np.float64).reshape(-1, 4), -LIMIT, LIMIT
        )

    def is_free(self, x: float, y: float, width: float, height: float, gap: float = GAP / 2) -> bool:
        left, top, right, bottom = self._rows.T
        meets = (left < x + width + gap) & (right > x - gap) & (top < y + height + gap) & (bottom > y - gap)
        return not bool(meets.any())

    def add(self, x: float, y: float, width: float, height: float) -> None:
        self._rows = np.vstack([self._rows, np.clip([x, y, x + width, y + height], -LIMIT, LIMIT)])

    def below(self) -> tuple[float, float]:
        """Return where a row under everything begins."""
        if not len(self._rows):
            return 0.0, 0.0
        return float(self._rows[:, 0].min()), float(self._rows[:, 3].max()) + GAP


def place_nodes(new: Sequence[Node], edges: Sequence[Edge], placed: Mapping[str, Node]) -> dict[str, Place]:
    """Return a place for each new node: behind its sources, before its targets, over nothing else.

    `placed` are the nodes whose places are known, on any sheet.
    """
    boxes = {
        sheet: Boxes(node for node in placed.values() if node.sheet == sheet)
        for sheet in {node.sheet for node in new}
    }
    known = dict(placed)
    found: dict[str, Place] = {}
    for node in _in_reach(new, edges, placed):
        sources = _on_sheet(node, (known.get(e.source) for e in edges if e.target == node.key))
        targets = _on_sheet(node, (known.get(e.target) for e in edges if e.source == node.key))
        box = boxes[node.sheet]
        place = _free_near(_wanted(node, sources, targets, box), node, box, is_tied=bool(sources or targets))
        found[node.key] = place
        known[node.key] = node.replace(pos_x=place[0], pos_y=place[1])
        box.add(*place, node.size.width, node.size.height)
    return found


def _in_reach(new: Sequence[Node], edges: Sequence[Edge], placed: Mapping[str, Node]) -> list[Node]:
    """Order the nodes so that each comes, if it can, after one that it is connected to."""
    waiting = {node.key: node for node in new}
    around: dict[str, list[str]] = {}
    for edge in edges:
        around.setdefault(edge.source, []).append(edge.target)
        around.setdefault(edge.target, []).append(edge.source)
    entered = {edge.target for edge in edges}
    ordered: list[Node] = []
    starts = [key for key in waiting if any(other in placed for other in around.get(key, ()))]
    starts += sorted(waiting, key=lambda key: key in entered)  # what nothing enters begins a chain
    for start in starts:
        queue = [start]
        while queue:
            key = queue.pop(0)
            if key in waiting:
                ordered.append(waiting.pop(key))
                queue += around.get(key, ())
    return ordered


def _on_sheet(node: Node, others: Iterable[Node | None]) -> list[Node]:
    return [other for other in others if other is not None and other.sheet == node.sheet]


def _wanted(node: Node, sources: Sequence[Node], targets: Sequence[Node], box: Boxes) -> tuple[float, float]:
    width, height = node.size.width, node.size.height
    tied = [*sources, *targets]
    if not tied:
        return box.below()
    middle = sum(other.pos_y + other.size.height / 2 for other in tied) / len(tied)
    behind = max((other.pos_x + other.size.width for other in sources), default=None)
    before = min((other.pos_x for other in targets), default=None)
    if behind is not None and before is not None and before - behind >= width:
        return (behind + before - width) / 2, middle - height / 2
    if behind is not None:
        return behind + GAP, middle - height / 2
    return (before or 0) - GAP - width, middle - height / 2


def _free_near(wanted: tuple[float, float], node: Node, box: Boxes, *, is_tied: bool) -> Place:
    """Look up and down from the wanted place, then further along, at last below everything."""
    width, height = node.size.width, node.size.height
    x, y = (min(max(value, -LIMIT / 2), LIMIT / 2) for value in wanted)
    step = max(40.0, height / 2)
    # Between two nodes there may be less room than usual: a little is enough.
    for gap in (GAP / 2, 10.0) if is_tied else (GAP / 2,):
        for number in range(_STEPS):
            offset = step * ((number + 1) // 2) * (1 if number % 2 else -1)
            if box.is_free(x, y + offset, width, height, gap):
                return round(x), round(y + offset)
    left, top = box.below()
    return round(left), round(min(top, LIMIT))
