"""Answers about nodes: what one is, its code, a field of it, what surrounds it, the path to another."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from graphrag.rules.graph_answers import REACH, describe_type
from graphrag.rules.markup import bullets, cite, cite_row, code, edge_lines, edges_of, fenced, plain
from graphrag.rules.normalized_text import letters
from graphrag.rules.patterns import grammar
from graphrag.rules.resolver import (
    FoundNode,
    Unclear,
    ask_which,
    asked_node,
    find_nodes,
    find_type,
    guess_remark,
    read_types,
    words_said,
)
from graphrag.rules.tool_tables import Row, ToolTables, cell, key_of
from graphrag.rules.turn_state import RulesTurn, around, detail
from tools.toon import compact_json

MAX_CODE_SHOWN = 1200
MAX_LINES = 30
MAX_AROUND = 100
USE_HANDLE = "ai_"
"""Handles of this beginning join what a node uses (a model, a tool), not what follows it."""

_OWN_FIELDS = {
    "type": "type", "sheet": "sheet", "feuille": "sheet", "position": "position", "place": "position",
    "size": "size", "taille": "size", "name": "name", "nom": "name", "label": "name", "title": "name",
    "titre": "name", "libelle": "name",
}  # fmt: skip


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


def describe_node(turn: RulesTurn) -> str | None:
    """Say what a node is and does, or the type of that name: `what is a filter?` asks for the type first."""
    mention = turn.request.mention("node")
    if mention is None:
        return None
    asks_type = "indefinite" in turn.request.spans

    def names_type() -> bool:
        return not isinstance(find_type(mention, read_types(turn)), list)

    if asks_type and names_type():
        return describe_type(turn, mention)
    asked = asked_node(turn)
    if asked is None:
        return describe_type(turn, mention) if not asks_type and mention.is_short and names_type() else None
    found, remark = asked
    shown, near = turn.read_all(detail(found.key), around(found.key, 1, "any", 30))
    turn.checked(shown)
    row = {"_key": found.key, "name": shown.fields.get("name"), "type": shown.fields.get("type")}
    kind, sheet = shown.text_of("type_name") or shown.text_of("type"), plain(shown.text_of("sheet"), 80)
    lines = [turn.say("node_is", node=cite_row(row, with_type=False), type=plain(kind, 80), sheet=sheet)]
    lines += _around_lines(turn, found.key, near)
    if shown.text_of("data").strip():
        lines.append(turn.say("data", data=code(plain(shown.text_of("data")))))
    text = shown.text_of("process")
    if text:
        lines.append(turn.say("code_of_type" if shown.text_of("process_from") else "its_code"))
        lines.append(fenced(text if len(text) <= MAX_CODE_SHOWN else f"{text[:MAX_CODE_SHOWN]}\n…"))
    return remark + "\n".join(lines)


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


def show_code(turn: RulesTurn) -> str | None:
    """Show the code that a node runs."""
    asked = asked_node(turn)
    if asked is None:
        return None
    found, remark = asked
    own = cell(found.row.get("process"))
    if own and "…+" not in own:  # the context holds it whole
        return f"{remark}{turn.say('code_is', node=cite(found.key))}\n{fenced(own)}"
    page = turn.checked(turn.read("read_node_detail", nodeKey=found.key, field="process", offset=0))
    text = page.text_of("process")
    if not text:
        return remark + turn.say("no_code", node=cite(found.key))
    head = page.notes[0] if page.notes else ""
    phrase = turn.say("code_from_type" if "(code of its type" in head else "code_is", node=cite(found.key))
    more = f"\n{turn.say('code_goes_on')}" if "; go on with offset=" in head else ""
    return f"{remark}{phrase}\n{fenced(text)}{more}"


def show_field(turn: RulesTurn) -> str | None:
    """Say what a field of a node holds."""
    name = turn.request.text("field") or turn.request.text("word")
    asked = asked_node(turn) if name else None
    if asked is None:
        return None
    (found, remark), own = asked, _OWN_FIELDS.get(name.casefold())
    node = cite(found.key)
    if own is not None and (value := turn.read_all(detail(found.key))[0].text_of(own)):
        return remark + turn.say("field_is", field=code(name), node=node, value=code(value))
    data = data_of(turn, found.key)
    aliases = grammar(turn.language).words.get(f"field_{letters(name)}_list", "").split()
    paths = [path for alias in (name, *aliases) if (path := field_path(data, alias)) is not None]
    fields = fields_of(data)
    if not paths:
        near = turn.checked(turn.read_all(around(found.key, 1, "in", MAX_LINES))[0])
        used = [cite_row(other.row) for other in _neighbours(near, found.key)
                if other.is_use and words_said(name) & words_said(other.label)]  # fmt: skip
        if used:
            return remark + turn.say("uses", nodes=", ".join(used))
        shown = ", ".join(code(field) for field in list(fields)[:20]) or "-"
        return remark + turn.say("no_field", field=code(name), node=node, fields=shown)
    value = fields[paths[0]]
    text = value if isinstance(value, str) else compact_json(value)
    shown = f"\n{fenced(text[:MAX_CODE_SHOWN], '')}" if "\n" in text else code(text)
    return remark + turn.say("field_is", field=code(paths[0]), node=node, value=shown)


def data_of(turn: RulesTurn, key: str) -> Any:
    """Return the data of a node; None where it has none or too much to be read at once."""
    page = turn.read("read_node_detail", nodeKey=key, field="data", offset=0)
    try:
        return json.loads(page.text_of("data"))
    except (ValueError, RecursionError):
        return None


def fields_of(data: Any) -> dict[str, Any]:
    """Return every field of a JSON object by its dotted path, down to three levels."""
    fields: dict[str, Any] = {}
    level: list[tuple[str, Any]] = [("", data)]
    for _ in range(3):
        holders = [(prefix, cast(dict[str, Any], v)) for prefix, v in level if isinstance(v, dict)]
        inner = {f"{prefix}{name}": item for prefix, holder in holders for name, item in holder.items()}
        fields |= inner
        level = [(f"{path}.", item) for path, item in inner.items()]
    return fields


def field_path(data: Any, wanted: str) -> str | None:
    """Return the path of the field that is meant: exactly so, else the only one spelt alike, else None."""
    fields, name = fields_of(data), wanted.removeprefix("data.")
    if name in fields:
        return name
    alike = [path for path in fields if letters(path) == letters(name)]
    alike = alike or [path for path in fields if letters(path.rsplit(".", 1)[-1]) == letters(name)]
    return alike[0] if len(alike) == 1 else None


# What surrounds a node


def neighbors(turn: RulesTurn) -> str | None:
    """Say what surrounds a node."""
    direction, asked = turn.request.options.get("direction", "any"), asked_node(turn)
    if asked is None:
        return None
    found, remark = asked
    depth = _depth(turn, turn.request.wording.folded[: turn.request.spans["node"][0]])
    near = turn.checked(turn.read_all(around(found.key, depth, direction, MAX_LINES))[0])
    others = [row for row in near.rows("nodes") if key_of(row) != found.key]
    if not others:
        return remark + turn.say(f"nothing_{direction}", node=cite(found.key))
    if depth > 1:
        lines = edge_lines(near)
    else:
        lines = [
            (turn.say("comes_after" if one.is_after else "comes_before") if direction == "any" else "")
            + cite_row(one.row)
            + (f" · {plain(one.label, 60)}" if one.label else "")
            for one in _neighbours(near, found.key)
        ]
    more = f"\n{turn.say('more_around')}" if _is_cut(near) else ""
    head = turn.say(f"around_{direction}", node=cite(found.key))
    return f"{remark}{head}\n{bullets(lines[:MAX_LINES] or list(map(cite_row, others)))}{more}"


def _depth(turn: RulesTurn, asked: str) -> int:
    numbers = turn.request.grammar.word("steps").search(asked)
    if numbers is not None:
        return next(n for n in (1, 2, 3) if numbers[f"n{n}"] or n == REACH)
    return REACH if turn.request.grammar.word("all_the_way").search(asked) else 1


def _is_cut(answer: ToolTables) -> bool:
    cut = any(note.startswith("More nodes than") or "more edges" in note for note in answer.notes)
    return cut or not (answer.is_whole("nodes") and answer.is_whole("edges"))


Links = dict[str, list[tuple[str, str]]]
"""The next nodes of each, with what stands on the edge."""


def path(turn: RulesTurn) -> str | None:
    """Say how one node leads to another."""
    mentions = [mention for slot in ("a", "b") if (mention := turn.request.mention(slot)) is not None]
    found = find_nodes(turn, mentions, sure=False)
    unclear = [one for one in found if isinstance(one, Unclear)]
    if unclear or len(found) < 2:
        is_named = unclear and all(one.mention.is_short for one in unclear)
        return "\n".join(ask_which(turn, one) for one in unclear) if is_named else None
    start, end = (one for one in found if isinstance(one, FoundNode))
    remark = guess_remark(turn, start, mentions[0]) + guess_remark(turn, end, mentions[1])
    if start.key == end.key:
        return remark + turn.say("same_node", node=cite(start.key))
    keys = (start.key, end.key)
    answers = turn.read_all(*(around(key, REACH, way, MAX_AROUND) for key in keys for way in ("out", "in")))
    links: Links = {}
    for edge in (edge for answer in answers for edge in edges_of(answer)):
        links.setdefault(edge.source, []).append((edge.target, edge.label))
    there, back = _shortest(links, *keys), _shortest(links, *reversed(keys))
    facts = {"start": cite(start.key), "end": cite(end.key)}
    if there:
        return f"{remark}{turn.say('path', steps=len(there), **facts)}\n{_written(start.key, there)}"
    ends = all(row.get("depth") != REACH for row in answers[0].rows("nodes"))
    is_sure = ends and not any(map(_is_cut, answers))
    none = turn.say("no_path" if is_sure else "no_short_path", reach=2 * REACH, **facts)
    return remark + none + (f"\n{turn.say('path_back')}\n{_written(end.key, back)}" if back else "")


def _shortest(links: Links, start: str, end: str) -> list[tuple[str, str]]:
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


def _written(start: str, steps: Sequence[tuple[str, str]]) -> str:
    arrows = (f" —{plain(label, 60)}→ " if label else " → " for _, label in steps)
    return cite(start) + "".join(arrow + cite(key) for arrow, (key, _) in zip(arrows, steps, strict=True))
