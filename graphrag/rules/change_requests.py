"""Converts plain requests for changes into one proposal each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from datasources.text import letters
from graphrag.rules.graph_answers import all_keys
from graphrag.rules.markup import bullets, cite, code, plain
from graphrag.rules.node_answers import data_of, field_path, fields_of
from graphrag.rules.normalized_text import EntityMention
from graphrag.rules.resolver import the_nodes, the_type
from graphrag.rules.turn_state import RulesTurn, call, detail
from tools import answer_tables as tables
from tools.toon import compact_json

Span = tuple[int, int]
Pair = tuple[tables.Handle, tables.Handle]

STEP = 200
_SIDES = {"right": (1, 0), "left": (-1, 0), "up": (0, -1), "down": (0, 1)}
_LABELS = ("name", "title", "label", "displayName")


def connect(turn: RulesTurn) -> NoReturn:
    """Proposes an edge. The output may be named: `the error output of X`, `X (error)`."""
    start, output = _output(turn, turn.request.spans["a"])
    source, target = the_nodes(turn, start or turn.request.mention("a"), turn.request.mention("b"))
    if source == target:
        turn.stop(turn.say("same_node", node=cite(source)))
    source_handles, target_handles = map(
        tables.handles_of_node, turn.read_all(detail(source), detail(target))
    )
    outputs = tables.of_direction(source_handles, "out")
    inputs = tables.of_direction(target_handles, "in")
    facts = {"source": cite(source), "target": cite(target), "outputs": _shown(turn, outputs)}
    pair = tables.fitting_pair(tables.named_handles(outputs, output) if output else outputs, inputs)
    if pair is None:
        turn.stop(turn.say("no_fitting_handles", **facts, inputs=_shown(turn, inputs)))
    label = {"label": text} if (text := turn.request.text("label")) else {}
    ends = {
        "sourceKey": source,
        "sourceHandle": pair[0].id,
        "targetKey": target,
        "targetHandle": pair[1].id,
    }
    what = turn.say("an_edge", **facts, output=_shown(turn, pair[:1]))
    turn.propose("create_edge", {**ends, **label}, what)


def _output(turn: RulesTurn, span: tuple[int, int]) -> tuple[EntityMention | None, str]:
    wording = turn.request.wording
    for name in ("output_before", "output_first", "output_after", "output_in_brackets"):
        match = turn.request.grammar.word(name).fullmatch(wording.folded, *span)
        if match is not None:
            return turn.request.mention_at(match.span("node")), wording.text(*match.span("output"))
    return None, ""


def _shown(turn: RulesTurn, handles: Sequence[tables.Handle]) -> str:
    names = [code(h.id) + (f" “{plain(h.label, 40)}”" if h.label else "") for h in handles[:10]]
    return ", ".join(names) or turn.say("none")


def delete_node(turn: RulesTurn) -> NoReturn:
    """Proposes to delete a node."""
    (node,) = the_nodes(turn, turn.request.mention("node"))
    turn.propose("delete_node", {"nodeKey": node}, turn.say("delete", what=cite(node)))


def delete_edge(turn: RulesTurn) -> NoReturn:
    """Proposes to delete an edge, named by its key or by its ends in either order."""
    ends = turn.request.mention("a"), turn.request.mention("b")
    if ends[0] is None or ends[1] is None:
        key = turn.request.mention("key")
        if key is None:
            turn.stop(turn.say("incomplete_delete"))
        turn.propose("delete_edge", {"edgeKey": key.text}, turn.say("delete", what=code(key.text)))
    source, target = the_nodes(turn, *ends)
    edges = edges_between(
        turn.read("list_node_edges", nodeKey=source, maxResults=100), source, target
    )
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
    """Returns the edges from one node to another; if there are none, those in the other
    direction.
    """
    edges = tables.edges_of(answer, (a, b))
    forward = [edge for edge in edges if (edge.source, edge.target) == (a, b)]
    return forward or [edge for edge in edges if (edge.source, edge.target) == (b, a)]


def rename(turn: RulesTurn) -> NoReturn:
    """Proposes a new name."""
    name = turn.request.text("name") or turn.request.text("quote")
    (node,) = the_nodes(turn, turn.request.mention("node"))
    fields = fields_of(data_of(turn, node))
    field = next((label for label in _LABELS if isinstance(fields.get(label), str)), "name")
    what = turn.say("rename", node=cite(node), name=plain(name, 120))
    turn.propose("update_node", {"nodeKey": node, "changes": {f"data.{field}": name}}, what)


def set_field(turn: RulesTurn) -> NoReturn:
    """Proposes a new value of a field."""
    name = turn.request.text("field") or turn.request.text("word")
    value = turn.request.text("value")
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
    fields = fields_of(data_of(turn, node))
    normalized = letters(name)
    path = field_path(fields, name)
    similar = [
        field
        for field in fields
        if normalized and (normalized in letters(field) or letters(field) in normalized)
    ]
    if path is None and similar:
        shown = ", ".join(code(field) for field in similar[:8])
        turn.stop(turn.say("near_fields", field=code(name), node=cite(node), fields=shown))
    path = path or name.replace(" ", "_")
    return f"data.{path}", _value(turn, value, fields.get(path))


def _value(turn: RulesTurn, text: str, current: Any) -> Any:
    """Returns a value: parsed as JSON if possible, but as text if quoted or if the field holds
    text.
    """
    if turn.request.is_quoted("value") or isinstance(current, str):
        return text
    try:
        json.dumps(parsed := json.loads(text), allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return parsed


def move(turn: RulesTurn) -> NoReturn:
    """Proposes a new position: a point, or a distance in a direction."""
    request, (node,) = turn.request, the_nodes(turn, turn.request.mention("node"))
    x = request.folded("x")
    y = request.folded("y")
    if not x:
        position = turn.checked(turn.read_all(detail(node))[0]).text_of("position").partition(",")
        across, down = _SIDES[request.grammar.sides[request.folded("side")]]
        distance = float(request.folded("distance") or STEP)
        x = f"{float(position[0]) + across * distance:g}"
        y = f"{float(position[2]) + down * distance:g}"
    what = turn.say("move", node=cite(node), x=x, y=y)
    turn.propose("move_node", {"nodeKey": node, "posX": float(x), "posY": float(y)}, what)


def tidy(turn: RulesTurn) -> NoReturn:
    """Proposes a layout of all nodes or of a sheet."""
    keys, of = all_keys(turn)
    strategy = "top_down" if "top_down" in turn.request.spans else "left_to_right"
    what = turn.say("tidy", of=turn.say("all_nodes", count=len(keys), of=of))
    turn.propose("reorganize_layout", {"nodeKeys": keys, "strategy": strategy}, what)


# A new node: alone, after, before or between others


def create(turn: RulesTurn) -> NoReturn:
    """Proposes a node as the clauses of the request describe it."""
    request = turn.request
    rules = turn.request.grammar
    spans = _clauses(turn)
    if rules.word("not_a_node").fullmatch(request.wording.folded[slice(*spans["head"])].strip()):
        turn.stop(turn.say("help_all"))
    if "between" in spans:
        pair = rules.word("pair").fullmatch(request.wording.folded, *spans["between"])
        if pair is None:
            turn.stop(turn.say("incomplete_create"))
        spans |= {"after": pair.span("a"), "before": pair.span("b")}
    mentions = {
        name: request.mention_at(spans[name]) if name in spans else None for name in _CLAUSES
    }
    kind = mentions["type"] or mentions["head"]
    if kind is not None and not rules.word("only_noun").sub("", kind.text.lower()).strip(" ,"):
        kind = None
    payload: dict[str, Any] = {"typeKey": the_type(turn, kind)}
    what = turn.say("new_node", type=code(payload["typeKey"]))
    if "named" in spans:
        payload["data"] = {"name": request.wording.text(*spans["named"])}
        what += f" “{plain(payload['data']['name'], 80)}”"
    payload |= {"sheet": mentions["sheet"].text} if mentions["sheet"] is not None else {}
    if mentions["after"] is None and mentions["before"] is None:
        turn.propose("create_node", payload, what)
    _propose_connected(turn, payload, what, mentions)


_CLAUSES = ("head", "type", "after", "before", "sheet")


def _clauses(turn: RulesTurn) -> dict[str, Span]:
    """Returns the position of each clause of the request. `head` is the text before the
    first one.
    """
    rules = turn.request.grammar
    folded = turn.request.wording.folded
    start, end = turn.request.spans["rest"]
    clauses = list(rules.word("clause").finditer(folded, start, end))
    stops = [clause.start() for clause in clauses[1:]] + [end]
    spans = {"head": (start, clauses[0].start() if clauses else end)}
    for clause, stop in zip(clauses, stops, strict=False):
        joint = (
            rules.word("clause_joint").search(folded, clause.end(), stop) if stop != end else None
        )
        spans.setdefault(clause.lastgroup or "", (clause.end(), joint.start() if joint else stop))
    return spans


def _propose_connected(
    turn: RulesTurn,
    payload: dict[str, Any],
    what: str,
    mentions: Mapping[str, EntityMention | None],
) -> NoReturn:
    """Proposes the node with an edge from the node before it and an edge to the node after it.

    Between two connected nodes it replaces their edge, and uses the handles of that edge.
    """
    neighbors = the_nodes(turn, mentions["after"], mentions["before"])
    config, neighbor_edges, *answers = turn.read_all(
        call("read_node_config", typeKey=payload["typeKey"]),
        call("list_node_edges", nodeKey=neighbors[0], maxResults=100),
        *map(detail, neighbors),
    )
    handles = {
        key: tables.handles_of_node(answer) for key, answer in zip(neighbors, answers, strict=False)
    }
    first = neighbors[0] if mentions["after"] else ""
    last = neighbors[-1] if mentions["before"] else ""
    replaced_edge = ""
    if first and first == last:
        turn.stop(turn.say("same_node", node=cite(first)))
    if first and last and (between := edges_between(neighbor_edges, first, last)):
        edge = between[0]
        replaced_edge = tables.key_of(between[0].row)
        first = edge.source
        last = edge.target
        handles[first] = tables.named_handles(handles[first], edge.source_handle)
        handles[last] = [handle for handle in handles[last] if handle.id == edge.target_handle]
    own, payload["edges"] = tables.handles_of_type(config), list[dict[str, Any]]()
    if first:
        payload["edges"].append(_edge(turn, "in", first, tables.fitting_pair(handles[first], own)))
        what += " " + turn.say("placed_after", node=cite(first))
    if last:
        payload["edges"].append(_edge(turn, "out", last, tables.fitting_pair(own, handles[last])))
        what += " " + turn.say("placed_before", node=cite(last))
    if not replaced_edge:
        turn.propose("create_node_with_edges", payload, what)
    parts = (("create_node_with_edges", payload), ("delete_edge", {"edgeKey": replaced_edge}))
    actions = [{"type": kind, "payload": arguments} for kind, arguments in parts]
    turn.propose(
        "batch", {"actions": actions}, f"{what}. {turn.say('edge_goes', edge=code(replaced_edge))}"
    )


def _edge(turn: RulesTurn, direction: str, key: str, pair: Pair | None) -> dict[str, Any]:
    if pair is None:
        turn.stop(
            turn.say("cannot_follow" if direction == "in" else "cannot_precede", node=cite(key))
        )
    own, other = (pair[1], pair[0]) if direction == "in" else pair
    return {
        "direction": direction,
        "handleId": own.id,
        "targetNodeKey": key,
        "targetHandleId": other.id,
    }
