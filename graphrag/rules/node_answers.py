"""Answers about nodes: what one is, a field of it, what surrounds it, the path to another."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from graphrag.rules.graph_answers import REACH
from graphrag.rules.markup import bullets, cite, cite_row, code, edge_lines, edges_of, fenced, plain
from graphrag.rules.normalized_text import letters
from graphrag.rules.resolver import asked_nodes, words_of
from graphrag.rules.tool_tables import Row, ToolTables, key_of
from graphrag.rules.turn_state import RulesTurn, around, detail
from tools.toon import compact_json

MAX_CODE_SHOWN = 1200
MAX_LINES = 30
MAX_AROUND = 100
USE_HANDLE = "ai_"
"""Handles of this beginning join what a node uses (a model, a tool), not what follows it."""


class Neighbour(NamedTuple):
    """The other end of an edge of a node. `is_use`: one of them uses the other."""

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
    """Say what a node is and does, with its data and its code."""
    (key,) = asked_nodes(turn, "node")
    shown, near = turn.read_all(detail(key), around(key, 1, "any", 30))
    turn.checked(shown)
    row = {"_key": key, "name": shown.fields.get("name"), "type": shown.fields.get("type")}
    kind, sheet = shown.text_of("type_name") or shown.text_of("type"), plain(shown.text_of("sheet"), 80)
    lines = [turn.say("node_is", node=cite_row(row, with_type=False), type=plain(kind, 80), sheet=sheet)]
    lines += _around_lines(turn, key, near)
    if shown.text_of("data").strip():
        lines.append(turn.say("data", data=code(plain(shown.text_of("data")))))
    text = shown.text_of("process")
    if text:
        lines.append(turn.say("code_of_type" if shown.text_of("process_from") else "its_code"))
        lines.append(fenced(text if len(text) <= MAX_CODE_SHOWN else f"{text[:MAX_CODE_SHOWN]}\n…"))
    return "\n".join(lines)


def _around_lines(turn: RulesTurn, key: str, near: ToolTables) -> list[str]:
    """Return what leads here, what follows, and what the node uses: its model, its tools."""
    groups: dict[str, dict[str, None]] = {"uses": {}, "used_by": {}, "reached_from": {}, "leads_to": {}}
    for other in _neighbours(near, key):
        after = "used_by" if other.is_use else "leads_to"
        group = after if other.is_after else "uses" if other.is_use else "reached_from"
        label = f" ({plain(other.label, 40)})" if group == "uses" and other.label else ""
        groups[group][cite(key_of(other.row)) + label] = None
    lines = [turn.say(group, nodes=", ".join(list(found)[:10])) for group, found in groups.items() if found]
    return lines or ([] if near.is_error else [turn.say("nothing_any", node=cite(key))])


def show_field(turn: RulesTurn) -> str:
    """Say what a field of a node holds, or what the node uses as its model or its tools."""
    name = turn.request.text("field") or turn.request.text("word")
    (key,) = asked_nodes(turn, "node")
    names = [name, *turn.request.grammar.listed(f"field_{letters(name)}")]
    fields = fields_of(data_of(turn, key))
    paths = [path for alias in names if (path := field_path(fields, alias)) is not None]
    if not paths:
        near = turn.read_all(around(key, 1, "in", MAX_LINES))[0]
        used = [cite_row(other.row) for other in _neighbours(near, key)
                if other.is_use and words_of(name) & words_of(other.label)]  # fmt: skip
        if used:
            return turn.say("uses", nodes=", ".join(used))
        shown = ", ".join(code(field) for field in list(fields)[:20]) or "-"
        return turn.say("no_field", field=code(name), node=cite(key), fields=shown)
    value = fields[paths[0]]
    text = value if isinstance(value, str) else compact_json(value)
    shown = f"\n{fenced(text[:MAX_CODE_SHOWN], '')}" if "\n" in text else code(text)
    return turn.say("field_is", field=code(paths[0]), node=cite(key), value=shown)


def data_of(turn: RulesTurn, key: str) -> Any:
    """Return the data of a node; None where it has none or too much to be read at once."""
    page = turn.read("read_node_detail", nodeKey=key, field="data", offset=0)
    try:
        return json.loads(page.text_of("data"))
    except (ValueError, RecursionError):
        return None


def fields_of(data: Any, depth: int = 3) -> dict[str, Any]:
    """Return every field of a JSON object by its dotted path, of `depth` levels, the upper ones first."""
    if not isinstance(data, dict) or not depth:
        return {}
    fields = cast(dict[str, Any], data)
    inner = {name: fields_of(value, depth - 1) for name, value in fields.items()}
    return fields | {f"{name}.{path}": v for name, found in inner.items() for path, v in found.items()}


def field_path(fields: Mapping[str, Any], wanted: str) -> str | None:
    """Return the path of the field that is meant: exactly so, else the only one spelt alike, else None."""
    name = wanted.removeprefix("data.")
    if name in fields:
        return name
    alike = [path for path in fields if letters(path) == letters(name)]
    alike = alike or [path for path in fields if letters(path.rsplit(".", 1)[-1]) == letters(name)]
    return alike[0] if len(alike) == 1 else None


# What surrounds a node


def neighbors(turn: RulesTurn) -> str:
    """Say what surrounds a node."""
    direction, (key,) = turn.request.options.get("direction", "any"), asked_nodes(turn, "node")
    before = turn.request.wording.folded[: turn.request.spans["node"][0]]
    depth = REACH if turn.request.grammar.word("all_the_way").search(before) else 1
    near = turn.checked(turn.read_all(around(key, depth, direction, MAX_LINES))[0])
    if len(near.rows("nodes")) < 2:
        return turn.say(f"nothing_{direction}", node=cite(key))
    if depth == 1 and direction != "any":
        others = _neighbours(near, key)
        lines = [cite_row(one.row) + (f" · {plain(one.label, 60)}" if one.label else "") for one in others]
    else:
        lines = edge_lines(near)
    is_cut = any(note.startswith("More nodes than") or "more edges" in note for note in near.notes)
    more = f"\n{turn.say('more_around')}" if is_cut else ""
    return f"{turn.say(f'around_{direction}', node=cite(key))}\n{bullets(lines[:MAX_LINES])}{more}"


def path(turn: RulesTurn) -> str:
    """Say how one node leads to another."""
    start, end = asked_nodes(turn, "a", "b")
    if start == end:
        return turn.say("same_node", node=cite(start))
    answers = turn.read_all(
        *(around(key, REACH, way, MAX_AROUND) for key in (start, end) for way in ("out", "in"))
    )
    links: dict[str, list[tuple[str, str]]] = {}
    for edge in (edge for answer in answers for edge in edges_of(answer)):
        links.setdefault(edge.source, []).append((edge.target, edge.label))
    there = _shortest(links, start, end)
    facts = {"start": cite(start), "end": cite(end)}
    if there:
        arrows = [(f" —{plain(label, 60)}→ " if label else " → ") + cite(key) for key, label in there]
        return f"{turn.say('path', steps=len(there), **facts)}\n{cite(start)}{''.join(arrows)}"
    return turn.say("no_path", reach=2 * REACH, **facts)


def _shortest(links: Mapping[str, list[tuple[str, str]]], start: str, end: str) -> list[tuple[str, str]]:
    """Return the steps of a shortest path, each with what stands on its edge; none where there is no path."""
    came: dict[str, list[tuple[str, str]]] = {start: []}
    queue = deque([start])
    while queue and end not in came:
        key = queue.popleft()
        for other, label in links.get(key, []):
            if other not in came:
                came[other] = [*came[key], (other, label)]
                queue.append(other)
    return came.get(end, [])
