"""Turns wishes about places into one proposal: move a node, tidy a layout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from graphrag.offline.changing import reason_of
from graphrag.offline.desk import MAX_CALLS, Call, CannotGoOn, Desk
from graphrag.offline.graph_answers import LISTED, failed, query_of
from graphrag.offline.intents import Move, Tidy
from graphrag.offline.names import the_nodes
from graphrag.offline.readings import Reading, Row, cell
from graphrag.offline.shown import cite, plain
from graphrag.offline.type_names import sheet_row, the_sheet

GAP_X = 100
GAP_Y = 60
STEP = 200
_PAIR = re.compile(r"(-?[\d.]+(?:e[-+]?\d+)?)[,x](-?[\d.]+(?:e[-+]?\d+)?)")


def move(desk: Desk, wanted: Move) -> NoReturn:
    """Propose another place for a node. Raises: Needs; CannotGoOn where it cannot be."""
    if wanted.sheet is not None:
        raise CannotGoOn(desk.say("no_sheet_move"))
    found = the_nodes(desk, [one for one in (wanted.node, wanted.other) if one is not None])
    node = found[0]
    if wanted.point is not None:
        point = wanted.point
    else:
        details = desk.read_all(*(Call(name="read_node_detail", arguments={"key": one.key}) for one in found))
        boxes = [_box(desk, detail) for detail in details]
        point = _beside(boxes, wanted) if len(boxes) == 2 else _shifted(boxes[0], wanted)
    x, y = (int(value) if value == int(value) else value for value in point)
    arguments = {"nodeKey": node.key, "posX": x, "posY": y, "reason": reason_of(desk)}
    what = desk.say("move", node=cite(node.key), x=x, y=y)
    if len(found) == 2:
        what += " " + desk.say(f"side_{wanted.side}", node=cite(found[1].key))
    desk.propose("move_node", arguments, desk.say("propose", what=what))


def _box(desk: Desk, detail: Reading) -> tuple[float, float, float, float]:
    """Return x, y, width and height of a node."""
    position, size = _PAIR.fullmatch(detail.text_of("position")), _PAIR.fullmatch(detail.text_of("size"))
    if position is None or size is None:
        raise CannotGoOn(desk.say("read_failed", reason=plain(detail.text, 300)))
    return float(position[1]), float(position[2]), float(size[1]), float(size[2])


def _beside(boxes: Sequence[tuple[float, float, float, float]], wanted: Move) -> tuple[float, float]:
    (_, _, width, height), (x, y, other_width, other_height) = boxes
    match wanted.side:
        case "left":
            return x - width - GAP_X, y
        case "up":
            return x, y - height - GAP_Y
        case "down":
            return x, y + other_height + GAP_Y
        case _:
            return x + other_width + GAP_X, y


def _shifted(box: tuple[float, float, float, float], wanted: Move) -> tuple[float, float]:
    x, y, _, _ = box
    far = wanted.distance if wanted.distance is not None else STEP
    match wanted.side:
        case "left":
            return x - far, y
        case "up":
            return x, y - far
        case "down":
            return x, y + far
        case _:
            return x + far, y


def tidy(desk: Desk, wanted: Tidy) -> NoReturn:
    """Propose a layout. Raises: Needs; CannotGoOn where not all nodes meant can be listed."""
    if wanted.nodes:
        keys = list(dict.fromkeys(one.key for one in the_nodes(desk, wanted.nodes)))
        of = ", ".join(map(cite, keys))
    else:
        rows, total, of = _all_nodes(desk, wanted)
        keys = list(dict.fromkeys(cell(row.get("_key")) for row in rows))
        if total is None or len(keys) < total:
            raise CannotGoOn(desk.say("too_many_to_list", listed=len(keys), total=total or "?"))
        if not keys:
            raise CannotGoOn(desk.say("no_nodes", of=of))
        of = desk.say("all_nodes", count=len(keys), of=of)
    arguments = {"nodeKeys": keys, "strategy": wanted.strategy, "reason": reason_of(desk)}
    desk.propose("reorganize_layout", arguments, desk.say("propose", what=desk.say("tidy", of=of)))


def _all_nodes(desk: Desk, wanted: Tidy) -> tuple[list[Row], int | None, str]:
    """Return the nodes of a sheet or of the graph, how many there should be, and what to call them."""
    overview = desk.read("read_graph_overview")
    failed(desk, overview)
    types = [row for row in overview.rows("types") if row.get("type")]
    of, arguments = "", dict[str, str | int]()
    total = overview.number("nodes")
    if wanted.sheet is not None:
        label = the_sheet(desk, wanted.sheet, overview)
        on_sheet = sheet_row(overview, label)
        count = on_sheet.get("nodes")
        total = count if isinstance(count, int) else None
        of, arguments = desk.say("on_sheet", sheet=plain(label, 80)), {"sheet": label}
    calls: list[Call] = []
    if (total or 0) <= LISTED:
        calls = [
            Call(name="search_nodes", arguments={"query": query_of(types), "limit": LISTED, **arguments})
        ]
    else:  # a search lists so many nodes at most: one for each type
        for row in types[:MAX_CALLS]:
            only = {"query": query_of([row]), "limit": LISTED, "type": cell(row.get("type"))}
            calls.append(Call(name="search_nodes", arguments={**only, **arguments}))
    rows = [row for reading in desk.read_all(*calls) for row in reading.rows("found")]
    return rows, total, of
