"""Arranges nodes along their edges, left to right or top down; notes and groups keep
what they hold.

A frame is laid out from inside to outside: what it holds becomes one box. What serves a node from
below hangs in a row under it. Nodes that are not named stay where they are, and so does a pinned
node, with the frames around it and all they hold.
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

PAD = 40
"""Between a frame and what it holds."""

NAME_HEIGHT = 40
"""What a node's name may take under it."""

PINNED = "pinned"
"""The field of a node that a person wants to stay where it is: true."""

MAX_NODES, MAX_EDGES = 5_000, 10_000
"""More would keep a thread for many seconds."""

_LEAST_WIDTH = 240
_HEAD, _MAX_HEAD, _LINE, _LETTER = 60, 600, 22, 8
_SHIFTS = 60
Place = tuple[float, float]


class TooMuchToArrange(ValueError):
    """More nodes or edges than are arranged at once."""

    def __init__(self) -> None:
        self.nodes = MAX_NODES
        self.edges = MAX_EDGES
        super().__init__(
            f"more than {MAX_NODES:,} nodes or {MAX_EDGES:,} edges are not arranged at once"
        )


def arrange(
    nodes: Mapping[str, Node],
    edges: Iterable[Edge],
    *,
    keys: Iterable[str] | None = None,
    strategy: Strategy = "left_to_right",
) -> dict[str, Box]:
    """Return new places and sizes for the named nodes (all), around where they are and over
    no other node.

    A named frame takes along what it holds; a frame that is not named grows where it must.
    Raises: TooMuchToArrange.
    """
    edges = list(edges)
    if len(nodes) > MAX_NODES or len(edges) > MAX_EDGES:
        raise TooMuchToArrange
    joins = (e for e in edges if e.source != e.target and e.source in nodes and e.target in nodes)
    listed = sorted({(e.source, e.target, rises(nodes[e.source], e)) for e in joins})
    held = holders(nodes)
    named = set(nodes if keys is None else keys)
    named |= {key for key in held if not named.isdisjoint(ancestors(key, held))}
    for key, node in nodes.items():
        if (node.model_extra or {}).get(PINNED) is True:
            outermost = list(ancestors(key, held))[-1]
            named -= {other for other in nodes if outermost in ancestors(other, held)}
    found: dict[str, Box] = {}
    for sheet in sorted({nodes[key].sheet for key in named}):
        own = {key: nodes[key] for key in nodes if nodes[key].sheet == sheet}
        found |= _Sheet(own, listed, held, named, flip=strategy == "top_down").arranged()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrangement:
    """Nodes that are laid out: their areas from a corner 0, 0, and the height at which
    edges meet them.
    """

    width: float
    height: float
    anchor: float
    boxes: Mapping[str, Box]


class _Sheet:
    """Lays out the named nodes of one sheet."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        links: Sequence[tuple[str, str, bool]],
        held: Mapping[str, str],
        named: set[str],
        *,
        flip: bool,
    ) -> None:
        self._nodes = nodes
        self._held = held
        self._flip = flip
        self._boxes = {key: Box.of(node) for key, node in nodes.items()}
        self._named = [key for key in nodes if key in named]
        own = self._movable = set(self._named)
        self._links = [link for link in links if link[0] in own and link[1] in own]
        self._owner = self._owners()
        self._parts: dict[str, list[str]] = {}
        for part, owner in self._owner.items():
            self._parts.setdefault(owner, []).append(part)
        self._inside: dict[str | None, list[str]] = {}
        for key in self._named:
            self._inside.setdefault(held.get(key), []).append(key)
        self._linked = {key for source, target, _ in self._links for key in (source, target)}
        self._links_in: dict[str | None, set[Link]] = {}
        for source, target, _ in self._links:
            self._join(source, target)

    def arranged(self) -> dict[str, Box]:
        """Return the new areas; those of unnamed frames that have to grow, too."""
        found: dict[str, Box] = {}
        unnamed = set(self._nodes) - set(self._named)
        for frame in [frame for frame in self._inside if frame is None or frame in unnamed]:
            block = self._level(frame)
            around = set(ancestors(frame, self._held)) if frame is not None else set[str]()
            stood = [self._boxes[key] for key in self._inside[frame]]
            corner = min(box.x for box in stood), min(box.y for box in stood)
            found |= _shifted(block, corner, Boxes(self._boxes[key] for key in unnamed - around))
        inside = {key: found[key] for key in self._named}
        for frame in dict.fromkeys(
            f for key in self._named for f in [*ancestors(key, self._held)][1:]
        ):
            if frame in unnamed:
                holds = [box for key, box in inside.items() if frame in ancestors(key, self._held)]
                grown = self._boxes[frame].around(holds, PAD / 2)
                if grown != self._boxes[frame]:
                    found[frame] = grown
        return {key: box.rounded() for key, box in found.items()}

    def _join(self, source: str, target: str) -> None:
        """Note a link between what holds its ends, in the innermost frame that holds both."""
        of_source = {self._held.get(head): head for head in self._heads(source)}
        for head in self._heads(target):
            if (other := of_source.get(frame := self._held.get(head))) is not None:
                if other != head:
                    self._links_in.setdefault(frame, set()).add((other, head))
                return

    def _heads(self, key: str) -> Iterator[str]:
        """Yield what a node is placed with, from inside to outside: the node it
        hangs under, frames.

        A frame that is not named stays where it is, with no layer among the others.
        """
        for holder in ancestors(key, self._held):
            if holder not in self._movable:
                return
            *_, head = ancestors(holder, self._owner)
            yield head

    def _owners(self) -> dict[str, str]:
        """Return the node under which each part hangs: the first that it serves, in
        the same frame.
        """
        found: dict[str, str] = {}
        for source, target, upwards in self._links:
            if (
                upwards
                and self._held.get(source) == self._held.get(target)
                and not self._is_frame(source)
            ):
                found.setdefault(source, target)
        return {part: owner for part, owner in found.items() if part not in ancestors(owner, found)}

    def _is_frame(self, key: str) -> bool:
        return is_frame(self._nodes[key])

    def _level(self, frame: str | None) -> _Arrangement:
        """Lay out what a frame holds, or what none does."""
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
        found: dict[str, Box] = {}
        for key, spot in in_layers(items, links, length).items():
            x, y = spot[::-1] if self._flip else spot
            found[key] = Box(x, y, blocks[key].width, blocks[key].height)
        return found

    def _block(self, key: str) -> _Arrangement:
        """Lay out a frame with what it holds, or a node with the parts that hang under it."""
        own = self._boxes[key]
        if self._is_frame(key) and key in self._inside:
            return self._frame(key, own)
        parts = [self._block(part) for part in self._parts.get(key, ())]
        row = sum(part.width + ROW_GAP for part in parts) - ROW_GAP
        width = max(own.width, row)
        height = own.height
        boxes = {key: own.at((width - own.width) / 2, 0)}
        x = (width - row) / 2
        below = height + NAME_HEIGHT + ROW_GAP / 2
        for part in parts:
            boxes |= _moved(part.boxes, x, below)
            x += part.width + ROW_GAP
            height = max(height, below + part.height + NAME_HEIGHT)
        return _Arrangement(width=width, height=height, anchor=own.height / 2, boxes=boxes)

    def _frame(self, key: str, own: Box) -> _Arrangement:
        inner = self._level(key)
        width = max(inner.width + 2 * PAD, min(own.width, _LEAST_WIDTH))
        head = _head_of(self._nodes[key], width)
        box = Box(0, 0, width, head + inner.height + PAD)
        boxes = {key: box, **_moved(inner.boxes, PAD, head)}
        return _Arrangement(width=width, height=box.height, anchor=head + inner.anchor, boxes=boxes)


def _head_of(node: Node, width: float) -> float:
    """Return the room that a frame's text needs above what it holds."""
    data = data_of(node)
    text = str(data.get("text") or data.get("name") or "")
    lines = sum(
        max(1, math.ceil(len(line) * _LETTER / (width - 20))) for line in text[:4000].splitlines()
    )
    return min(max(_HEAD, lines * _LINE + 30), _MAX_HEAD)


def _moved(boxes: Mapping[str, Box], x: float, y: float) -> dict[str, Box]:
    return {key: box.at(box.x + x, box.y + y) for key, box in boxes.items()}


def _shifted(block: _Arrangement, corner: Place, others: Boxes) -> dict[str, Box]:
    """Put a block's corner where it was, or below, where it covers no node that stays."""
    for number in range(_SHIFTS):
        placed = _moved(block.boxes, corner[0], corner[1] + GAP * number)
        if all(others.is_free(box, 20) for box in placed.values()):
            return placed
    return _moved(block.boxes, corner[0], others.below()[1])
