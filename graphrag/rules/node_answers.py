"""Answers about nodes: their description, their fields, their neighbourhood, paths between them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from datasources.text import letters
from graphrag.rules.graph_answers import REACH
from graphrag.rules.markup import (
    bullets,
    cite,
    cite_row,
    code,
    edge_lines,
    fenced,
    highlight,
    links_of,
    path_line,
    plain,
)
from graphrag.rules.resolver import NOTES, asked_node, matching_nodes
from graphrag.rules.turn_state import NotNamed, RulesTurn, around, detail, listing
from languages.reading import alternatives
from tools.answer_tables import EdgeEnds, Row, ToolTables, edges_of, key_of
from tools.toon import compact_json

MAX_CODE_SHOWN = 1200
MAX_LINES = 30
MAX_AROUND = 100
ERROR = re.compile(alternatives("labels", "error"), re.IGNORECASE)
ERROR_HANDLE = "onError"
CATCH = "catch"  # Node-RED's type of node that receives the errors of the other nodes on its tab.
MAX_FAILING = 3
# Prefix of handles that connect a node with what it uses (a model, a tool), not with the next node.
USE_HANDLE = "ai_"


class Neighbour(NamedTuple):
    """The other end of an edge of a node. `is_use`: one of the two nodes uses the other."""

    row: Row
    label: str
    is_after: bool
    is_use: bool


def _neighbours(answer: ToolTables, key: str) -> Iterator[Neighbour]:
    nodes = {key_of(row): row for row in answer.rows("nodes")}
    for edge in edges_of(answer):
        if key in (edge.source, edge.target) and edge.source != edge.target:
            is_after = edge.source == key
            other = nodes[edge.target if is_after else edge.source]
            yield Neighbour(other, edge.label, is_after, edge.target_handle.startswith(USE_HANDLE))


def describe_node(turn: RulesTurn) -> str:
    """Returns the description of a node, with its data and its code."""
    key = asked_node(turn)
    shown, near = turn.read_all(detail(key), around(key, 1, "any", 30))
    turn.checked(shown)
    row = {"_key": key, "name": shown.fields.get("name"), "type": shown.fields.get("type")}
    kind = shown.text_of("type_name") or shown.text_of("type")
    sheet = plain(shown.text_of("sheet"), 80)
    lines = [
        turn.say("node_is", node=cite_row(row, with_type=False), type=plain(kind, 80), sheet=sheet)
    ]
    lines += _around_lines(turn, key, near)
    if shown.text_of("data").strip():
        lines.append(turn.say("data", data=code(plain(shown.text_of("data")))))
    text = shown.text_of("process")
    if text:
        lines.append(turn.say("code_of_type" if shown.text_of("process_from") else "its_code"))
        lines.append(fenced(text if len(text) <= MAX_CODE_SHOWN else f"{text[:MAX_CODE_SHOWN]}\n…"))
    return "\n".join(lines)


def _around_lines(turn: RulesTurn, key: str, near: ToolTables) -> list[str]:
    """Returns the previous nodes, the next ones, and those that the node uses: its model, its
    tools.
    """
    groups: dict[str, dict[str, None]] = {
        "uses": {},
        "used_by": {},
        "reached_from": {},
        "leads_to": {},
    }
    for other in _neighbours(near, key):
        after = "used_by" if other.is_use else "leads_to"
        group = after if other.is_after else "uses" if other.is_use else "reached_from"
        label = f" ({plain(other.label, 40)})" if group == "uses" and other.label else ""
        groups[group][cite(key_of(other.row)) + label] = None
    lines = [
        turn.say(group, nodes=", ".join(list(nodes)[:10]))
        for group, nodes in groups.items()
        if nodes
    ]
    return lines or ([] if near.is_error else [turn.say("nothing_any", node=cite(key))])


def show_field(turn: RulesTurn) -> str:
    """Returns the value of a field of a node."""
    name = turn.request.text("field") or turn.request.text("word")
    key = asked_node(turn)
    fields = fields_of(data_of(turn, key))
    path = field_path(fields, name)
    if path is None:
        shown = ", ".join(code(field) for field in list(fields)[:20]) or "-"
        raise NotNamed(turn.say("no_field", field=code(name), node=cite(key), fields=shown))
    value = fields[path]
    text = value if isinstance(value, str) else compact_json(value)
    shown = f"\n{fenced(text[:MAX_CODE_SHOWN], '')}" if "\n" in text else code(text)
    return turn.say("field_is", field=code(path), node=cite(key), value=shown)


def data_of(turn: RulesTurn, key: str) -> Any:
    """Returns the data of a node; None if it has none or too much to read at once."""
    page = turn.read("read_node_detail", nodeKey=key, field="data", offset=0)
    try:
        return json.loads(page.text_of("data"))
    except (ValueError, RecursionError):
        return None


def fields_of(data: Any, depth: int = 3) -> dict[str, Any]:
    """Returns all fields of a JSON object by their dotted paths, down to `depth` levels, upper
    levels first.
    """
    if not isinstance(data, dict) or not depth:
        return {}
    fields = cast(dict[str, Any], data)
    inner = {name: fields_of(value, depth - 1) for name, value in fields.items()}
    return fields | {
        f"{name}.{path}": v
        for name, inner_fields in inner.items()
        for path, v in inner_fields.items()
    }


def field_path(fields: Mapping[str, Any], wanted: str) -> str | None:
    """Returns the path of a field with this name: an exact match, else a single similar one, else
    None.
    """
    name = wanted.removeprefix("data.")
    if name in fields:
        return name
    alike = [path for path in fields if letters(path) == letters(name)]
    alike = alike or [path for path in fields if letters(path.rsplit(".", 1)[-1]) == letters(name)]
    return alike[0] if len(alike) == 1 else None


# What surrounds a node


def neighbors(turn: RulesTurn) -> str:
    """Returns the neighbourhood of a node."""
    direction = turn.request.options.get("direction", "any")
    key = asked_node(turn)
    before = turn.request.wording.folded[: turn.request.spans["node"][0]]
    depth = REACH if turn.request.grammar.word("all_the_way").search(before) else 1
    nearby = turn.checked(turn.read_all(around(key, depth, direction, MAX_LINES))[0])
    if len(nearby.rows("nodes")) < 2:
        return turn.say(f"nothing_{direction}", node=cite(key))
    if depth == 1 and direction != "any":
        others = _neighbours(nearby, key)
        lines = [
            cite_row(one.row) + (f" · {plain(one.label, 60)}" if one.label else "")
            for one in others
        ]
    else:
        lines = edge_lines(nearby)
    shown = [turn.say(f"around_{direction}", node=cite(key)), bullets(lines[:MAX_LINES])]
    return "\n".join([*shown, *_omission_lines(turn, nearby)])


def _omission_lines(turn: RulesTurn, nearby: ToolTables) -> list[str]:
    """Returns lines about the parts of a neighbourhood that were not read."""
    is_cut = any(
        note.startswith("More nodes than") or "more edges" in note for note in nearby.notes
    )
    is_far = any(str(row.get("depth")) == str(REACH) for row in nearby.rows("nodes"))
    return [turn.say("more_around")] * is_cut + [turn.say("no_further", reach=REACH)] * is_far


class _Failure(NamedTuple):
    """The consequences for a run when a node fails.

    `how`: the name of the text. `caught`: the nodes that receive the error. `runs`: keys of the
    nodes that still run; `stops`: of those that do not, unless they are reached by another path.
    """

    how: str
    caught: Sequence[Row]
    runs: Sequence[str]
    stops: Sequence[str]


def failing(turn: RulesTurn) -> str:
    """Returns the consequences for a run when a node fails: which nodes still run and
    which do not.
    """
    rows = matching_nodes(turn, "node")
    keys = [key_of(row) for row in rows if row.get("type") not in NOTES]
    if not keys:
        return turn.say("is_note", node=cite_row(rows[0], with_type=False))
    keys = keys[:MAX_FAILING]
    reads = [call for key in keys for call in (around(key, REACH, "out", MAX_AROUND), detail(key))]
    results = turn.read_all(*reads, listing(MAX_LINES, typeKey=CATCH))
    lines: list[str] = []
    for at, key in enumerate(keys):
        downstream = turn.checked(results[2 * at])
        details = turn.checked(results[2 * at + 1])
        failure = _failure(key, downstream, details, results[-1].rows("found"))
        caught = ", ".join(map(cite_row, failure.caught))
        lines.append(turn.say(failure.how, node=cite(key), nodes=caught))
        lines += [
            _group(turn, name, getattr(failure, name))
            for name in ("runs", "stops")
            if getattr(failure, name)
        ]
        if not failure.runs and not failure.stops:
            lines.append(turn.say("nothing_out", node=cite(key)))
        lines += _omission_lines(turn, downstream)
    return "\n".join(lines)


def _group(turn: RulesTurn, name: str, keys: Sequence[str]) -> str:
    listed = ", ".join(map(cite, keys[:MAX_LINES])) + (", …" if len(keys) > MAX_LINES else "")
    return turn.say(f"failing_{name}", count=len(keys), nodes=listed, all=highlight(keys, as_=name))


def _failure(
    key: str, downstream: ToolTables, details: ToolTables, catches: Sequence[Row]
) -> _Failure:
    """Follows only the error output of a node if it has one; otherwise its settings decide."""
    edges = [edge for edge in edges_of(downstream) if not edge.target_handle.startswith(USE_HANDLE)]
    data = details.text_of("data")
    is_n8n = "n8n" in details.text_of("type")
    has_output = "onError:continueErrorOutput" in data
    errors = [
        edge.target
        for edge in edges
        if edge.source == key
        and (has_output or not is_n8n)
        and _is_error(edge.label, edge.source_handle)
    ]
    others = [edge.target for edge in edges if edge.source == key and edge.target not in errors]
    if errors:
        rows = {key_of(row): row for row in downstream.rows("nodes")}
        runs = _reached(edges, errors, without=key)
        stops = [one for one in _reached(edges, others, without=key) if one not in runs]
        return _Failure("failing_caught", [rows[one] for one in dict.fromkeys(errors)], runs, stops)
    all_downstream = _reached(edges, others, without=key)
    if has_output:
        return _Failure("failing_open", (), (), all_downstream)
    if "onError:continueRegular" in data or "continueOnFail:true" in data:
        return _Failure("failing_goes_on", (), all_downstream, ())
    caught = [] if is_n8n else [row for row in catches if key_of(row) != key]
    return _Failure("failing_catch_nodes" if caught else "failing_ends", caught, (), all_downstream)


def _is_error(label: str, handle: str) -> bool:
    return handle == ERROR_HANDLE or ERROR.fullmatch(label.strip()) is not None


def _reached(edges: Sequence[EdgeEnds], starts: Sequence[str], *, without: str) -> list[str]:
    """Returns the nodes reachable from some, ordered by distance."""
    reached = dict.fromkeys(starts)
    for key in (queue := [*reached]):
        for edge in edges:
            if edge.source == key and edge.target != without and edge.target not in reached:
                reached[edge.target] = None
                queue.append(edge.target)
    return [key for key in reached if key != without]


def path(turn: RulesTurn) -> str:
    """Returns the path from one node to another. If a name is ambiguous, returns the longest of the
    shortest paths.
    """
    starts, ends = (
        list(map(key_of, matching_nodes(turn, slot, nearby=True))) for slot in ("a", "b")
    )
    if starts == ends and len(starts) == 1:
        return turn.say("same_node", node=cite(starts[0]))
    calls = [*(around(key, REACH, "out", MAX_AROUND) for key in starts),
             *(around(key, REACH, "in", MAX_AROUND) for key in ends)]  # fmt: skip
    links = links_of(turn.read_all(*calls))
    paths = [
        (line, start, end)
        for start in starts
        for end in ends
        if (line := path_line(links, start, end))
    ]
    if not paths:
        return turn.say("no_path", start=cite(starts[0]), end=cite(ends[0]), reach=2 * REACH)
    line, start, end = max(paths, key=lambda path: path[0].count("→ "))
    return f"{turn.say('path', steps=line.count('→ '), start=cite(start), end=cite(end))}\n{line}"
