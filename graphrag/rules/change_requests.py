"""Turns plain wishes for changes into one proposal each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from graphrag.rules.conversation import Call
from graphrag.rules.graph_answers import LISTED, list_all
from graphrag.rules.markup import bullets, cite, code, ends_of, plain
from graphrag.rules.node_answers import data_of, field_path, fields_of
from graphrag.rules.normalized_text import EntityMention, letters
from graphrag.rules.resolver import (
    Found,
    Handle,
    Unclear,
    ask_which,
    find_nodes,
    fitting_pair,
    handles_of_node,
    named_handles,
    of_direction,
    overview_and_types,
    the_nodes,
    the_type,
)
from graphrag.rules.tool_tables import Answer, cell, key_of
from graphrag.rules.turn_state import Turn
from tools.toon import compact_json

GAP_X, GAP_Y, STEP = 100, 60, 200
_LABELS = ("name", "title", "label", "displayName")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,10})?")
_PAIR = re.compile(r"(-?[\d.]+(?:e[-+]?\d+)?)[,x](-?[\d.]+(?:e[-+]?\d+)?)")


def detail_of(key: str) -> Call:
    return Call(name="read_node_detail", arguments={"key": key})


def edges_at(key: str) -> Call:
    return Call(name="list_node_edges", arguments={"key": key, "direction": "any", "limit": 100})


def connect(turn: Turn) -> NoReturn:
    """Propose an edge; the output may be named: `the error output of X`, `X (error)`."""
    start, output = _output(turn, turn.request.spans["a"])
    source, target = the_nodes(turn, start or turn.request.mention("a"), turn.request.mention("b"))
    if source.key == target.key:
        turn.stop(turn.say("same_node", node=cite(source.key)))
    here, there = map(handles_of_node, turn.read_all(detail_of(source.key), detail_of(target.key)))
    outputs, inputs = of_direction(here, "out"), of_direction(there, "in")
    chosen = named_handles(outputs, output) if output else outputs
    facts = {"source": cite(source.key), "target": cite(target.key)}
    if output and not chosen:
        turn.stop(
            turn.say("no_output", name=code(output), node=cite(source.key), outputs=_shown(turn, outputs))
        )
    pair = fitting_pair(chosen, inputs)
    if pair is None:
        shown = {"outputs": _shown(turn, outputs), "inputs": _shown(turn, inputs)}
        turn.stop(turn.say("no_fitting_handles", **facts, **shown))
    arguments = {
        "sourceKey": source.key,
        "sourceHandle": pair[0].id,
        "targetKey": target.key,
        "targetHandle": pair[1].id,
    }
    if turn.request.text("label"):
        arguments["label"] = turn.request.text("label")
    what = turn.say("an_edge", **facts, output=_shown(turn, pair[:1]))
    if len(outputs) > 1 and not output:
        others = [handle for handle in outputs if handle != pair[0]]
        what += " " + turn.say("other_outputs", outputs=_shown(turn, others))
    turn.propose("create_edge", arguments, what)


def _output(turn: Turn, span: tuple[int, int]) -> tuple[EntityMention | None, str]:
    for name in ("output_before", "output_first", "output_after", "output_in_brackets"):
        found = turn.request.grammar.word(name).fullmatch(turn.request.wording.folded, *span)
        if found is not None:
            return turn.request.mention_at(found.span("node")), turn.request.wording.text(
                *found.span("output")
            )
    return None, ""


def _shown(turn: Turn, handles: Sequence[Handle]) -> str:
    names = [code(h.id) + (f" “{plain(h.label, 40)}”" if h.label else "") for h in handles[:10]]
    return ", ".join(names) or turn.say("none")


def delete_node(turn: Turn) -> NoReturn:
    """Propose to delete a node, or several named together."""
    keys = list(dict.fromkeys(one.key for one in _named_together(turn, "node")))
    lists = turn.read_all(*map(edges_at, keys))
    edges = {key_of(row) for answer in lists for row in answer.rows("edges")}
    what = turn.say("delete", what=", ".join(map(cite, keys)))
    what += " " + (turn.say("edges_go", count=len(edges)) if edges else turn.say("no_edge_goes"))
    if len(keys) == 1:
        turn.propose("delete_node", {"nodeKey": keys[0]}, what)
    turn.propose("batch", {"actions": [action("delete_node", nodeKey=key) for key in keys]}, what)


def action(kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": kind, "payload": payload}


def _named_together(turn: Turn, slot: str) -> list[Found]:
    """Return the nodes of `X`, or of `X and Y` where nothing has that name. At most nine at once."""
    whole = turn.request.mention(slot)
    start, end = turn.request.spans[slot]
    parts: list[EntityMention] = []
    for stop in [*turn.request.grammar.word("and").finditer(turn.request.wording.folded, start, end), None]:
        part = turn.request.mention_at((start, stop.start() if stop else end))
        parts += [part] if part else []
        start = stop.end() if stop else end
    if whole is None or whole.quoted or len(parts) < 2:
        return the_nodes(turn, whole)
    first, *found = find_nodes(turn, [whole, *parts[:9]], sure=True)
    if isinstance(first, Found):
        return [first]
    unclear = [one for one in found if isinstance(one, Unclear)]
    if unclear:
        turn.stop("\n".join([*(ask_which(turn, one) for one in unclear), turn.say("nothing_proposed")]))
    return [one for one in found if isinstance(one, Found)]


def delete_edge(turn: Turn) -> NoReturn:
    """Propose to delete an edge, named by its key or its ends in either order."""
    ends = turn.request.mention("a"), turn.request.mention("b")
    if ends[0] is None or ends[1] is None:
        key = turn.request.mention("key")
        if key is None:
            turn.stop(turn.say("incomplete_delete"))
        turn.propose("delete_edge", {"edgeKey": key.text}, turn.say("delete", what=code(key.text)))
    source, target = the_nodes(turn, *ends)
    rows = turn.read_all(edges_at(source.key))[0].rows("edges")
    found = [(end, row) for row in rows if (end := ends_of(row, {source.key: 1, target.key: 1})) is not None]
    edges = [row for end, row in found if (end[0], end[2]) == (source.key, target.key)]
    edges = edges or [row for end, row in found if (end[0], end[2]) == (target.key, source.key)]
    facts = {"source": cite(source.key), "target": cite(target.key)}
    if not edges:
        turn.stop(turn.say("not_connected", **facts))
    if len(edges) > 1:
        lines = [
            f"{code(key_of(row))}: {plain(cell(row.get('from')), 100)} → {plain(cell(row.get('to')), 100)}"
            for row in edges
        ]
        turn.stop(f"{turn.say('several_edges', **facts)}\n{bullets(lines)}")
    key = key_of(edges[0])
    what = turn.say("delete", what=turn.say("the_edge", key=code(key), **facts))
    turn.propose("delete_edge", {"edgeKey": key}, what)


def rename(turn: Turn) -> NoReturn:
    """Propose another name."""
    name = turn.request.text("name") or turn.request.text("quote")
    (node,) = the_nodes(turn, turn.request.mention("node"))
    fields = fields_of(data_of(turn, node.key))
    field = next((label for label in _LABELS if isinstance(fields.get(label), str)), "name")
    arguments = {"nodeKey": node.key, "changes": {f"data.{field}": name}}
    turn.propose("update_node", arguments, turn.say("rename", node=cite(node.key), name=plain(name, 120)))


def set_field(turn: Turn) -> NoReturn:
    """Propose another value of a field."""
    name, value = (
        (turn.request.text("field") or turn.request.text("word")).removeprefix("data."),
        turn.request.text("value"),
    )
    if not name or (not value and not turn.request.is_quoted("value")):
        turn.stop(turn.say("incomplete_set"))
    (node,) = the_nodes(turn, turn.request.mention("node"))
    if letters(name) in ("code", "process", "script"):
        field, wanted = "process", value
    elif letters(name) == "type":
        kind = the_type(turn, EntityMention(text=value), overview_and_types(turn)[1])
        field, wanted = "type", cell(kind.get("type"))
    else:
        field, wanted = _data_field(turn, node, name, value)
    what = turn.say("set", field=code(field), node=cite(node.key), value=code(compact_json(wanted)))
    turn.propose("update_node", {"nodeKey": node.key, "changes": {field: wanted}}, what)


def _data_field(turn: Turn, node: Found, name: str, value: str) -> tuple[str, Any]:
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


def _value(turn: Turn, text: str, now: Any) -> Any:
    """Return a value as JSON: as it is written, but text where the field holds text now."""
    low, words = text.casefold(), turn.request.grammar.values
    if turn.request.is_quoted("value") or isinstance(now, str):
        return text
    if low in words and (isinstance(now, bool) or low in ("true", "false")):
        return words[low]
    number = text.replace(",", ".") if isinstance(now, int | float) else text
    if _NUMBER.fullmatch(number):
        return float(number) if "." in number else int(number)
    if text[:1] in "[{" or text == "null":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def move(turn: Turn) -> NoReturn:
    """Propose another place: a point, beside another node, or some way off."""
    found = the_nodes(turn, turn.request.mention("node"), turn.request.mention("other"))
    node, side = (
        found[0],
        turn.request.options.get("side") or turn.request.grammar.sides.get(turn.request.folded("side"), ""),
    )
    if turn.request.text("x"):
        x, y = float(turn.request.folded("x")), float(turn.request.folded("y"))
    else:
        boxes = [_box(turn, detail) for detail in turn.read_all(*(detail_of(one.key) for one in found))]
        x, y = (
            _beside(boxes, side)
            if len(boxes) == 2
            else _shifted(boxes[0], side, turn.request.folded("distance"))
        )
    posx, posy = (int(value) if value == int(value) else value for value in (x, y))
    what = turn.say("move", node=cite(node.key), x=posx, y=posy)
    if len(found) == 2:
        what += " " + turn.say(f"side_{side}", node=cite(found[1].key))
    turn.propose("move_node", {"nodeKey": node.key, "posX": posx, "posY": posy}, what)


Box = tuple[float, float, float, float]


def _box(turn: Turn, detail: Answer) -> Box:
    """Return x, y, width and height of a node."""
    position, size = _PAIR.fullmatch(detail.text_of("position")), _PAIR.fullmatch(detail.text_of("size"))
    if position is None or size is None:
        turn.stop(turn.say("read_failed", reason=plain(detail.text, 300)))
    return float(position[1]), float(position[2]), float(size[1]), float(size[2])


def _beside(boxes: Sequence[Box], side: str) -> tuple[float, float]:
    (_, _, width, height), (x, y, other_width, other_height) = boxes
    places: Mapping[str, tuple[float, float]] = {
        "left": (x - width - GAP_X, y),
        "up": (x, y - height - GAP_Y),
        "down": (x, y + other_height + GAP_Y),
    }
    return places.get(side, (x + other_width + GAP_X, y))


def _shifted(box: Box, side: str, distance: str) -> tuple[float, float]:
    far = float(distance) if distance else STEP
    dx, dy = {"left": (-far, 0.0), "up": (0.0, -far), "down": (0.0, far)}.get(side, (far, 0.0))
    return box[0] + dx, box[1] + dy


def move_sheet(turn: Turn) -> NoReturn:
    """Say why a node stays on its sheet."""
    turn.stop(turn.say("no_sheet_move"))


def tidy(turn: Turn) -> NoReturn:
    """Propose a layout of all nodes, of a sheet, or of the nodes named."""
    if "nodes" in turn.request.spans:
        keys = list(dict.fromkeys(one.key for one in _named_together(turn, "nodes")))
        of = ", ".join(map(cite, keys))
    else:
        rows, total, of = list_all(turn, turn.request.mention("sheet"))
        keys = list(dict.fromkeys(key_of(row) for row in rows))
        if total is None or len(keys) < total:
            turn.stop(turn.say("too_many_to_list", listed=len(keys), total=total or f"> {LISTED}"))
        if not keys:
            turn.stop(turn.say("no_nodes", of=of))
        of = turn.say("all_nodes", count=len(keys), of=of)
    strategy = "top_down" if "top_down" in turn.request.spans else "left_to_right"
    turn.propose("reorganize_layout", {"nodeKeys": keys, "strategy": strategy}, turn.say("tidy", of=of))


def incomplete(turn: Turn) -> str:
    """Say what a command leaves out."""
    return turn.say(f"incomplete_{turn.request.options['kind']}")


def several(turn: Turn) -> str:
    """Say that each change is to be asked for alone."""
    return turn.say("one_change_at_a_time")
