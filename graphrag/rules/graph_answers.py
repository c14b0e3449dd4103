"""Answers about the graph as a whole: what it does, how much it holds, its nodes, types and sheets."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphrag.rules.markup import bullets, cite_row, code, edge_lines, fenced, plain
from graphrag.rules.normalized_text import EntityMention
from graphrag.rules.resolver import NOTES, overview_and_types, read_types, the_sheet, the_type, type_lines
from graphrag.rules.tool_tables import Row, ToolTables, cell, key_of
from graphrag.rules.turn_state import MAX_CALLS, RulesTurn, around, listing

REACH = 3
LISTED = 50
MAX_ENTRIES, MAX_FLOW, MAX_NOTES, SHOWN_TYPES = 4, 15, 5, 12
_BEGINS = re.compile(r"trigger|start|entry|inject|webhook|form\b|\bin\b", re.IGNORECASE)
"""Types and names of nodes by which workflows begin; other entries only feed them."""

_NOTE = re.compile(r"^'?text:'?[#\s]*")
_LEFT = re.compile(r"(?P<least>at least )?(?P<count>\d+) more: the same call")


def describe_graph(turn: RulesTurn) -> str:
    """Say what the graph is for, as its name, description and notes say, and how it runs from its start."""
    overview = _overview(turn)
    begins = _beginnings(overview)
    kinds = {cell(row.get("type")) for row in overview.rows("types")}
    calls = [around(key_of(row), REACH, "out", 30) for row in begins[:MAX_ENTRIES]]
    answers = turn.read_all(*calls, *([listing("note", "", MAX_NOTES)] if "note" in kinds else []))
    description = plain(overview.text_of("description"))
    lines = [f"**{plain(overview.text_of('name'), 120)}**" + (f": {description}" if description else "")]
    lines.append(_sizes(turn, overview))
    notes = [text for answer in answers[len(calls) :] for row in answer.rows("found")
             if (text := cell(row.get("holds")))]  # fmt: skip
    if notes:
        lines += [turn.say("notes"), bullets([plain(_NOTE.sub("", text), 160) for text in notes])]
    if kinds:
        lines.append(turn.say("types_used", types=_types_used(overview)))
    if begins:
        lines.append(turn.say("starts_at", nodes=_cited(begins)))
        flow = _flow(turn, answers[: len(calls)])
        lines += [turn.say("flow"), bullets(flow)] if flow else []
    alone = _without_notes(overview.rows("without_edges"))
    if alone:
        lines.append(turn.say("alone", nodes=_cited(alone), more=_more(turn, overview)))
    return "\n".join(lines)


def _overview(turn: RulesTurn) -> ToolTables:
    return turn.checked(turn.read("read_graph_overview"))


def _flow(turn: RulesTurn, answers: Sequence[ToolTables]) -> list[str]:
    """Return the edges that follow from the entry that leads to most nodes."""
    longest = max(answers, key=lambda answer: len(answer.rows("nodes")), default=ToolTables())
    lines = edge_lines(longest)
    far = [key_of(row) for row in longest.rows("nodes") if row.get("depth") == REACH]
    if far and len(lines) < MAX_FLOW:
        further = turn.read_all(*(around(key, REACH, "out", 30) for key in far[:MAX_ENTRIES]))
        lines = list(dict.fromkeys([*lines, *(line for answer in further for line in edge_lines(answer))]))
    return lines[:MAX_FLOW]


def _beginnings(overview: ToolTables) -> list[Row]:
    """Return the entries that begin the flow, else all."""
    entries = _without_notes(overview.rows("entry_points"))
    found = [row for row in entries if _BEGINS.search(f"{cell(row.get('type'))} {cell(row.get('name'))}")]
    return found or entries


def _without_notes(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get("type") not in NOTES]


def _sizes(turn: RulesTurn, overview: ToolTables) -> str:
    sheets = overview.rows("sheets")
    counts = ["" if row.get("nodes") is None else f": {row['nodes']}" for row in sheets]
    shown = [plain(cell(row.get("sheet")), 80) + count for row, count in zip(sheets, counts, strict=True)]
    nodes, edges = overview.number("nodes") or 0, overview.number("edges") or 0
    return turn.say("sizes", nodes=nodes, edges=edges, sheets=len(sheets), list=", ".join(shown[:10]))


def _types_used(overview: ToolTables) -> str:
    rows = overview.rows("types")
    shown = [f"{code(cell(row.get('type')))} ({cell(row.get('nodes'))})" for row in rows[:SHOWN_TYPES]]
    return ", ".join(shown) + (", …" if len(rows) > SHOWN_TYPES else "")


def _cited(rows: Sequence[Row]) -> str:
    return ", ".join(cite_row(row, with_type=False) for row in rows[:10])


def _more(turn: RulesTurn, overview: ToolTables) -> str:
    note = next((n for n in overview.notes if n.endswith(" more without_edges.")), "")
    return turn.say("and_more", count=note.split(" ", 1)[0]) if note[:1].isdigit() else ""


def starts(turn: RulesTurn) -> str:
    """Say where the graph begins."""
    begins = _beginnings(_overview(turn))
    return turn.say("starts_at", nodes=_cited(begins)) if begins else turn.say("no_nodes", of="")


def unconnected(turn: RulesTurn) -> str:
    """Say which nodes have no edge; notes are no nodes of the flow."""
    overview = _overview(turn)
    rows = _without_notes(overview.rows("without_edges"))
    is_sample = any(note.startswith("The graph is large") for note in overview.notes)
    caution = f"\n{turn.say('sampled')}" if is_sample else ""
    if not rows:
        return turn.say("none_alone") + caution
    more = _more(turn, overview)
    return f"{turn.say('these_alone')}\n{bullets([cite_row(row) for row in rows])}\n{more}".strip() + caution


def count(turn: RulesTurn) -> str:
    """Say how many nodes (of a type, on a sheet), edges, types or sheets there are."""
    overview, types = overview_and_types(turn)
    match turn.request.options.get("what", "nodes"):
        case "types":
            return turn.say("count_types", used=len(overview.rows("types")), known=len(types))
        case "sheets":
            return list_sheets(turn)
        case _:
            kind, sheet, of = _chosen(turn, overview, types)
    if not of:
        return turn.say("count_all", nodes=overview.number("nodes") or 0, edges=overview.number("edges") or 0)
    rows, total = _listed(turn, kind, sheet)
    return turn.say("count_of", count=f"≥ {len(rows)}" if total is None else total, of=of)


def list_sheets(turn: RulesTurn) -> str:
    """Say which sheets there are."""
    rows = _overview(turn).rows("sheets")
    counts = [turn.say("nodes_on_it", count=r["nodes"]) if r.get("nodes") is not None else "" for r in rows]
    lines = [plain(cell(r.get("sheet")), 80) + count for r, count in zip(rows, counts, strict=True)]
    return f"{turn.say('sheets', count=len(rows))}\n{bullets(lines)}"


def list_types(turn: RulesTurn) -> str:
    """Say which node types there are."""
    rows = read_types(turn)
    return f"{turn.say('types', count=len(rows))}\n{type_lines(rows)}"


def describe_type(turn: RulesTurn, mention: EntityMention | None = None) -> str | None:
    """Say what a type is: the one mentioned, else that of the question."""
    mention = mention or turn.request.mention("type")
    if mention is None:
        return None
    row = the_type(turn, mention, read_types(turn))
    config = turn.checked(turn.read("read_node_config", typeKey=cell(row.get("type"))))
    description = config.text_of("description") or turn.say("no_description")
    name, kind = plain(config.text_of("name"), 80), code(config.text_of("type"))
    category, origin = (plain(config.text_of(field), 60) for field in ("category", "origin"))
    count = config.number("nodes_here") or 0
    lines = [f"**{name}** ({kind}): {plain(description)}"]
    lines.append(turn.say("type_facts", category=category, origin=origin, count=count))
    if config.text_of("handles"):
        lines.append(turn.say("handles", handles=code(config.text_of("handles"))))
    if config.text_of("process"):
        lines.append(f"{turn.say('its_code')}\n{fenced(config.text_of('process')[:1500])}")
    return "\n".join(lines)


def list_nodes(turn: RulesTurn) -> str:
    """Name the nodes of a type, of a sheet, or of the graph."""
    kind, sheet, of = _chosen(turn, *overview_and_types(turn))
    rows, total = _listed(turn, kind, sheet)
    if not rows:
        return turn.say("no_nodes", of=of)
    text = "nodes_at_least" if total is None else "nodes_listed" if total == len(rows) else "nodes_of_more"
    head = turn.say(text, count=len(rows), total=total, of=of)
    return f"{head}\n{bullets([cite_row(row) for row in rows])}"


def _chosen(turn: RulesTurn, overview: ToolTables, types: Sequence[Row]) -> tuple[str, str, str]:
    """Return the type and the sheet that a request names, empty where none, and how to say both."""
    kind, sheet = turn.request.mention("type"), turn.request.mention("sheet")
    type_key = cell(the_type(turn, kind, types).get("type")) if kind else ""
    label = the_sheet(turn, sheet, overview) if sheet else ""
    of = turn.say("of_type", type=code(type_key)) if kind else ""
    return type_key, label, of + (turn.say("on_sheet", sheet=plain(label, 80)) if sheet else "")


def _listed(turn: RulesTurn, kind: str, sheet: str) -> tuple[tuple[Row, ...], int | None]:
    """Return nodes of a type and a sheet, and how many there are (None: more than were counted)."""
    answer = turn.checked(turn.read_all(listing(kind, sheet, LISTED))[0])
    rows = answer.rows("found")
    left = next((found for note in answer.notes if (found := _LEFT.match(note))), None)
    if left is None:
        return rows, len(rows)
    return rows, None if left["least"] else len(rows) + int(left["count"])


def all_keys(turn: RulesTurn) -> tuple[list[str], int | None, str]:
    """Return the nodes of the sheet named or of the graph, how many there are, and how to say which."""
    overview = _overview(turn)
    _, sheet, of = _chosen(turn, overview, ())
    rows, total = _listed(turn, "", sheet)
    if total is None or len(rows) < total:  # a call lists so many at most: one for each type
        kinds = [cell(row.get("type")) for row in overview.rows("types")[:MAX_CALLS]]
        answers = turn.read_all(*(listing(kind, sheet, LISTED) for kind in kinds))
        rows = tuple(row for answer in answers for row in answer.rows("found"))
    return list(dict.fromkeys(map(key_of, rows))), total, of
