"""Answers about the graph as a whole: what it does, how much it holds, its nodes, types and sheets."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphrag.rules.conversation import Call
from graphrag.rules.markup import bullets, cite, cite_row, code, ends_of, fenced, plain
from graphrag.rules.normalized_text import EntityMention
from graphrag.rules.resolver import (
    NOTES,
    find_type,
    overview_and_types,
    read_types,
    the_sheet,
    the_type,
    type_lines,
)
from graphrag.rules.tool_tables import Answer, Row, cell, key_of
from graphrag.rules.turn_state import MAX_CALLS, Turn

REACH = 3
LISTED = 50
MAX_ENTRIES, MAX_FLOW, MAX_NOTES, SHOWN_TYPES = 4, 15, 5, 12
_BEGINS = re.compile(r"trigger|start|entry|inject|webhook|form\b|\bin\b", re.IGNORECASE)
"""Types and names of nodes by which workflows begin; other entries only feed them."""


_NOTE = re.compile(r"^'?text:'?[#\s]*")


def neighborhood(key: str, depth: int, direction: str, limit: int) -> Call:
    """Return the call that reads what surrounds a node."""
    arguments = {"key": key, "depth": depth, "direction": direction, "limit": limit}
    return Call(name="explore_neighborhood", arguments=arguments)


def arrow(source: str, target: str, label: str) -> str:
    """Return an edge as a line."""
    return f"{cite(source)} → {cite(target)}" + (f" ({plain(label, 60)})" if label else "")


def edge_lines(answer: Answer) -> list[str]:
    """Return every edge of a neighbourhood as a line, those of nearer nodes first."""
    nodes = {key_of(row): row for row in answer.rows("nodes")}
    order = {key: place for place, key in enumerate(nodes)}
    edges = [(ends, row) for row in answer.rows("edges") if (ends := ends_of(row, nodes)) is not None]
    edges.sort(key=lambda edge: (order[edge[0][0]], order[edge[0][2]]))
    return [arrow(ends[0], ends[2], cell(row.get("label"))) for ends, row in edges]


def describe_graph(turn: Turn) -> str:
    """Say what the graph is for, as its name, description and notes say, and how it runs from its start."""
    overview = turn.checked(turn.read("read_graph_overview"))
    entries = sorted(_without_notes(overview.rows("entry_points")), key=_begins, reverse=True)
    begins = [row for row in entries if _begins(row)] or entries
    kinds = {cell(row.get("type")) for row in overview.rows("types")}
    walks = [neighborhood(key_of(row), REACH, "out", 30) for row in begins[:MAX_ENTRIES]]
    notes = [_search("note", "note", MAX_NOTES)] if "note" in kinds else []
    answers = turn.read_all(*walks, *notes) if walks or notes else []
    description = overview.text_of("description")
    lines = [
        f"**{plain(overview.text_of('name'), 120)}**" + (f": {plain(description)}" if description else "")
    ]
    lines.append(_sizes(turn, overview))
    if notes:
        texts = [cell(row.get("holds")) for row in answers[-1].rows("found")]
        lines += (
            [turn.say("notes"), bullets([plain(_NOTE.sub("", text), 160) for text in texts if text])]
            if any(texts)
            else []
        )
    if overview.rows("types"):
        lines.append(turn.say("types_used", types=_types_used(overview)))
    if begins:
        lines.append(turn.say("starts_at", nodes=_cited(begins)))
        flow = _flow(turn, answers[: len(walks)])
        lines += [turn.say("flow"), bullets(flow)] if flow else []
    alone = _without_notes(overview.rows("without_edges"))
    if alone:
        lines.append(turn.say("alone", nodes=_cited(alone), more=_more(turn, overview, "without_edges")))
    return "\n".join(lines)


def _flow(turn: Turn, answers: Sequence[Answer]) -> list[str]:
    """Return the edges that follow from the entry that leads to most nodes."""
    longest = max(answers, key=lambda answer: len(answer.rows("nodes")), default=Answer())
    lines = edge_lines(longest)
    far = [key_of(row) for row in longest.rows("nodes") if row.get("depth") == REACH]
    if far and len(lines) < MAX_FLOW:
        further = turn.read_all(*(neighborhood(key, REACH, "out", 30) for key in far[:MAX_ENTRIES]))
        lines = list(dict.fromkeys([*lines, *(line for answer in further for line in edge_lines(answer))]))
    return lines[:MAX_FLOW]


def _begins(row: Row) -> bool:
    return _BEGINS.search(f"{cell(row.get('type'))} {cell(row.get('name'))}") is not None


def _without_notes(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get("type") not in NOTES]


def _sizes(turn: Turn, overview: Answer) -> str:
    sheets = overview.rows("sheets")
    shown = ", ".join(
        plain(cell(row.get("sheet")), 80) + (f": {row['nodes']}" if row.get("nodes") is not None else "")
        for row in sheets[:10]
    )
    nodes, edges = overview.number("nodes") or 0, overview.number("edges") or 0
    return turn.say("sizes", nodes=nodes, edges=edges, sheets=len(sheets), list=shown)


def _types_used(overview: Answer) -> str:
    rows = overview.rows("types")
    shown = [f"{code(cell(row.get('type')))} ({cell(row.get('nodes'))})" for row in rows[:SHOWN_TYPES]]
    return ", ".join(shown) + (", …" if len(rows) > SHOWN_TYPES else "")


def _cited(rows: Sequence[Row]) -> str:
    return ", ".join(cite_row(row, with_type=False) for row in rows[:10])


def _more(turn: Turn, overview: Answer, name: str) -> str:
    note = next((n for n in overview.notes if n.endswith(f" more {name}.")), "")
    return turn.say("and_more", count=note.split(" ", 1)[0]) if note[:1].isdigit() else ""


def count(turn: Turn) -> str:
    """Say how many nodes (of a type, on a sheet), edges, types or sheets there are."""
    overview, types = overview_and_types(turn)
    kind, sheet = turn.request.mention("type"), turn.request.mention("sheet")
    what = turn.request.options.get("what", "nodes")
    if kind is not None:
        row = the_type(turn, kind, types)
        used = [r.get("nodes") for r in overview.rows("types") if r.get("type") == row.get("type")]
        return turn.say("count_of_type", count=used[0] if used else 0, type=code(cell(row.get("type"))))
    if sheet is not None:
        row = the_sheet(turn, sheet, overview)
        label = plain(cell(row.get("sheet")), 80)
        if row.get("nodes") is None:
            return turn.say("sheet_not_counted", sheet=label)
        return turn.say("count_on_sheet", count=cell(row.get("nodes")), sheet=label)
    if what == "types":
        return turn.say("count_types", used=len(overview.rows("types")), known=len(types))
    if what == "sheets":
        return list_sheets(turn)
    return turn.say("count_all", nodes=overview.number("nodes") or 0, edges=overview.number("edges") or 0)


def list_sheets(turn: Turn) -> str:
    """Say which sheets there are."""
    rows = turn.checked(turn.read("read_graph_overview")).rows("sheets")
    counts = [turn.say("nodes_on_it", count=r["nodes"]) if r.get("nodes") is not None else "" for r in rows]
    lines = [plain(cell(r.get("sheet")), 80) + count for r, count in zip(rows, counts, strict=True)]
    return f"{turn.say('sheets', count=len(rows))}\n{bullets(lines)}"


def unconnected(turn: Turn) -> str:
    """Say which nodes have no edge; notes are no nodes of the flow."""
    overview = turn.checked(turn.read("read_graph_overview"))
    rows = _without_notes(overview.rows("without_edges"))
    is_sample = any(note.startswith("The graph is large") for note in overview.notes)
    caution = f"\n{turn.say('sampled')}" if is_sample else ""
    if not rows:
        return turn.say("none_alone") + caution
    more = _more(turn, overview, "without_edges")
    return f"{turn.say('these_alone')}\n{bullets([cite_row(row) for row in rows])}\n{more}".strip() + caution


def starts(turn: Turn) -> str:
    """Say where the graph begins."""
    entries = _without_notes(turn.checked(turn.read("read_graph_overview")).rows("entry_points"))
    begins = [row for row in entries if _begins(row)] or entries
    return turn.say("starts_at", nodes=_cited(begins)) if begins else turn.say("no_nodes", of="")


def list_types(turn: Turn) -> str:
    """Say which node types there are."""
    rows = read_types(turn)
    return f"{turn.say('types', count=len(rows))}\n{type_lines(rows)}"


def describe_type_asked(turn: Turn) -> str | None:
    """Say what the type of a question is."""
    mention = turn.request.mention("type")
    return describe_type(turn, mention) if mention else None


def describe_type(turn: Turn, mention: EntityMention) -> str:
    """Say what a type is."""
    rows = read_types(turn)
    kind = find_type(mention, rows)
    row = the_type(turn, mention, rows) if isinstance(kind, list) else kind
    config = turn.checked(turn.read("read_node_config", type=cell(row.get("type"))))
    description = config.text_of("description") or turn.say("no_description")
    lines = [
        f"**{plain(config.text_of('name'), 80)}** ({code(config.text_of('type'))}): {plain(description)}",
        turn.say(
            "type_facts",
            category=plain(config.text_of("category"), 60),
            origin=plain(config.text_of("origin"), 60),
            count=config.number("nodes_here") or 0,
        ),
    ]
    if config.text_of("handles"):
        lines.append(turn.say("handles", handles=code(config.text_of("handles"))))
    if config.text_of("process"):
        lines.append(f"{turn.say('its_code')}\n{fenced(config.text_of('process')[:1500])}")
    return "\n".join(lines)


def list_nodes(turn: Turn) -> str:
    """Name the nodes of a type, of a sheet, or of the graph."""
    overview, types = overview_and_types(turn)
    kind, sheet = turn.request.mention("type"), turn.request.mention("sheet")
    of, type_key, label = "", "", ""
    total: int | None = overview.number("nodes")
    if kind is not None:
        type_key = cell(the_type(turn, kind, types).get("type"))
        total = next((r.get("nodes") for r in overview.rows("types") if r.get("type") == type_key), 0)
        of += turn.say("of_type", type=code(type_key))
    if sheet is not None:
        row = the_sheet(turn, sheet, overview)
        label = cell(row.get("sheet"))
        total = None if kind is not None else row.get("nodes")
        of += turn.say("on_sheet", sheet=plain(label, 80))
    if total == 0:
        return turn.say("no_nodes", of=of)
    query = type_key or _query(overview.rows("types"))
    rows = turn.read_all(_search(query, type_key, LISTED, label))[0].rows("found")
    if not rows:
        return turn.say("no_nodes", of=of)
    head = turn.say("nodes_listed", count=len(rows), of=of)
    if total is not None and total > len(rows):
        head = turn.say("nodes_of_more", count=len(rows), total=total, of=of)
    elif total is None and len(rows) >= LISTED:
        head = turn.say("nodes_at_least", count=len(rows), of=of)
    return f"{head}\n{bullets([cite_row(row) for row in rows])}"


def _search(query: str, kind: str, limit: int, sheet: str = "") -> Call:
    arguments = {"query": query, "limit": limit, "type": kind, "sheet": sheet}
    return Call(name="search_nodes", arguments={name: value for name, value in arguments.items() if value})


def _query(types: Sequence[Row]) -> str:
    """Return words that every node of these types holds: the types' names."""
    words = dict.fromkeys(cell(row.get("type")) for row in types)
    return (" ".join(words) or "node")[:900]


def list_all(turn: Turn, sheet: EntityMention | None) -> tuple[list[Row], int | None, str]:
    """Return the nodes of a sheet or of the graph, how many there should be, and how to name them."""
    overview = turn.checked(turn.read("read_graph_overview"))
    types = [row for row in overview.rows("types") if row.get("type")]
    of, label, total = "", "", overview.number("nodes")
    if sheet is not None:
        row = the_sheet(turn, sheet, overview)
        label, nodes = cell(row.get("sheet")), row.get("nodes")
        total = nodes if isinstance(nodes, int) else None
        of = turn.say("on_sheet", sheet=plain(label, 80))
    calls = [_search(_query(types), "", LISTED, label)]
    if (total or 0) > LISTED:  # a search lists so many nodes at most: one for each type
        kinds = [cell(row.get("type")) for row in types[:MAX_CALLS]]
        calls = [_search(kind, kind, LISTED, label) for kind in kinds]
    rows = [row for answer in turn.read_all(*calls) for row in answer.rows("found")]
    return rows, total, of
