"""Finds places for new nodes: beside their neighbours, in the note or group that contains these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from datasources.types import Edge, Node
from graphrag.layout.boxes import GAP, Box, Boxes, ancestors, holders, is_frame

_STEPS, _COLUMNS, _PAD = 24, 8, 30


def place_nodes(
    new: Sequence[Node], edges: Sequence[Edge], placed: Mapping[str, Node]
) -> dict[str, Box]:
    """Returns a place for each new node: behind its sources, before its targets, covering no other
    node.

    `placed` are the nodes with known places, on any sheet. Frames that have to grow for their new
    contents are returned with their new size.
    """
    nodes = dict(placed)
    grown = dict[str, Box]()
    frame_of = holders(nodes)
    for node in _in_reach(new, edges, placed):
        sources = _on_sheet(node, (nodes.get(e.source) for e in edges if e.target == node.key))
        targets = _on_sheet(node, (nodes.get(e.target) for e in edges if e.source == node.key))
        frame = None if is_frame(node) else _shared_frame([*sources, *targets], frame_of)
        frames = list(ancestors(frame, frame_of)) if frame else []
        others = {k: n for k, n in nodes.items() if n.sheet == node.sheet and k not in frames}
        occupied = Boxes(Box.of(other) for other in others.values())
        preferred, search_behind = _preferred_place(node, sources, targets, occupied)
        inside = Box.of(nodes[frame]) if frame else None
        place = _free_near(
            preferred,
            inside,
            occupied,
            search_behind=search_behind,
            has_neighbours=bool(sources or targets),
        )
        nodes[node.key] = node.replace(pos_x=place.x, pos_y=place.y)
        if frame:
            frame_of[node.key] = frame
        for holder in frames:
            old = Box.of(nodes[holder])
            if (box := old.around([place], _PAD)) != old:
                grown[holder] = box
                nodes[holder] = nodes[holder].replace(
                    size={"width": box.width, "height": box.height}
                )
    return {node.key: Box.of(nodes[node.key]) for node in new} | grown


def _shared_frame(neighbours: Sequence[Node], frame_of: Mapping[str, str]) -> str | None:
    """Returns the frame of the first neighbour, or the one around it that contains all
    neighbours.
    """
    chains = [[*ancestors(node.key, frame_of)][1:] for node in neighbours]
    common = (
        [frame for frame in chains[0] if all(frame in chain for chain in chains)] if chains else []
    )
    return next(iter(common or (chains[0] if chains else ())), None)


def _in_reach(new: Sequence[Node], edges: Sequence[Edge], placed: Mapping[str, Node]) -> list[Node]:
    """Orders the nodes so that each comes, if possible, after one that it is connected to."""
    remaining = {node.key: node for node in new}
    neighbours: dict[str, list[str]] = {}
    for edge in edges:
        neighbours.setdefault(edge.source, []).append(edge.target)
        neighbours.setdefault(edge.target, []).append(edge.source)
    entered = {edge.target for edge in edges}
    ordered: list[Node] = []
    starts = [key for key in remaining if any(other in placed for other in neighbours.get(key, ()))]
    starts += sorted(
        remaining, key=lambda key: key in entered
    )  # nodes without incoming edges first
    for start in starts:
        queue = [start]
        while queue:
            key = queue.pop(0)
            if key in remaining:
                ordered.append(remaining.pop(key))
                queue += neighbours.get(key, ())
    return ordered


def _on_sheet(node: Node, others: Iterable[Node | None]) -> list[Node]:
    return [other for other in others if other is not None and other.sheet == node.sheet]


def _preferred_place(
    node: Node, sources: Sequence[Node], targets: Sequence[Node], occupied: Boxes
) -> tuple[Box, bool | None]:
    """Returns the preferred area of a node, and whether to search behind it (True) or before it
    (False) for free space; None: only above and below.
    """
    size = Box.of(node)
    neighbours = [Box.of(other) for other in (*sources, *targets)]
    if not neighbours:
        return size.at(*occupied.below()), None
    y = sum(other.middle[1] for other in neighbours) / len(neighbours) - size.height / 2
    behind = max((Box.of(other).right for other in sources), default=None)
    before = min((Box.of(other).x for other in targets), default=None)
    if behind is not None and before is not None and before > behind:
        # Between sources and targets; if that is occupied, above or below.
        return size.at((behind + before - size.width) / 2, y), None
    x = behind + GAP if behind is not None else (before or 0) - GAP - size.width
    return size.at(x, y), behind is not None


def _free_near(
    preferred: Box,
    frame: Box | None,
    occupied: Boxes,
    *,
    search_behind: bool | None,
    has_neighbours: bool,
) -> Box:
    """Searches free space above and below the preferred place, first inside the frame, then further
    along, finally below everything.
    """
    step = max(40.0, preferred.height / 2)
    columns = _COLUMNS if search_behind is not None else 1
    offsets = [step * ((n + 1) // 2) * (1 if n % 2 else -1) for n in range(_STEPS)]
    along = [column * GAP * (1 if search_behind else -1) for column in range(columns)]
    spots = [preferred.at(preferred.x + x, preferred.y + y) for x in along for y in offsets]
    if frame is not None:  # frames grow only to the right and below
        spots = [spot for spot in spots if spot.x >= frame.x and spot.y >= frame.y]
        spots.sort(key=lambda spot: spot.right > frame.right or spot.bottom > frame.bottom)
    # There may be little space between two nodes, so a small gap is tried, too.
    for gap in (GAP / 2, 10.0) if has_neighbours else (GAP / 2,):
        if (
            spot := next((spot for spot in spots if occupied.is_free(spot, gap)), None)
        ) is not None:
            return spot.rounded()
    if frame is not None:
        return preferred.at(max(preferred.x, frame.x + _PAD), frame.bottom).rounded()
    left, top = occupied.below()
    return preferred.at(preferred.x if has_neighbours else left, top).rounded()
