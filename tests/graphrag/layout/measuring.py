"""What a layout is measured by, besides the edges that cross."""

import itertools
from collections.abc import Iterable, Mapping

from datasources.types import Edge, Node, Size
from graphrag.layout import Box, crossings
from graphrag.layout.boxes import holders, is_frame


def moved(nodes: Mapping[str, Node], places: Mapping[str, Box]) -> dict[str, Node]:
    """Return all nodes, those with a new place there."""
    return {
        key: node
        if (box := places.get(key)) is None
        else node.replace(pos_x=box.x, pos_y=box.y, size=Size(width=box.width, height=box.height))
        for key, node in nodes.items()
    }


def overlap(one: Node, other: Node) -> bool:
    return (
        one.sheet == other.sheet
        and one.pos_x < other.pos_x + other.size.width
        and other.pos_x < one.pos_x + one.size.width
        and one.pos_y < other.pos_y + other.size.height
        and other.pos_y < one.pos_y + one.size.height
    )


def measured(
    nodes: Mapping[str, Node], edges: Iterable[Edge], before: Mapping[str, Node]
) -> dict[str, int]:
    """Count crossings, steps over one another, steps out of the note that held them,
    and into another.
    """
    steps = [node for node in nodes.values() if not is_frame(node)]
    was = holders(before)
    now = holders(nodes)
    return {
        "crossings": crossings(nodes, edges),
        "overlaps": sum(overlap(a, b) for a, b in itertools.combinations(steps, 2)),
        "left their note": sum(
            node.key in was and now.get(node.key) != was[node.key] for node in steps
        ),
        "strayed into one": sum(node.key in now and node.key not in was for node in steps),
    }
