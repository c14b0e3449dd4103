"""Arranges nodes along their edges, left to right or top down. Notes and groups keep their
contents.

Frames are laid out from inside to outside: the contents of a frame become one box. Nodes that serve
a node from below are placed in a row under it. Nodes that are not selected stay in place, and so
does a pinned node, with the frames around it and all their contents.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from datasources.types import Edge, Node
from graphrag.layout.boxes import GAP, Box, Boxes, ancestors, holders, is_frame, rises
from graphrag.layout.layers import ROW_GAP, ROW_LENGTH, Item, Link, in_layers
from tools.checks.checked_graph import data_of
from tools.proposal_parts import Strategy

# Distance between a frame and its contents.
PAD = 40

# Space for a node's name under the node.
NAME_HEIGHT = 40

# The field of a node that must stay in place, with the value true.
PINNED = "pinned"

# More would block a thread for many seconds.
MAX_NODES, MAX_EDGES = 5_000, 10_000

_LEAST_WIDTH = 240
_HEAD, _MAX_HEAD, _LINE, _LETTER = 60, 600, 22, 8
_SHIFTS = 60
Place = tuple[float, float]


class TooMuchToArrange(ValueError):
    """The graph has more nodes or edges than can be arranged."""

    def __init__(self) -> None:
        self.nodes = MAX_NODES
        self.edges = MAX_EDGES
        super().__init__(
            f"more than {MAX_NODES:,} nodes or {MAX_EDGES:,} edges cannot be arranged at once"
        )


def arrange(
    nodes: Mapping[str, Node],
    edges: Iterable[Edge],
    *,
    keys: Iterable[str] | None = None,
    strategy: Strategy = "left_to_right",
) -> dict[str, Box]:
    """Returns new areas for the selected nodes (`keys`, or all), near their present places and
    without covering other nodes.

    A selected frame moves with its contents; an unselected one grows as needed.
    Raises: TooMuchToArrange.
    """
    edges = list(edges)
    if len(nodes) > MAX_NODES or len(edges) > MAX_EDGES:
        raise TooMuchToArrange
    joins = (e for e in edges if e.source != e.target and e.source in nodes and e.target in nodes)
    links = sorted({(e.source, e.target, rises(nodes[e.source], e)) for e in joins})
    frame_of = holders(nodes)
    selected = set(nodes if keys is None else keys)
    selected |= {key for key in frame_of if not selected.isdisjoint(ancestors(key, frame_of))}
    for key, node in nodes.items():
        if (node.model_extra or {}).get(PINNED) is True:
            outermost = list(ancestors(key, frame_of))[-1]
            selected -= {other for other in nodes if outermost in ancestors(other, frame_of)}
    areas: dict[str, Box] = {}
    for sheet in sorted({nodes[key].sheet for key in selected}):
        sheet_nodes = {key: nodes[key] for key in nodes if nodes[key].sheet == sheet}
        areas |= _Sheet(
            sheet_nodes, links, frame_of, selected, flip=strategy == "top_down"
        ).arranged()
    return areas


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrangement:
    """A laid-out group of nodes: their areas relative to its corner, and the height at which edges
    meet it.
    """

    width: float
    height: float
    anchor: float
    boxes: Mapping[str, Box]


class _Sheet:
    """Lays out the selected nodes of one sheet."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        links: Sequence[tuple[str, str, bool]],
        frame_of: Mapping[str, str],
        selected: set[str],
        *,
        flip: bool,
    ) -> None:
        self._nodes = nodes
        self._frame_of = frame_of
        self._flip = flip
        self._boxes = {key: Box.of(node) for key, node in nodes.items()}
        self._selected = [key for key in nodes if key in selected]
        movable = self._movable = set(self._selected)
        self._links = [link for link in links if link[0] in movable and link[1] in movable]
        self._owner = self._owners()
        self._parts: dict[str, list[str]] = {}
        for part, owner in self._owner.items():
            self._parts.setdefault(owner, []).append(part)
        self._inside: dict[str | None, list[str]] = {}
        for key in self._selected:
            self._inside.setdefault(frame_of.get(key), []).append(key)
        self._linked = {key for source, target, _ in self._links for key in (source, target)}
        self._links_in: dict[str | None, set[Link]] = {}
        for source, target, _ in self._links:
            self._join(source, target)

    def arranged(self) -> dict[str, Box]:
        """Returns the new areas, including those of unselected frames that have to grow."""
        areas: dict[str, Box] = {}
        unselected = set(self._nodes) - set(self._selected)
        for frame in [frame for frame in self._inside if frame is None or frame in unselected]:
            block = self._level(frame)
            around = set(ancestors(frame, self._frame_of)) if frame is not None else set[str]()
            old_boxes = [self._boxes[key] for key in self._inside[frame]]
            corner = min(box.x for box in old_boxes), min(box.y for box in old_boxes)
            areas |= _shifted(block, corner, Boxes(self._boxes[key] for key in unselected - around))
        inside = {key: areas[key] for key in self._selected}
        for frame in dict.fromkeys(
            f for key in self._selected for f in [*ancestors(key, self._frame_of)][1:]
        ):
            if frame in unselected:
                contents = [
                    box for key, box in inside.items() if frame in ancestors(key, self._frame_of)
                ]
                grown = self._boxes[frame].around(contents, PAD / 2)
                if grown != self._boxes[frame]:
                    areas[frame] = grown
        return {key: box.rounded() for key, box in areas.items()}

    def _join(self, source: str, target: str) -> None:
        """Records a link in the innermost frame that contains both ends, between the heads of the
        ends there.
        """
        source_heads = {self._frame_of.get(head): head for head in self._heads(source)}
        for head in self._heads(target):
            if (other := source_heads.get(frame := self._frame_of.get(head))) is not None:
                if other != head:
                    self._links_in.setdefault(frame, set()).add((other, head))
                return

    def _heads(self, key: str) -> Iterator[str]:
        """Yields the nodes with which a node is placed, from inside to outside: the node above it,
        and frames.

        An unselected frame stays in place and belongs to no layer.
        """
        for holder in ancestors(key, self._frame_of):
            if holder not in self._movable:
                return
            *_, head = ancestors(holder, self._owner)
            yield head

    def _owners(self) -> dict[str, str]:
        """Returns the node above each part: the first that it serves in the same frame."""
        owners: dict[str, str] = {}
        for source, target, upwards in self._links:
            if (
                upwards
                and self._frame_of.get(source) == self._frame_of.get(target)
                and not self._is_frame(source)
            ):
                owners.setdefault(source, target)
        return {
            part: owner for part, owner in owners.items() if part not in ancestors(owner, owners)
        }

    def _is_frame(self, key: str) -> bool:
        return is_frame(self._nodes[key])

    def _level(self, frame: str | None) -> _Arrangement:
        """Lays out the contents of a frame or, for None, the nodes outside of frames."""
        heads = [key for key in self._inside[frame] if key not in self._owner]
        blocks = {key: self._block(key) for key in heads}
        is_left = frame is not None and not self._linked.isdisjoint(heads)
        spots = self._flow(
            blocks, self._links_in.get(frame, set[Link]()), 0 if is_left else ROW_LENGTH
        )
        boxes: dict[str, Box] = {}
        for key, spot in spots.items():
            boxes |= _moved(blocks[key].boxes, spot.x, spot.y)
        return _Arrangement(
            width=max(box.right for box in spots.values()),
            height=max(box.bottom for box in spots.values()),
            anchor=sum(box.y + blocks[key].anchor for key, box in spots.items()) / len(spots),
            boxes=boxes,
        )

    def _flow(
        self, blocks: Mapping[str, _Arrangement], links: Collection[Link], length: float
    ) -> dict[str, Box]:
        items: dict[str, Item] = {}
        for key, block in blocks.items():
            (x, y), along, across, anchor = (
                self._boxes[key].middle,
                block.width,
                block.height,
                block.anchor,
            )
            if self._flip:
                x, y, along, across, anchor = y, x, across, along, block.width / 2
            items[key] = Item(along=along, across=across, anchor=anchor, place=(x, y))
        spots: dict[str, Box] = {}
        for key, spot in in_layers(items, links, length).items():
            x, y = spot[::-1] if self._flip else spot
            spots[key] = Box(x, y, blocks[key].width, blocks[key].height)
        return spots

    def _block(self, key: str) -> _Arrangement:
        """Lays out a frame with its contents, or a node with the parts under it."""
        box = self._boxes[key]
        if self._is_frame(key) and key in self._inside:
            return self._frame(key, box)
        parts = [self._block(part) for part in self._parts.get(key, ())]
        row = sum(part.width + ROW_GAP for part in parts) - ROW_GAP
        width = max(box.width, row)
        height = box.height
        boxes = {key: box.at((width - box.width) / 2, 0)}
        x = (width - row) / 2
        below = height + NAME_HEIGHT + ROW_GAP / 2
        for part in parts:
            boxes |= _moved(part.boxes, x, below)
            x += part.width + ROW_GAP
            height = max(height, below + part.height + NAME_HEIGHT)
        return _Arrangement(width=width, height=height, anchor=box.height / 2, boxes=boxes)

    def _frame(self, key: str, old_box: Box) -> _Arrangement:
        inner = self._level(key)
        width = max(inner.width + 2 * PAD, min(old_box.width, _LEAST_WIDTH))
        head = _head_of(self._nodes[key], width)
        box = Box(0, 0, width, head + inner.height + PAD)
        boxes = {key: box, **_moved(inner.boxes, PAD, head)}
        return _Arrangement(width=width, height=box.height, anchor=head + inner.anchor, boxes=boxes)


def _head_of(node: Node, width: float) -> float:
    """Returns the height of a frame's text above its contents."""
    data = data_of(node)
    text = str(data.get("text") or data.get("name") or "")
    lines = sum(
        max(1, math.ceil(len(line) * _LETTER / (width - 20))) for line in text[:4000].splitlines()
    )
    return min(max(_HEAD, lines * _LINE + 30), _MAX_HEAD)


def _moved(boxes: Mapping[str, Box], x: float, y: float) -> dict[str, Box]:
    return {key: box.at(box.x + x, box.y + y) for key, box in boxes.items()}


def _shifted(block: _Arrangement, corner: Place, others: Boxes) -> dict[str, Box]:
    """Places a block at the corner, or at the first place below where it covers no
    unselected node.
    """
    for number in range(_SHIFTS):
        placed = _moved(block.boxes, corner[0], corner[1] + GAP * number)
        if all(others.is_free(box, 20) for box in placed.values()):
            return placed
    return _moved(block.boxes, corner[0], others.below()[1])
