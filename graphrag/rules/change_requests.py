"""Turns plain requests for changes into one proposal each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from graphrag.rules.graph_answers import all_keys
from graphrag.rules.markup import EdgeEnds, bullets, cite, code, edges_of, plain
from graphrag.rules.node_answers import data_of, field_path, fields_of
from graphrag.rules.normalized_text import EntityMention, letters
from graphrag.rules.resolver import (
    FoundNode,
    Handle,
    all_found,
    find_nodes,
    fitting_pair,
    handles_of_node,
    named_handles,
    of_direction,
    overview_and_types,
    the_nodes,
    the_type,
)
from graphrag.rules.tool_tables import ToolTables, cell, key_of
from graphrag.rules.turn_state import RulesTurn, detail, edges_at
from tools.toon import compact_json

GAP_X, GAP_Y, STEP = 100, 60, 200
_LABELS = ("name", "title", "label", "displayName")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,10})?")
_PAIR = re.compile(r"(-?[\d.]+(?:e[-+]?\d+)?)[,x](-?[\d.]+(?:e[-+]?\d+)?)")


def connect(turn: RulesTurn) -> NoReturn:
    """Propose an edge; the output may be named: `the error output of X`, `X (error)`."""
    start, output = _output(turn, turn.request.spans["a"])
    source, target = the_nodes(turn, start or turn.request.mention("a"), turn.request.mention("b"))
    if source.key == target.key:
        turn.stop(turn.say("same_node", node=cite(source.key)))
    here, there = map(handles_of_node, turn.read_all(detail(source.key), detail(target.key)))
    outputs, inputs = of_direction(here, "out"), of_direction(there, "in")
    chosen = named_handles(outputs, output) if output else outputs
    facts = {"source": cite(source.key), "target": cite(target.key)}
    if output and not chosen:
        shown = _shown(turn, outputs)
        turn.stop(turn.say("no_output", name=code(output), node=facts["source"], outputs=shown))
    pair = fitting_pair(chosen, inputs)
    if pair is None:
        shown = {"outputs": _shown(turn, outputs), "inputs": _shown(turn, inputs)}
        turn.stop(turn.say("no_fitting_handles", **facts, **shown))
    ends = {"sourceHandle": pair[0].id, "targetKey": target.key, "targetHandle": pair[1].id}
    label = {"label": text} if (text := turn.request.text("label")) else {}
    what = turn.say("an_edge", **facts, output=_shown(turn, pair[:1]))
    if len(outputs) > 1 and not output:
        others = [handle for handle in outputs if handle != pair[0]]
        what += " " + turn.say("other_outputs", outputs=_shown(turn, others))
    turn.propose("create_edge", {"sourceKey": source.key, **ends, **label}, what)


def _output(turn: RulesTurn, span: tuple[int, int]) -> tuple[EntityMention | None, str]:
    wording = turn.request.wording
    for name in ("output_before", "output_first", "output_after", "output_in_brackets"):
        found = turn.request.grammar.word(name).fullmatch(wording.folded, *span)
        if found is not None:
            return turn.request.mention_at(found.span("node")), wording.text(*found.span("output"))
    return None, ""


def _shown(turn: RulesTurn, handles: Sequence[Handle]) -> str:
    names = [code(h.id) + (f" “{plain(h.label, 40)}”" if h.label else "") for h in handles[:10]]
    return ", ".join(names) or turn.say("none")


def delete_node(turn: RulesTurn) -> NoReturn:
    """Propose to delete a node, or several named together."""
    keys = _named_together(turn, "node")
    edges = {key_of(row) for answer in turn.read_all(*map(edges_at, keys)) for row in answer.rows("edges")}
    what = turn.say("delete", what=", ".join(map(cite, keys)))
    what += " " + (turn.say("edges_go", count=len(edges)) if edges else turn.say("no_edge_goes"))
    if len(keys) == 1:
        turn.propose("delete_node", {"nodeKey": keys[0]}, what)
    turn.propose("batch", {"actions": [action("delete_node", nodeKey=key) for key in keys]}, what)


def action(kind: str, **payload: Any) -> dict[str, Any]:
    """Return a part of a batch."""
    return {"type": kind, "payload": payload}


def _named_together(turn: RulesTurn, slot: str) -> list[str]:
    """Return the keys of `X`, or of `X and Y` where nothing has that name. At most nine at once."""
    whole = turn.request.mention(slot)
    start, end = turn.request.spans[slot]
    parts: list[EntityMention] = []
    for stop in [*turn.request.grammar.word("and").finditer(turn.request.wording.folded, start, end), None]:
        part = turn.request.mention_at((start, stop.start() if stop else end))
        parts += [part] if part else []
        start = stop.end() if stop else end
    if whole is None or whole.quoted or len(parts) < 2:
        found = the_nodes(turn, whole)
    else:
        first, *rest = find_nodes(turn, [whole, *parts[:9]], sure=True)
        found = [first] if isinstance(first, FoundNode) else all_found(turn, rest)
    return list(dict.fromkeys(one.key for one in found))


def delete_edge(turn: RulesTurn) -> NoReturn:
    """Propose to delete an edge, named by its key or its ends in either order."""
    ends = turn.request.mention("a"), turn.request.mention("b")
    if ends[0] is None or ends[1] is None:
        key = turn.request.mention("key")
        if key is None:
            turn.stop(turn.say("incomplete_delete"))
        turn.propose("delete_edge", {"edgeKey": key.text}, turn.say("delete", what=code(key.text)))
    source, target = the_nodes(turn, *ends)
    found = edges_of(turn.read_all(edges_at(source.key))[0], (source.key, target.key))
    edges = _between(found, source, target) or _between(found, target, source)
    facts = {"source": cite(source.key), "target": cite(target.key)}
    if not edges:
        turn.stop(turn.say("not_connected", **facts))
    if len(edges) > 1:
        lines = [
            f"{code(key_of(edge.row))}: "
            + " → ".join(plain(cell(edge.row.get(end)), 100) for end in ("from", "to"))
            for edge in edges
        ]
        turn.stop(f"{turn.say('several_edges', **facts)}\n{bullets(lines)}")
    key = key_of(edges[0].row)
    what = turn.say("delete", what=turn.say("the_edge", key=code(key), **facts))
    turn.propose("delete_edge", {"edgeKey": key}, what)


def _between(edges: Sequence[EdgeEnds], source: FoundNode, target: FoundNode) -> list[EdgeEnds]:
    return [edge for edge in edges if (edge.source, edge.target) == (source.key, target.key)]


def rename(turn: RulesTurn) -> NoReturn:
    """Propose another name."""
    name = turn.request.text("name") or turn.request.text("quote")
    (node,) = the_nodes(turn, turn.request.mention("node"))
    fields = fields_of(data_of(turn, node.key))
    field = next((label for label in _LABELS if isinstance(fields.get(label), str)), "name")
    what = turn.say("rename", node=cite(node.key), name=plain(name, 120))
    turn.propose("update_node", {"nodeKey": node.key, "changes": {f"data.{field}": name}}, what)


def set_field(turn: RulesTurn) -> NoReturn:
    """Propose another value of a field."""
    name, value = turn.request.text("field") or turn.request.text("word"), turn.request.text("value")
    name = name.removeprefix("data.")
    if not name or (not value and not turn.request.is_quoted("value")):
        turn.stop(turn.say("incomplete_set"))
    (node,) = the_nodes(turn, turn.request.mention("node"))
    new: Any = value
    if letters(name) in ("code", "process", "script"):
        field = "process"
    elif letters(name) == "type":
        kind = the_type(turn, EntityMention(text=value), overview_and_types(turn)[1])
        field, new = "type", cell(kind.get("type"))
    else:
        field, new = _data_field(turn, node, name, value)
    what = turn.say("set", field=code(field), node=cite(node.key), value=code(compact_json(new)))
    turn.propose("update_node", {"nodeKey": node.key, "changes": {field: new}}, what)


def _data_field(turn: RulesTurn, node: FoundNode, name: str, value: str) -> tuple[str, Any]:
    data = data_of(turn, node.key)
    fields, path, low = fields_of(data), field_path(data, name), letters(name)
    if path is None and low in ("width", "height"):
        return f"size.{low}", _value(turn, value, 1)
    near = [field for field in fields if low and (low in letters(field) or letters(field) in low)]
    if path is None and near:
        shown = ", ".join(code(field) for field in near[:8])
        turn.stop(turn.say("near_fields", field=code(name), node=cite(node.key), fields=shown))
    path = path or name.replace(" ", "_")
    return f"data.{path}", _value(turn, value, fields.get(path))


def _value(turn: RulesTurn, text: str, now: Any) -> Any:
    """Return a value as JSON: as it is written, but text where the field holds text now."""
    low, words = text.casefold(), turn.request.grammar.values
    if turn.request.is_quoted("value") or isinstance(now, str):
        return text
    if low in words and (isinstance(now, bool) or low in ("true", "false")):
        return words[low]
    number = text.replace(",", ".") if isinstance(now, int | float) else text
    if _NUMBER.fullmatch(number):
        return float(number) if "." in number else int(number)
    try:
        return json.loads(text) if text[:1] in "[{" or text == "null" else text
    except (ValueError, RecursionError):
        return text


def move(turn: RulesTurn) -> NoReturn:
    """Propose another place: a point, beside another node, or some way off."""
    request = turn.request
    found = the_nodes(turn, request.mention("node"), request.mention("other"))
    side = request.options.get("side") or request.grammar.sides.get(request.folded("side"), "")
    if request.text("x"):
        x, y = float(request.folded("x")), float(request.folded("y"))
    else:
        boxes = [_box(turn, answer) for answer in turn.read_all(*(detail(one.key) for one in found))]
        x, y = _place(boxes, side, float(request.folded("distance") or STEP))
    pos_x, pos_y = (int(value) if value == int(value) else value for value in (x, y))
    what = turn.say("move", node=cite(found[0].key), x=pos_x, y=pos_y)
    if len(found) == 2:
        what += " " + turn.say(f"side_{side}", node=cite(found[1].key))
    turn.propose("move_node", {"nodeKey": found[0].key, "posX": pos_x, "posY": pos_y}, what)


Box = tuple[float, float, float, float]


def _box(turn: RulesTurn, shown: ToolTables) -> Box:
    """Return x, y, width and height of a node."""
    position, size = _PAIR.fullmatch(shown.text_of("position")), _PAIR.fullmatch(shown.text_of("size"))
    if position is None or size is None:
        turn.stop(turn.say("read_failed", reason=plain(shown.text, 300)))
    return float(position[1]), float(position[2]), float(size[1]), float(size[2])


def _place(boxes: Sequence[Box], side: str, distance: float) -> tuple[float, float]:
    """Return where the first box goes: beside the second, else so far from its place."""
    (own_x, own_y, width, height), x, y = boxes[0], boxes[-1][0], boxes[-1][1]
    places: Mapping[str, tuple[float, float]]
    if len(boxes) == 1:
        places = {"left": (x - distance, y), "up": (x, y - distance), "down": (x, y + distance)}
        return places.get(side, (own_x + distance, own_y))
    _, _, other_width, other_height = boxes[1]
    places = {
        "left": (x - width - GAP_X, y),
        "up": (x, y - height - GAP_Y),
        "down": (x, y + other_height + GAP_Y),
    }
    return places.get(side, (x + other_width + GAP_X, y))


def move_sheet(turn: RulesTurn) -> NoReturn:
    """Say why a node stays on its sheet."""
    turn.stop(turn.say("no_sheet_move"))


def tidy(turn: RulesTurn) -> NoReturn:
    """Propose a layout of all nodes, of a sheet, or of the nodes named."""
    if "nodes" in turn.request.spans:
        keys = _named_together(turn, "nodes")
        of = ", ".join(map(cite, keys))
    else:
        keys, total, of = all_keys(turn)
        if total is None or len(keys) < total:
            turn.stop(turn.say("too_many_to_list", listed=len(keys), total=total or f"> {len(keys)}"))
        if not keys:
            turn.stop(turn.say("no_nodes", of=of))
        of = turn.say("all_nodes", count=len(keys), of=of)
    strategy = "top_down" if "top_down" in turn.request.spans else "left_to_right"
    turn.propose("reorganize_layout", {"nodeKeys": keys, "strategy": strategy}, turn.say("tidy", of=of))


def incomplete(turn: RulesTurn) -> str:
    """Say what a command leaves out."""
    return turn.say(f"incomplete_{turn.request.options['kind']}")


def several(turn: RulesTurn) -> str:
    """Say that each change is to be asked for alone."""
    return turn.say("one_change_at_a_time")
