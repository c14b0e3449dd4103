"""Turns plain requests for changes into one proposal each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from datasources.text import letters
from graphrag.rules.graph_answers import all_keys
from graphrag.rules.markup import bullets, cite, code, plain
from graphrag.rules.node_answers import data_of, field_path, fields_of
from graphrag.rules.normalized_text import EntityMention
from graphrag.rules.resolver import the_nodes
from graphrag.rules.turn_state import RulesTurn, detail
from tools import answer_tables as tables
from tools.toon import compact_json

STEP = 200
_SIDES = {"right": (1, 0), "left": (-1, 0), "up": (0, -1), "down": (0, 1)}
_LABELS = ("name", "title", "label", "displayName")


def connect(turn: RulesTurn) -> NoReturn:
    """Propose an edge; the output may be named: `the error output of X`, `X (error)`."""
    start, output = _output(turn, turn.request.spans["a"])
    source, target = the_nodes(turn, start or turn.request.mention("a"), turn.request.mention("b"))
    if source == target:
        turn.stop(turn.say("same_node", node=cite(source)))
    here, there = map(tables.handles_of_node, turn.read_all(detail(source), detail(target)))
    outputs, inputs = tables.of_direction(here, "out"), tables.of_direction(there, "in")
    facts = {"source": cite(source), "target": cite(target), "outputs": _shown(turn, outputs)}
    pair = tables.fitting_pair(tables.named_handles(outputs, output) if output else outputs, inputs)
    if pair is None:
        turn.stop(turn.say("no_fitting_handles", **facts, inputs=_shown(turn, inputs)))
    label = {"label": text} if (text := turn.request.text("label")) else {}
    ends = {"sourceKey": source, "sourceHandle": pair[0].id, "targetKey": target, "targetHandle": pair[1].id}
    what = turn.say("an_edge", **facts, output=_shown(turn, pair[:1]))
    turn.propose("create_edge", {**ends, **label}, what)


def _output(turn: RulesTurn, span: tuple[int, int]) -> tuple[EntityMention | None, str]:
    wording = turn.request.wording
    for name in ("output_before", "output_first", "output_after", "output_in_brackets"):
        found = turn.request.grammar.word(name).fullmatch(wording.folded, *span)
        if found is not None:
            return turn.request.mention_at(found.span("node")), wording.text(*found.span("output"))
    return None, ""


def _shown(turn: RulesTurn, handles: Sequence[tables.Handle]) -> str:
    names = [code(h.id) + (f" “{plain(h.label, 40)}”" if h.label else "") for h in handles[:10]]
    return ", ".join(names) or turn.say("none")


def delete_node(turn: RulesTurn) -> NoReturn:
    """Propose to delete a node."""
    (node,) = the_nodes(turn, turn.request.mention("node"))
    turn.propose("delete_node", {"nodeKey": node}, turn.say("delete", what=cite(node)))


def delete_edge(turn: RulesTurn) -> NoReturn:
    """Propose to delete an edge, named by its key or its ends in either order."""
    ends = turn.request.mention("a"), turn.request.mention("b")
    if ends[0] is None or ends[1] is None:
        key = turn.request.mention("key")
        if key is None:
            turn.stop(turn.say("incomplete_delete"))
        turn.propose("delete_edge", {"edgeKey": key.text}, turn.say("delete", what=code(key.text)))
    source, target = the_nodes(turn, *ends)
    edges = edges_between(turn.read("list_node_edges", nodeKey=source, maxResults=100), source, target)
    facts = {"source": cite(source), "target": cite(target)}
    if not edges:
        turn.stop(turn.say("not_connected", **facts))
    if len(edges) > 1:
        lines = [code(tables.key_of(edge.row)) for edge in edges]
        turn.stop(f"{turn.say('several_edges', **facts)}\n{bullets(lines)}")
    key = tables.key_of(edges[0].row)
    what = turn.say("delete", what=turn.say("the_edge", key=code(key), **facts))
    turn.propose("delete_edge", {"edgeKey": key}, what)


def edges_between(answer: tables.ToolTables, a: str, b: str) -> list[tables.EdgeEnds]:
    """Return the edges from one node to another, else those the other way."""
    edges = tables.edges_of(answer, (a, b))
    there = [edge for edge in edges if (edge.source, edge.target) == (a, b)]
    return there or [edge for edge in edges if (edge.source, edge.target) == (b, a)]


def rename(turn: RulesTurn) -> NoReturn:
    """Propose another name."""
    name = turn.request.text("name") or turn.request.text("quote")
    (node,) = the_nodes(turn, turn.request.mention("node"))
    fields = fields_of(data_of(turn, node))
    field = next((label for label in _LABELS if isinstance(fields.get(label), str)), "name")
    what = turn.say("rename", node=cite(node), name=plain(name, 120))
    turn.propose("update_node", {"nodeKey": node, "changes": {f"data.{field}": name}}, what)


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
    else:
        field, new = _data_field(turn, node, name, value)
    what = turn.say("set", field=code(field), node=cite(node), value=code(compact_json(new)))
    turn.propose("update_node", {"nodeKey": node, "changes": {field: new}}, what)


def _data_field(turn: RulesTurn, node: str, name: str, value: str) -> tuple[str, Any]:
    fields, low = fields_of(data_of(turn, node)), letters(name)
    path = field_path(fields, name)
    near = [field for field in fields if low and (low in letters(field) or letters(field) in low)]
    if path is None and near:
        shown = ", ".join(code(field) for field in near[:8])
        turn.stop(turn.say("near_fields", field=code(name), node=cite(node), fields=shown))
    path = path or name.replace(" ", "_")
    return f"data.{path}", _value(turn, value, fields.get(path))


def _value(turn: RulesTurn, text: str, now: Any) -> Any:
    """Return a value as JSON: as it is written, but text where the field holds text now."""
    if turn.request.is_quoted("value") or isinstance(now, str):
        return text
    try:
        json.dumps(found := json.loads(text), allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return found


def move(turn: RulesTurn) -> NoReturn:
    """Propose another place: a point, or some way off."""
    request, (node,) = turn.request, the_nodes(turn, turn.request.mention("node"))
    x, y = request.folded("x"), request.folded("y")
    if not x:
        position = turn.checked(turn.read_all(detail(node))[0]).text_of("position").partition(",")
        across, down = _SIDES[request.grammar.sides[request.folded("side")]]
        distance = float(request.folded("distance") or STEP)
        x, y = f"{float(position[0]) + across * distance:g}", f"{float(position[2]) + down * distance:g}"
    what = turn.say("move", node=cite(node), x=x, y=y)
    turn.propose("move_node", {"nodeKey": node, "posX": float(x), "posY": float(y)}, what)


def tidy(turn: RulesTurn) -> NoReturn:
    """Propose a layout of all nodes or of a sheet."""
    keys, of = all_keys(turn)
    strategy = "top_down" if "top_down" in turn.request.spans else "left_to_right"
    what = turn.say("tidy", of=turn.say("all_nodes", count=len(keys), of=of))
    turn.propose("reorganize_layout", {"nodeKeys": keys, "strategy": strategy}, what)
