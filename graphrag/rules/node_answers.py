"""Answers about nodes: what one is, a field of it, what surrounds it, the path to another."""

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
    plain,
    way_line,
)
from graphrag.rules.resolver import NOTES, asked_node, meant
from graphrag.rules.turn_state import NotNamed, RulesTurn, around, detail, listing
from languages.reading import alternatives
from tools.answer_tables import EdgeEnds, Row, ToolTables, edges_of, key_of
from tools.toon import compact_json

MAX_CODE_SHOWN = 1200
MAX_LINES = 30
MAX_AROUND = 100
ERROR = re.compile(alternatives("labels", "error"), re.IGNORECASE)
ERROR_HANDLE = "onError"
CATCH = "catch"
"""Node-RED's type of a node that gets the errors of the others on its tab."""
MAX_FAILING = 3
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
    """Return what leads here, what follows, and what the node uses: its model, its tools."""
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
        turn.say(group, nodes=", ".join(list(found)[:10]))
        for group, found in groups.items()
        if found
    ]
    return lines or ([] if near.is_error else [turn.say("nothing_any", node=cite(key))])


def show_field(turn: RulesTurn) -> str:
    """Say what a field of a node holds."""
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
    """Return the data of a node; None where it has none or too much to be read at once."""
    page = turn.read("read_node_detail", nodeKey=key, field="data", offset=0)
    try:
        return json.loads(page.text_of("data"))
    except (ValueError, RecursionError):
        return None


def fields_of(data: Any, depth: int = 3) -> dict[str, Any]:
    """Return every field of a JSON object by its dotted path, of `depth` levels, the
    upper ones first.
    """
    if not isinstance(data, dict) or not depth:
        return {}
    fields = cast(dict[str, Any], data)
    inner = {name: fields_of(value, depth - 1) for name, value in fields.items()}
    return fields | {
        f"{name}.{path}": v for name, found in inner.items() for path, v in found.items()
    }


def field_path(fields: Mapping[str, Any], wanted: str) -> str | None:
    """Return the path of the field that is meant: exactly so, else the only one spelt
    alike, else None.
    """
    name = wanted.removeprefix("data.")
    if name in fields:
        return name
    alike = [path for path in fields if letters(path) == letters(name)]
    alike = alike or [path for path in fields if letters(path.rsplit(".", 1)[-1]) == letters(name)]
    return alike[0] if len(alike) == 1 else None


# What surrounds a node


def neighbors(turn: RulesTurn) -> str:
    """Say what surrounds a node."""
    direction = turn.request.options.get("direction", "any")
    key = asked_node(turn)
    before = turn.request.wording.folded[: turn.request.spans["node"][0]]
    depth = REACH if turn.request.grammar.word("all_the_way").search(before) else 1
    near = turn.checked(turn.read_all(around(key, depth, direction, MAX_LINES))[0])
    if len(near.rows("nodes")) < 2:
        return turn.say(f"nothing_{direction}", node=cite(key))
    if depth == 1 and direction != "any":
        others = _neighbours(near, key)
        lines = [
            cite_row(one.row) + (f" · {plain(one.label, 60)}" if one.label else "")
            for one in others
        ]
    else:
        lines = edge_lines(near)
    shown = [turn.say(f"around_{direction}", node=cite(key)), bullets(lines[:MAX_LINES])]
    return "\n".join([*shown, *_what_is_left_out(turn, near)])


def _what_is_left_out(turn: RulesTurn, near: ToolTables) -> list[str]:
    """Return lines that say what of a neighbourhood was not read."""
    is_cut = any(note.startswith("More nodes than") or "more edges" in note for note in near.notes)
    is_far = any(str(row.get("depth")) == str(REACH) for row in near.rows("nodes"))
    return [turn.say("more_around")] * is_cut + [turn.say("no_further", reach=REACH)] * is_far


class _Failure(NamedTuple):
    """What becomes of a run when a node fails: `how` names the text, `caught` the nodes that
    get the error.

    `runs` are the keys of nodes that still run, `stops` those that do not, unless another
    way leads there.
    """

    how: str
    caught: Sequence[Row]
    runs: Sequence[str]
    stops: Sequence[str]


def failing(turn: RulesTurn) -> str:
    """Say what becomes of a run when a node fails: what runs then, and what does not."""
    rows = meant(turn, "node")
    keys = [key_of(row) for row in rows if row.get("type") not in NOTES]
    if not keys:
        return turn.say("is_note", node=cite_row(rows[0], with_type=False))
    keys = keys[:MAX_FAILING]
    reads = [call for key in keys for call in (around(key, REACH, "out", MAX_AROUND), detail(key))]
    found = turn.read_all(*reads, listing(MAX_LINES, typeKey=CATCH))
    lines: list[str] = []
    for at, key in enumerate(keys):
        behind = turn.checked(found[2 * at])
        shown = turn.checked(found[2 * at + 1])
        failure = _failure(key, behind, shown, found[-1].rows("found"))
        caught = ", ".join(map(cite_row, failure.caught))
        lines.append(turn.say(failure.how, node=cite(key), nodes=caught))
        lines += [
            _group(turn, name, getattr(failure, name))
            for name in ("runs", "stops")
            if getattr(failure, name)
        ]
        if not failure.runs and not failure.stops:
            lines.append(turn.say("nothing_out", node=cite(key)))
        lines += _what_is_left_out(turn, behind)
    return "\n".join(lines)


def _group(turn: RulesTurn, name: str, keys: Sequence[str]) -> str:
    listed = ", ".join(map(cite, keys[:MAX_LINES])) + (", …" if len(keys) > MAX_LINES else "")
    return turn.say(f"failing_{name}", count=len(keys), nodes=listed, all=highlight(keys, as_=name))


def _failure(key: str, behind: ToolTables, shown: ToolTables, catches: Sequence[Row]) -> _Failure:
    """Follow the error output of a node alone, where it has one; else what its settings say."""
    edges = [edge for edge in edges_of(behind) if not edge.target_handle.startswith(USE_HANDLE)]
    data = shown.text_of("data")
    is_n8n = "n8n" in shown.text_of("type")
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
        rows = {key_of(row): row for row in behind.rows("nodes")}
        runs = _reached(edges, errors, without=key)
        stops = [one for one in _reached(edges, others, without=key) if one not in runs]
        return _Failure("failing_caught", [rows[one] for one in dict.fromkeys(errors)], runs, stops)
    all_behind = _reached(edges, others, without=key)
    if has_output:
        return _Failure("failing_open", (), (), all_behind)
    if "onError:continueRegular" in data or "continueOnFail:true" in data:
        return _Failure("failing_goes_on", (), all_behind, ())
    caught = [] if is_n8n else [row for row in catches if key_of(row) != key]
    return _Failure("failing_catch_nodes" if caught else "failing_ends", caught, (), all_behind)


def _is_error(label: str, handle: str) -> bool:
    return handle == ERROR_HANDLE or ERROR.fullmatch(label.strip()) is not None


def _reached(edges: Sequence[EdgeEnds], starts: Sequence[str], *, without: str) -> list[str]:
    """Return the nodes that are reached from some, in the order of their distance."""
    reached = dict.fromkeys(starts)
    for key in (queue := [*reached]):
        for edge in edges:
            if edge.source == key and edge.target != without and edge.target not in reached:
                reached[edge.target] = None
                queue.append(edge.target)
    return [key for key in reached if key != without]


def path(turn: RulesTurn) -> str:
    """Say how one node leads to another; of several that a name may mean, those the
    most steps apart.
    """
    starts, ends = (list(map(key_of, meant(turn, slot, nearby=True))) for slot in ("a", "b"))
    if starts == ends and len(starts) == 1:
        return turn.say("same_node", node=cite(starts[0]))
    calls = [*(around(key, REACH, "out", MAX_AROUND) for key in starts),
             *(around(key, REACH, "in", MAX_AROUND) for key in ends)]  # fmt: skip
    links = links_of(turn.read_all(*calls))
    ways = [
        (way, start, end)
        for start in starts
        for end in ends
        if (way := way_line(links, start, end))
    ]
    if not ways:
        return turn.say("no_path", start=cite(starts[0]), end=cite(ends[0]), reach=2 * REACH)
    way, start, end = max(ways, key=lambda found: found[0].count("→ "))
    return f"{turn.say('path', steps=way.count('→ '), start=cite(start), end=cite(end))}\n{way}"
