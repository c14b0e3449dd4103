"""Finds places for new nodes: beside what they are connected to, in the note or group
that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from datasources.types import Edge, Node
from graphrag.layout.boxes import GAP, Box, Boxes, ancestors, holders, is_frame

_STEPS, _COLUMNS, _PAD = 24, 8, 30


def place_nodes(
    new: Sequence[Node], edges: Sequence[Edge], placed: Mapping[str, Node]
) -> dict[str, Box]:
    """Return a place for each new node: behind its sources, before its targets, over nothing else.

    `placed` are the nodes whose places are known, on any sheet. A frame that has to grow for what
    is placed in it is returned, too, with its new size.
    """
    known = dict(placed)
    grown = dict[str, Box]()
    held = holders(known)
    for node in _in_reach(new, edges, placed):
        sources = _on_sheet(node, (known.get(e.source) for e in edges if e.target == node.key))
        targets = _on_sheet(node, (known.get(e.target) for e in edges if e.source == node.key))
        frame = None if is_frame(node) else _shared_frame([*sources, *targets], held)
        around = list(ancestors(frame, held)) if frame else []
        others = {k: n for k, n in known.items() if n.sheet == node.sheet and k not in around}
        taken = Boxes(Box.of(other) for other in others.values())
        wanted, is_behind = _wanted(node, sources, targets, taken)
        inside = Box.of(known[frame]) if frame else None
        place = _free_near(
            wanted, inside, taken, is_behind=is_behind, is_tied=bool(sources or targets)
        )
        known[node.key] = node.replace(pos_x=place.x, pos_y=place.y)
        if frame:
            held[node.key] = frame
        for holder in around:
            old = Box.of(known[holder])
            if (box := old.around([place], _PAD)) != old:
                grown[holder] = box
                known[holder] = known[holder].replace(
                    size={"width": box.width, "height": box.height}
                )
    return {node.key: Box.of(known[node.key]) for node in new} | grown


def _shared_frame(tied: Sequence[Node], held: Mapping[str, str]) -> str | None:
    """Return the frame of the first neighbour, or the one around it that holds the others, too."""
    chains = [[*ancestors(node.key, held)][1:] for node in tied]
    common = (
        [frame for frame in chains[0] if all(frame in chain for chain in chains)] if chains else []
    )
    return next(iter(common or (chains[0] if chains else ())), None)


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


def _wanted(
    node: Node, sources: Sequence[Node], targets: Sequence[Node], taken: Boxes
) -> tuple[Box, bool | None]:
    """Return where a node would stand, and whether free room is looked for behind it
    (else before it).
    """
    size = Box.of(node)
    tied = [Box.of(other) for other in (*sources, *targets)]
    if not tied:
        return size.at(*taken.below()), None
    y = sum(other.middle[1] for other in tied) / len(tied) - size.height / 2
    behind = max((Box.of(other).right for other in sources), default=None)
    before = min((Box.of(other).x for other in targets), default=None)
    if (
        behind is not None and before is not None and before > behind
    ):  # between them, else above or below
        return size.at((behind + before - size.width) / 2, y), None
    x = behind + GAP if behind is not None else (before or 0) - GAP - size.width
    return size.at(x, y), behind is not None


def _free_near(
    wanted: Box, inside: Box | None, taken: Boxes, *, is_behind: bool | None, is_tied: bool
) -> Box:
    """Look up and down from the wanted place, inside the frame first, then further along,
    at last below.
    """
    step = max(40.0, wanted.height / 2)
    columns = _COLUMNS if is_behind is not None else 1
    offsets = [step * ((n + 1) // 2) * (1 if n % 2 else -1) for n in range(_STEPS)]
    along = [column * GAP * (1 if is_behind else -1) for column in range(columns)]
    spots = [wanted.at(wanted.x + x, wanted.y + y) for x in along for y in offsets]
    if inside is not None:  # a frame grows to the right and below only
        spots = [spot for spot in spots if spot.x >= inside.x and spot.y >= inside.y]
        spots.sort(key=lambda spot: spot.right > inside.right or spot.bottom > inside.bottom)
    # Between two nodes there may be less room than usual: a little is enough.
    for gap in (GAP / 2, 10.0) if is_tied else (GAP / 2,):
        if (spot := next((spot for spot in spots if taken.is_free(spot, gap)), None)) is not None:
            return spot.rounded()
    if inside is not None:
        return wanted.at(max(wanted.x, inside.x + _PAD), inside.bottom).rounded()
    left, top = taken.below()
    return wanted.at(wanted.x if is_tied else left, top).rounded()
