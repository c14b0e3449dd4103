"""Answers about the graph as a whole: what it is, how much it holds, its nodes, types and sheets."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphrag.offline.desk import Call, CannotGoOn, Desk
from graphrag.offline.flow_answers import REACH, arrow, edge_lines
from graphrag.offline.intents import Count, DescribeType, ListNodes
from graphrag.offline.outlines import Link, flow_from
from graphrag.offline.readings import Reading, Row, cell
from graphrag.offline.shown import bullets, cite_row, code, fenced, plain
from graphrag.offline.type_names import (
    find_type,
    overview_and_types,
    read_types,
    sheet_row,
    the_sheet,
    the_type,
    type_lines,
)

SHOWN_TYPES = 12
LISTED = 50
MAX_ENTRIES = 4
MAX_FLOW = 15
_BEGINS = re.compile(r"trigger|start|entry|inject|webhook|form\b|\bin\b", re.IGNORECASE)
"""Types and names of nodes by which workflows are begun; other entries only feed them."""


def describe_graph(desk: Desk) -> str:
    """Say what the graph is made of and how it runs from where it begins. Raises: Needs, CannotGoOn."""
    outline = desk.conversation.context.outline
    overview = outline.overview if outline else desk.read("read_graph_overview")
    failed(desk, overview)
    lines = [_title(overview), _sizes(desk, overview)]
    lines.append(desk.say("types_used", types=_types_used(overview)) if overview.rows("types") else "")
    entries = overview.rows("entry_points")
    if entries:
        lines.append(desk.say("starts_at", nodes=_cited(entries)))
        lines.append(_flow_of(desk, outline.links, entries) if outline else _flow(desk, entries))
    if overview.rows("hubs"):
        lines.append(desk.say("hubs", nodes=_cited(overview.rows("hubs")[:5])))
    alone = overview.rows("without_edges")
    if alone:
        lines.append(desk.say("alone", nodes=_cited(alone), more=_more(desk, overview, "without_edges")))
    return "\n".join(line for line in lines if line)


def failed(desk: Desk, reading: Reading) -> None:
    """Raises: CannotGoOn when a read that cannot fail for its arguments has failed."""
    if reading.is_error:
        raise CannotGoOn(desk.say("read_failed", reason=plain(reading.text or "-", 300)))


def _title(overview: Reading) -> str:
    description = overview.text_of("description")
    return f"**{plain(overview.text_of('name'), 120)}**" + (f": {plain(description)}" if description else "")


def _sizes(desk: Desk, overview: Reading) -> str:
    sheets = overview.rows("sheets")
    shown = ", ".join(
        plain(cell(row.get("sheet")), 80) + (f": {row['nodes']}" if row.get("nodes") is not None else "")
        for row in sheets[:10]
    )
    return desk.say(
        "sizes",
        nodes=overview.number("nodes") or 0,
        edges=overview.number("edges") or 0,
        sheets=len(sheets),
        list=shown,
    )


def _types_used(overview: Reading) -> str:
    rows = overview.rows("types")
    shown = [f"{code(cell(row.get('type')))} ({cell(row.get('nodes'))})" for row in rows[:SHOWN_TYPES]]
    return ", ".join(shown) + (", …" if len(rows) > SHOWN_TYPES else "")


def _cited(rows: Sequence[Row]) -> str:
    return ", ".join(cite_row(row, with_type=False) for row in rows)


def _more(desk: Desk, overview: Reading, name: str) -> str:
    note = next((n for n in overview.notes if n.endswith(f" more {name}.")), "")
    return desk.say("and_more", count=note.split(" ", 1)[0]) if note[:1].isdigit() else ""


def _flow_of(desk: Desk, links: Sequence[Link], entries: Sequence[Row]) -> str:
    """Return the edges that follow from the entry that leads furthest, of a graph that is known whole."""
    begins = [row for row in entries if _begins(row)] or list(entries)
    flows = [flow_from(cell(row.get("_key")), links, MAX_FLOW) for row in begins]
    longest = max(flows, key=len)
    return f"{desk.say('flow')}\n{bullets([arrow(*link) for link in longest])}" if longest else ""


def _flow(desk: Desk, entries: Sequence[Row]) -> str:
    """Return the edges that follow from the entry that leads to most nodes."""
    likely = sorted(entries, key=_begins, reverse=True)
    calls = [_walk_on(cell(row.get("_key"))) for row in likely[:MAX_ENTRIES]]
    readings = desk.read_all(*calls)
    begins = [r for r, row in zip(readings, likely, strict=False) if _begins(row)] or readings
    longest = max(begins, key=lambda reading: len(reading.rows("nodes")))
    lines = edge_lines(longest)
    far = [cell(row.get("_key")) for row in longest.rows("nodes") if row.get("depth") == REACH]
    if far and len(lines) < MAX_FLOW:
        further = desk.read_all(*(_walk_on(key) for key in far[:MAX_ENTRIES]))
        lines = list(dict.fromkeys([*lines, *(line for reading in further for line in edge_lines(reading))]))
    return f"{desk.say('flow')}\n{bullets(lines[:MAX_FLOW])}" if lines else ""


def _begins(row: Row) -> bool:
    return _BEGINS.search(f"{cell(row.get('type'))} {cell(row.get('name'))}") is not None


def _walk_on(key: str) -> Call:
    arguments = {"key": key, "depth": REACH, "direction": "out", "limit": 30}
    return Call(name="explore_neighborhood", arguments=arguments)


def count(desk: Desk, wanted: Count) -> str:
    """Say how many there are. Raises: Needs, CannotGoOn."""
    overview, types = overview_and_types(desk)
    failed(desk, overview)
    if wanted.type is not None:
        kind = the_type(desk, wanted.type, types)
        if wanted.sheet is not None:
            return list_nodes(desk, ListNodes(type=wanted.type, sheet=wanted.sheet))
        number = kind.get("nodes_here", 0)
        return desk.say("count_of_type", count=cell(number), type=code(cell(kind.get("type"))))
    if wanted.sheet is not None and wanted.what == "nodes":
        label = the_sheet(desk, wanted.sheet, overview)
        row = sheet_row(overview, label)
        if row.get("nodes") is None:
            return desk.say("sheet_not_counted", sheet=plain(label, 80))
        return desk.say("count_on_sheet", count=cell(row.get("nodes")), sheet=plain(label, 80))
    if wanted.what == "types":
        return desk.say("count_types", used=len(overview.rows("types")), known=len(types))
    if wanted.what == "sheets":
        return list_sheets(desk)
    return desk.say("count_all", nodes=overview.number("nodes") or 0, edges=overview.number("edges") or 0)


def list_sheets(desk: Desk) -> str:
    """Say which sheets there are. Raises: Needs, CannotGoOn."""
    overview = desk.read("read_graph_overview")
    failed(desk, overview)
    rows = overview.rows("sheets")
    lines = [
        plain(cell(row.get("sheet")), 80)
        + (desk.say("nodes_on_it", count=row["nodes"]) if row.get("nodes") is not None else "")
        for row in rows
    ]
    return f"{desk.say('sheets', count=len(rows))}\n{bullets(lines)}"


def unconnected(desk: Desk) -> str:
    """Say which nodes have no edge. Raises: Needs, CannotGoOn."""
    overview = desk.read("read_graph_overview")
    failed(desk, overview)
    rows = overview.rows("without_edges")
    sampled = any(note.startswith("The graph is large") for note in overview.notes)
    caution = f"\n{desk.say('sampled')}" if sampled else ""
    if not rows:
        return desk.say("none_alone") + caution
    more = _more(desk, overview, "without_edges")
    return f"{desk.say('these_alone')}\n{bullets([cite_row(row) for row in rows])}\n{more}".strip() + caution


def list_types(desk: Desk) -> str:
    """Say which node types there are. Raises: Needs, CannotGoOn."""
    rows = read_types(desk)
    return f"{desk.say('types', count=len(rows))}\n{type_lines(rows)}"


def describe_type(desk: Desk, wanted: DescribeType) -> str:
    """Say what a type is. Raises: Needs, CannotGoOn."""
    kind = find_type(wanted.type, desk.conversation.context.types)
    if isinstance(kind, list):
        kind = the_type(desk, wanted.type, read_types(desk))
    config = desk.read("read_node_config", type=cell(kind.get("type")))
    failed(desk, config)
    lines = [
        f"**{plain(config.text_of('name'), 80)}** ({code(config.text_of('type'))}): "
        f"{plain(config.text_of('description') or desk.say('no_description'), 600)}",
        desk.say(
            "type_facts",
            category=plain(config.text_of("category"), 60),
            origin=plain(config.text_of("origin"), 60),
            count=config.number("nodes_here") or 0,
        ),
    ]
    if config.text_of("handles"):
        lines.append(desk.say("handles", handles=code(config.text_of("handles"))))
    if config.text_of("process"):
        lines.append(f"{desk.say('its_code')}\n{fenced(config.text_of('process')[:1500])}")
    return "\n".join(lines)


def list_nodes(desk: Desk, wanted: ListNodes) -> str:
    """Name the nodes of a type, of a sheet, or of the graph. Raises: Needs, CannotGoOn."""
    overview, types = overview_and_types(desk)
    failed(desk, overview)
    arguments: dict[str, str | int] = {"limit": LISTED}
    total: int | None = overview.number("nodes")
    of = ""
    if wanted.type is not None:
        kind = the_type(desk, wanted.type, types)
        arguments |= {"query": query_of([kind]), "type": cell(kind.get("type"))}
        total = next((r.get("nodes") for r in overview.rows("types") if r.get("type") == kind.get("type")), 0)
        of += desk.say("of_type", type=code(cell(kind.get("type"))))
    else:
        arguments["query"] = query_of(overview.rows("types"))
    if wanted.sheet is not None:
        label = the_sheet(desk, wanted.sheet, overview)
        arguments["sheet"] = label
        on_sheet = sheet_row(overview, label)
        total = None if wanted.type is not None else on_sheet.get("nodes")
        of += desk.say("on_sheet", sheet=plain(label, 80))
    if total == 0:
        return desk.say("no_nodes", of=of)
    rows = desk.read("search_nodes", **arguments).rows("found")
    head = desk.say("nodes_listed", count=len(rows), of=of)
    if total is not None and total > len(rows):
        head = desk.say("nodes_of_more", count=len(rows), total=total, of=of)
    elif total is None and len(rows) >= LISTED:
        head = desk.say("nodes_at_least", count=len(rows), of=of)
    return f"{head}\n{bullets([cite_row(row) for row in rows])}" if rows else desk.say("no_nodes", of=of)


def query_of(types: Sequence[Row]) -> str:
    """Return words that every node of these types holds: the types' names."""
    words = dict.fromkeys(cell(row.get("type")) for row in types)
    return (" ".join(words) or "node")[:900]
