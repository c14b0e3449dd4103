"""Answers about nodes: what one is, its code, a field of it, what surrounds it, the path to another."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

from graphrag.rules.conversation import Call
from graphrag.rules.graph_answers import REACH, describe_type, edge_lines, neighborhood
from graphrag.rules.markup import bullets, cite, cite_row, code, ends_of, fenced, plain
from graphrag.rules.normalized_text import letters
from graphrag.rules.patterns import grammar
from graphrag.rules.resolver import (
    Found,
    Unclear,
    ask_which,
    find_nodes,
    find_type,
    guess_remark,
    read_types,
    the_node,
    words_said,
)
from graphrag.rules.tool_tables import Answer, Row, cell, key_of
from graphrag.rules.turn_state import Turn
from tools.toon import compact_json

MAX_CODE_SHOWN = 1200
MAX_LINES = 30
AROUND = 100
FLOW_HANDLE = "ai_"
"""Handles of this beginning join what a node uses (a model, a tool), not what follows it."""

_OWN_FIELDS = {
    "type": "type", "sheet": "sheet", "feuille": "sheet", "position": "position", "place": "position",
    "size": "size", "taille": "size", "name": "name", "nom": "name", "label": "name", "title": "name",
    "titre": "name", "libelle": "name",
}  # fmt: skip


def describe_node(turn: Turn) -> str | None:
    """Say what a node is and does, or the type of that name: `what is a filter?` asks for the type first."""
    mention = turn.request.mention("node")
    is_type = "indefinite" in turn.request.spans
    if mention is None:
        return None
    if is_type and not isinstance(find_type(mention, read_types(turn)), list):
        return describe_type(turn, mention)
    found = the_node(turn, mention)
    if found is None:
        if is_type or not mention.is_short or isinstance(find_type(mention, read_types(turn)), list):
            return None
        return describe_type(turn, mention)
    detail, around = turn.read_all(
        Call(name="read_node_detail", arguments={"key": found.key}), neighborhood(found.key, 1, "any", 30)
    )
    turn.checked(detail)
    row = {"_key": found.key, "name": detail.fields.get("name"), "type": detail.fields.get("type")}
    kind = detail.text_of("type_name") or detail.text_of("type")
    sheet = plain(detail.text_of("sheet"), 80)
    lines = [turn.say("node_is", node=cite_row(row, with_type=False), type=plain(kind, 80), sheet=sheet)]
    lines += _around_lines(turn, found.key, around)
    if detail.text_of("data").strip():
        lines.append(turn.say("data", data=code(plain(detail.text_of("data")))))
    if detail.text_of("process"):
        lines.append(turn.say("code_of_type" if detail.text_of("process_from") else "its_code"))
        text = detail.text_of("process")
        lines.append(fenced(text if len(text) <= MAX_CODE_SHOWN else f"{text[:MAX_CODE_SHOWN]}\n…"))
    return guess_remark(turn, found, mention) + "\n".join(lines)


def _around_lines(turn: Turn, key: str, around: Answer) -> list[str]:
    """Return what leads here, what follows, and what the node uses: its model, its tools."""
    nodes = {key_of(row): row for row in around.rows("nodes")}
    groups: dict[str, dict[str, None]] = {"uses": {}, "used_by": {}, "reached_from": {}, "leads_to": {}}
    for row in around.rows("edges"):
        ends = ends_of(row, nodes)
        if ends is None or ends[0] == ends[2]:
            continue
        is_use = ends[3].startswith(FLOW_HANDLE)
        other, group = (ends[0], "uses" if is_use else "reached_from") if ends[2] == key else (
            ends[2], "used_by" if is_use else "leads_to")  # fmt: skip
        label = (
            f" ({plain(cell(row.get('label')), 40)})"
            if is_use and group == "uses" and row.get("label")
            else ""
        )
        groups[group][cite(other) + label] = None
    lines = [turn.say(group, nodes=", ".join(list(found)[:10])) for group, found in groups.items() if found]
    return lines or ([] if around.is_error else [turn.say("nothing_any", node=cite(key))])


def show_code(turn: Turn) -> str | None:
    """Show the code that a node runs."""
    mention = turn.request.mention("node")
    found = the_node(turn, mention)
    if found is None:
        return None
    remark = guess_remark(turn, found, mention)
    own = cell(found.row.get("process"))
    if own and "…+" not in own:  # the context holds it whole
        return f"{remark}{turn.say('code_is', node=cite(found.key))}\n{fenced(own)}"
    page = turn.checked(turn.read("read_node_detail", key=found.key, field="process", offset=0))
    text = page.text_of("process")
    if not text:
        return remark + turn.say("no_code", node=cite(found.key))
    head = page.notes[0] if page.notes else ""
    phrase = turn.say("code_from_type" if "(code of its type" in head else "code_is", node=cite(found.key))
    more = f"\n{turn.say('code_goes_on')}" if "; go on with offset=" in head else ""
    return f"{remark}{phrase}\n{fenced(text)}{more}"


def show_field(turn: Turn) -> str | None:
    """Say what a field of a node holds."""
    mention, name = turn.request.mention("node"), turn.request.text("field") or turn.request.text("word")
    found = the_node(turn, mention) if name else None
    if found is None:
        return None
    remark, own = guess_remark(turn, found, mention), _OWN_FIELDS.get(name.casefold())
    if own is not None:
        value = turn.read("read_node_detail", key=found.key).text_of(own)
        if value:
            return remark + turn.say("field_is", field=code(name), node=cite(found.key), value=code(value))
    data = data_of(turn, found.key)
    aliases = grammar(turn.language).words.get(f"field_{letters(name)}_list", "").split()
    paths = [path for alias in (name, *aliases) if (path := field_path(data, alias)) is not None]
    fields, path = fields_of(data), paths[0] if paths else None
    if path is None:
        used = _used(turn, found.key, name)
        if used:
            return remark + turn.say("uses", nodes=", ".join(used))
        shown = ", ".join(code(field) for field in list(fields)[:20]) or "-"
        return remark + turn.say("no_field", field=code(name), node=cite(found.key), fields=shown)
    value = fields[path]
    text = value if isinstance(value, str) else compact_json(value)
    shown = f"\n{fenced(text[:MAX_CODE_SHOWN], '')}" if "\n" in text else code(text)
    return remark + turn.say("field_is", field=code(path), node=cite(found.key), value=shown)


def _used(turn: Turn, key: str, name: str) -> list[str]:
    """Return what a node uses under a name: the model or the tools of an assistant."""
    around = turn.checked(turn.read_all(neighborhood(key, 1, "in", MAX_LINES))[0])
    nodes, wanted = {key_of(row): row for row in around.rows("nodes")}, words_said(name)
    edges = [(ends_of(row, nodes), words_said(cell(row.get("label")))) for row in around.rows("edges")]
    return [
        cite_row(nodes[ends[0]])
        for ends, label in edges
        if ends is not None and ends[2] == key and ends[3].startswith(FLOW_HANDLE) and wanted & label
    ]


def data_of(turn: Turn, key: str) -> Any:
    """Return the data of a node; None where it has none or too much to be read at once."""
    page = turn.read("read_node_detail", key=key, field="data", offset=0)
    try:
        return json.loads(page.text_of("data"))
    except (ValueError, RecursionError):
        return None


def fields_of(data: Any) -> dict[str, Any]:
    """Return every field of a JSON object by its dotted path, down to three levels."""
    fields: dict[str, Any] = {}
    level: list[tuple[str, Any]] = [("", data)]
    for _ in range(3):
        below: list[tuple[str, Any]] = []
        for prefix, value in level:
            for name, item in cast(dict[str, Any], value).items() if isinstance(value, dict) else ():
                fields[f"{prefix}{name}"] = item
                below.append((f"{prefix}{name}.", item))
        level = below
    return fields


def field_path(data: Any, wanted: str) -> str | None:
    """Return the path of the field that is meant: exactly so, else the only one spelt alike, else None."""
    fields = fields_of(data)
    name = wanted.removeprefix("data.")
    if name in fields:
        return name
    alike = [path for path in fields if letters(path) == letters(name)]
    alike = alike or [path for path in fields if letters(path.rsplit(".", 1)[-1]) == letters(name)]
    return alike[0] if len(alike) == 1 else None


# What surrounds a node


def neighbors(turn: Turn) -> str | None:
    """Say what surrounds a node."""
    mention, direction = turn.request.mention("node"), turn.request.options.get("direction", "any")
    found = the_node(turn, mention)
    if found is None:
        return None
    asked = turn.request.wording.folded[: turn.request.spans["node"][0]]
    depth = _depth(turn, asked)
    around = turn.checked(turn.read_all(neighborhood(found.key, depth, direction, MAX_LINES))[0])
    remark = guess_remark(turn, found, mention)
    others = [row for row in around.rows("nodes") if key_of(row) != found.key]
    if not others:
        return remark + turn.say(f"nothing_{direction}", node=cite(found.key))
    lines = edge_lines(around) if depth > 1 else _near_lines(turn, around, found.key, direction)
    more = f"\n{turn.say('more_around')}" if _is_cut(around) else ""
    head = turn.say(f"around_{direction}", node=cite(found.key))
    return f"{remark}{head}\n{bullets(lines[:MAX_LINES] or list(map(cite_row, others)))}{more}"


def _depth(turn: Turn, asked: str) -> int:
    numbers = turn.request.grammar.word("steps").search(asked)
    if numbers is not None:
        return next(n for n in (1, 2, 3) if numbers[f"n{n}"] or n == REACH)
    return REACH if turn.request.grammar.word("all_the_way").search(asked) else 1


def _near_lines(turn: Turn, around: Answer, key: str, direction: str) -> list[str]:
    nodes = {key_of(row): row for row in around.rows("nodes")}
    lines: list[str] = []
    for row in around.rows("edges"):
        ends = ends_of(row, nodes)
        if ends is None or key not in (ends[0], ends[2]):
            continue
        is_after = ends[0] == key
        role = turn.say("comes_after" if is_after else "comes_before") if direction == "any" else ""
        label = cell(row.get("label"))
        lines.append(
            role
            + cite_row(nodes[ends[2] if is_after else ends[0]])
            + (f" · {plain(label, 60)}" if label else "")
        )
    return lines


def _is_cut(answer: Answer) -> bool:
    cut = any(note.startswith("More nodes than limit") or "more edges" in note for note in answer.notes)
    return cut or not (answer.is_whole("nodes") and answer.is_whole("edges"))


Links = dict[str, list[tuple[str, str]]]
"""The next nodes of each, with what stands on the edge."""


def path(turn: Turn) -> str | None:
    """Say how one node leads to another."""
    mentions = [mention for slot in ("a", "b") if (mention := turn.request.mention(slot)) is not None]
    found = find_nodes(turn, mentions, sure=False)
    unclear = [one for one in found if isinstance(one, Unclear)]
    if unclear or len(found) < 2:
        is_named = all(one.mention.is_short for one in unclear)
        return "\n".join(ask_which(turn, one) for one in unclear) if unclear and is_named else None
    start, end = (one for one in found if isinstance(one, Found))
    remark = guess_remark(turn, start, mentions[0]) + guess_remark(turn, end, mentions[1])
    if start.key == end.key:
        return remark + turn.say("same_node", node=cite(start.key))
    keys = (start.key, end.key)
    answers = turn.read_all(*(neighborhood(key, REACH, way, AROUND) for key in keys for way in ("out", "in")))
    links = _links(answers)
    there, back = _shortest(links, *keys), _shortest(links, *reversed(keys))
    facts = {"start": cite(start.key), "end": cite(end.key)}
    if there:
        return f"{remark}{turn.say('path', steps=len(there), **facts)}\n{_written(start.key, there)}"
    ends = all(row.get("depth") != REACH for row in answers[0].rows("nodes"))
    is_sure = ends and not any(map(_is_cut, answers))
    none = turn.say("no_path" if is_sure else "no_short_path", reach=2 * REACH, **facts)
    return remark + none + (f"\n{turn.say('path_back')}\n{_written(end.key, back)}" if back else "")


def _links(answers: Sequence[Answer]) -> Links:
    links: Links = {}
    for answer in answers:
        nodes: Mapping[str, Row] = {key_of(row): row for row in answer.rows("nodes")}
        for row in answer.rows("edges"):
            ends = ends_of(row, nodes)
            if ends is not None:
                links.setdefault(ends[0], []).append((ends[2], cell(row.get("label"))))
    return links


def _shortest(links: Links, start: str, end: str) -> list[tuple[str, str]]:
    came: dict[str, tuple[str, str]] = {start: ("", "")}
    queue = deque([start])
    while queue and end not in came:
        key = queue.popleft()
        for other, label in links.get(key, []):
            if other not in came:
                came[other] = (key, label)
                queue.append(other)
    steps: list[tuple[str, str]] = []
    at = end
    while at in came and at != start:
        before, label = came[at]
        steps.append((at, label))
        at = before
    return steps[::-1]


def _written(start: str, steps: Sequence[tuple[str, str]]) -> str:
    return cite(start) + "".join(
        (f" —{plain(label, 60)}→ " if label else " → ") + cite(key) for key, label in steps
    )
