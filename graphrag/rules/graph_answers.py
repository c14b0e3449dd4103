"""Answers about the graph as a whole, and what the search finds for all that fits no pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence

from datasources.text import tokenize
from graphrag.rules.markup import bullets, cite_row, code, edge_lines, plain
from graphrag.rules.patterns import grammar
from graphrag.rules.resolver import NOTES, read_types, the_type, type_lines
from graphrag.rules.tool_tables import Row, ToolTables, cell, key_of
from graphrag.rules.turn_state import RulesTurn, around, listing
from tools.compact import squeeze

REACH = 3
LISTED = 50
MAX_ENTRIES, MAX_FLOW, MAX_NOTES = 4, 15, 5
_BEGINS = re.compile(r"trigger|start|entry|inject|webhook|form\b|\bin\b", re.IGNORECASE)
"""Types and names of nodes by which workflows begin; other entries only feed them."""

_NOTE = re.compile(r"^'?text:'?[#\s]*")
MAX_QUERY, SHOWN = 900, 3
_PIECES = re.compile(r"\n|,(?=[\w.]+:)|(?<=[.!?]) ")
_WORD = re.compile(r"\w[\w.-]*")
_LEFT = re.compile(r"(?:at least )?(?P<count>\d+) more: the same call")


def describe_graph(turn: RulesTurn) -> str:
    """Say what the graph is for, as its name, description and notes say, and how it runs from its start."""
    overview = turn.read("read_graph_overview")
    begins = _beginnings(overview)
    flows = [around(key_of(row), REACH, "out", 30) for row in begins[:MAX_ENTRIES]]
    has_notes = any(row.get("type") == "note" for row in overview.rows("types"))
    answers = turn.read_all(*flows, *([listing(MAX_NOTES, typeKey="note")] if has_notes else []))
    description = plain(overview.text_of("description"))
    lines = [f"**{plain(overview.text_of('name'), 120)}**" + (f": {description}" if description else "")]
    lines.append(sizes(turn, overview))
    notes = [cell(row.get("holds")) for answer in answers[len(flows) :] for row in answer.rows("found")]
    if any(notes):
        lines += [turn.say("notes"), bullets([plain(_NOTE.sub("", text), 160) for text in notes if text])]
    if begins:
        longest = max(answers[: len(flows)], key=lambda answer: len(answer.rows("nodes")))
        far = [key_of(row) for row in longest.rows("nodes") if row.get("depth") == REACH][:MAX_ENTRIES]
        further = turn.read_all(*(around(key, REACH, "out", 30) for key in far))
        flow = list(dict.fromkeys(line for answer in (longest, *further) for line in edge_lines(answer)))
        lines += [
            turn.say("starts_at", nodes=_cited(begins)),
            *([turn.say("flow"), bullets(flow[:MAX_FLOW])] if flow else []),
        ]
    alone = _without_notes(overview.rows("without_edges"))
    if alone:
        lines.append(turn.say("alone", nodes=_cited(alone)))
    return "\n".join(lines)


def _beginnings(overview: ToolTables) -> list[Row]:
    """Return the entries that begin the flow, else all."""
    entries = _without_notes(overview.rows("entry_points"))
    found = [row for row in entries if _BEGINS.search(f"{cell(row.get('type'))} {cell(row.get('name'))}")]
    return found or entries


def _without_notes(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get("type") not in NOTES]


def _cited(rows: Sequence[Row]) -> str:
    return ", ".join(cite_row(row, with_type=False) for row in rows[:9]) + (", …" if len(rows) > 9 else "")


def sizes(turn: RulesTurn, overview: ToolTables) -> str:
    """Return how many nodes, edges and sheets there are, and which sheets."""
    sheets = overview.rows("sheets")
    counts = ["" if row.get("nodes") is None else f": {row['nodes']}" for row in sheets]
    shown = [plain(cell(row.get("sheet")), 80) + count for row, count in zip(sheets, counts, strict=True)]
    nodes, edges = overview.fields.get("nodes", 0), overview.fields.get("edges", 0)
    return turn.say("sizes", nodes=nodes, edges=edges, sheets=len(sheets), list=", ".join(shown[:10]))


def list_types(turn: RulesTurn) -> str:
    """Say which node types there are."""
    rows = read_types(turn)
    return f"{turn.say('types', count=len(rows))}\n{type_lines(rows)}"


def count(turn: RulesTurn) -> str:
    """Say how many nodes there are: of a type, on a sheet, or with edges and sheets of all."""
    if not {"type", "sheet"} & turn.request.spans.keys():
        return sizes(turn, turn.read("read_graph_overview"))
    return list_nodes(turn).partition(":\n")[0] + "."


def list_nodes(turn: RulesTurn) -> str:
    """Name the nodes of a type, of a sheet, or of the graph."""
    rows, left, of = _listed(turn)
    return f"{turn.say('count_of', count=f'{len(rows)}{left}', of=of)}:\n{bullets(list(map(cite_row, rows)))}"


def _listed(turn: RulesTurn) -> tuple[tuple[Row, ...], str, str]:
    """Return the nodes of the type and sheet that are named, how many more there are, and of what."""
    kind, sheet = turn.request.mention("type"), turn.request.text("sheet")
    key = the_type(turn, kind) if kind else ""
    answer = turn.checked(turn.read_all(listing(LISTED, typeKey=key, sheetId=sheet))[0])
    left = next((found["count"] for note in answer.notes if (found := _LEFT.match(note))), "")
    of = turn.say("of_type", type=code(key)) if key else ""
    of += turn.say("on_sheet", sheet=plain(sheet, 80)) if sheet else ""
    return answer.rows("found"), f" + {left}" if left else "", of


def all_keys(turn: RulesTurn) -> tuple[list[str], str]:
    """Return the nodes of the sheet named or of the graph, and how to say which; ends the handler if many."""
    rows, left, of = _listed(turn)
    if left or not rows:
        turn.stop(turn.say("too_many_to_list" if left else "no_nodes", listed=len(rows), of=of))
    return list(map(key_of, rows)), of


def search(turn: RulesTurn) -> str:
    """Name the two or three nodes that match best and what in them does, and the edges among them."""
    question = turn.conversation.question.strip()[:MAX_QUERY]
    common = [*grammar("en").listed("common"), *grammar("fr").listed("common")]
    few = {token for word in common for token in tokenize(word)}
    distinct = [word for word in _WORD.findall(question) if not few.issuperset(tokenize(word))]
    words = {token for word in distinct for token in tokenize(word)}
    query = " ".join(distinct) or question
    found = turn.read("search_nodes", query=query, maxResults=10).rows("found") if query.strip() else ()
    keys = [key_of(row) for row in found if _is_hit(row)][:SHOWN]
    if not keys:
        return turn.say("nothing_found", query=code(question[:120]))
    shown = turn.read("read_subgraph", nodeKeys=keys, fields=["data", "process"])
    rows = sorted(shown.rows("nodes"), key=lambda row: keys.index(key_of(row)))
    edges = edge_lines(shown)[:SHOWN]
    among = f"\n{turn.say('edges_among')}\n{bullets(edges)}" if edges else ""
    lines = [cite_row(row) + _excerpt(row, words) for row in rows]
    return f"{turn.say('found')}\n{bullets(lines)}{among}\n{turn.say('ask_more')}"


def _is_hit(row: Row) -> bool:
    """Return whether words or meaning found a node, rather than its neighbours."""
    return row.get("score") != "weak" and bool({"text", "vector"} & set(cell(row.get("why")).split("+")))


def _excerpt(row: Row, words: set[str]) -> str:
    """Return the line of the node's code or data that shares most words with the question."""
    texts = [cell(row.get(name)) for name in ("process", "data")]
    pieces = [piece for text in texts for piece in _PIECES.split(text) if piece.strip()]
    best = max(pieces, key=lambda piece: len(words & set(tokenize(piece))), default="")
    shown = code(plain(squeeze(best).strip(" ,/"), 160)) if words & set(tokenize(best)) else ""
    return f": {shown}" if shown else ""
