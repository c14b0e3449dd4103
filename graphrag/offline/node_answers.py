"""Answers about one node: what it is, its code, one of its fields."""

from __future__ import annotations

import json
from typing import Any, cast

from graphrag.offline.desk import Call, Desk
from graphrag.offline.flow_answers import guess, is_name
from graphrag.offline.intents import DescribeNode, ShowCode, ShowField
from graphrag.offline.names import Found, Unclear, find_nodes, which
from graphrag.offline.readings import Reading, cell
from graphrag.offline.shown import cite, cite_row, code, ends_of, fenced, plain
from graphrag.offline.wording import letters
from tools.toon import compact_json

MAX_CODE_SHOWN = 1200
_OWN_FIELDS = {
    "type": "type", "sheet": "sheet", "feuille": "sheet", "position": "position", "place": "position",
    "size": "size", "taille": "size", "name": "name", "nom": "name", "label": "name", "title": "name",
    "titre": "name", "libelle": "name",
}  # fmt: skip


def describe_node(desk: Desk, wanted: DescribeNode) -> str | None:
    """Say what a node is and does; None when no node is meant. Raises: Needs, CannotGoOn."""
    found = find_nodes(desk, [wanted.node], sure=False)[0]
    if isinstance(found, Unclear):
        if found.several:
            return which(desk, found)
        return which(desk, found) if is_name(wanted.node) and found.candidates else None
    detail, around = desk.read_all(
        Call(name="read_node_detail", arguments={"key": found.key}),
        Call(
            name="explore_neighborhood",
            arguments={"key": found.key, "depth": 1, "direction": "any", "limit": 30},
        ),
    )
    if detail.is_error:
        return desk.say("read_failed", reason=plain(detail.text, 300))
    return guess(desk, found, wanted.node) + "\n".join(_facts(desk, found.key, detail, around))


def _facts(desk: Desk, key: str, detail: Reading, around: Reading) -> list[str]:
    row = {"_key": key, "name": detail.fields.get("name"), "type": detail.fields.get("type")}
    kind = detail.text_of("type_name") or detail.text_of("type")
    lines = [
        desk.say(
            "node_is",
            node=cite_row(row, with_type=False),
            type=plain(kind, 80),
            sheet=plain(detail.text_of("sheet"), 80),
        )
    ]
    lines += _neighbour_lines(desk, key, around)
    if detail.text_of("data").strip():
        lines.append(desk.say("data", data=code(plain(detail.text_of("data")))))
    handles = [
        f"{cell(h.get('direction'))} {plain(cell(h.get('handle')), 40)}"
        + (f" “{plain(cell(h.get('display')), 40)}”" if h.get("display") else "")
        for h in detail.rows("handles")[:12]
    ]
    if handles:
        lines.append(desk.say("handles", handles=", ".join(handles)))
    if detail.text_of("process"):
        inherited = detail.text_of("process_from") != ""
        lines.append(desk.say("code_of_type" if inherited else "its_code"))
        lines.append(fenced(_shortened(detail.text_of("process"))))
    return lines


def _neighbour_lines(desk: Desk, key: str, around: Reading) -> list[str]:
    nodes = {cell(row.get("_key")): row for row in around.rows("nodes")}
    ends = [found for row in around.rows("edges") if (found := ends_of(row, nodes)) is not None]
    before = list(dict.fromkeys(e[0] for e in ends if e[2] == key and e[0] != key))
    after = list(dict.fromkeys(e[2] for e in ends if e[0] == key and e[2] != key))
    lines: list[str] = []
    if before:
        lines.append(desk.say("reached_from", nodes=", ".join(map(cite, before[:10]))))
    if after:
        lines.append(desk.say("leads_to", nodes=", ".join(map(cite, after[:10]))))
    if not ends and not around.is_error:
        lines.append(desk.say("nothing_any", node=cite(key)))
    return lines


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CODE_SHOWN else text[:MAX_CODE_SHOWN] + "\n…"


def show_code(desk: Desk, wanted: ShowCode) -> str | None:
    """Show the code that a node runs; None when no node is meant. Raises: Needs, CannotGoOn."""
    found = find_nodes(desk, [wanted.node], sure=False)[0]
    if isinstance(found, Unclear):
        return which(desk, found)
    intro = guess(desk, found, wanted.node)
    own = cell(found.row.get("process"))
    if own and "…+" not in own:  # the context holds it whole
        return f"{intro}{desk.say('code_is', node=cite(found.key))}\n{fenced(own)}"
    page = desk.read("read_node_detail", key=found.key, field="process", offset=0)
    if page.is_error:
        return desk.say("read_failed", reason=plain(page.text, 300))
    text = page.text_of("process")
    if not text:
        return intro + desk.say("no_code", node=cite(found.key))
    head = page.notes[0] if page.notes else ""
    phrase = "code_from_type" if "(code of its type" in head else "code_is"
    more = f"\n{desk.say('code_goes_on')}" if "; go on with offset=" in head else ""
    return f"{intro}{desk.say(phrase, node=cite(found.key))}\n{fenced(text)}{more}"


def show_field(desk: Desk, wanted: ShowField) -> str | None:
    """Say what a field of a node holds; None when no node is meant. Raises: Needs, CannotGoOn."""
    found = find_nodes(desk, [wanted.node], sure=False)[0]
    if isinstance(found, Unclear):
        return which(desk, found) if found.candidates and is_name(wanted.node) else None
    intro = guess(desk, found, wanted.node)
    own = _OWN_FIELDS.get(wanted.field.casefold())
    if own is not None:
        detail = desk.read("read_node_detail", key=found.key)
        value = detail.text_of(own)
        if value:
            return intro + desk.say(
                "field_is", field=code(wanted.field), node=cite(found.key), value=code(value)
            )
    data = data_of(desk, found)
    path = field_path(data, wanted.field)
    if path is None:
        fields = ", ".join(code(name) for name in list(fields_of(data))[:20]) or "-"
        return intro + desk.say("no_field", field=code(wanted.field), node=cite(found.key), fields=fields)
    value = fields_of(data)[path]
    text = value if isinstance(value, str) else compact_json(value)
    shown = fenced(text[:MAX_CODE_SHOWN], "") if "\n" in text else code(text)
    line = desk.say("field_is", field=code(path), node=cite(found.key), value="")
    return f"{intro}{line.rstrip()}\n{shown}" if "\n" in text else f"{intro}{line.rstrip()} {shown}"


def data_of(desk: Desk, found: Found) -> Any:
    """Return the data of a node; None where it has none or too much to be read at once.

    Raises: Needs, CannotGoOn.
    """
    page = desk.read("read_node_detail", key=found.key, field="data", offset=0)
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
            if isinstance(value, dict):
                for name, item in cast(dict[str, Any], value).items():
                    path = f"{prefix}{name}"
                    fields[path] = item
                    below.append((f"{path}.", item))
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
