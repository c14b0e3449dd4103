"""Answers about all graphs of a workspace: what refers to a value, and what fits a question."""

from __future__ import annotations

from collections.abc import Sequence

from graphrag.rules.graph_answers import words_asked
from graphrag.rules.markup import bullets, code, plain
from graphrag.rules.turn_state import NotNamed, RulesTurn
from tools.answer_tables import Row, cell

TOOL = "search_workspace"
SHOWN = 30
_QUOTES = "\"'`“”«» "


def used_where(turn: RulesTurn) -> str:
    """Say which nodes of all graphs refer to a value; where none does, the question is searched for."""
    value = turn.request.text("value").strip(_QUOTES)
    if not value or TOOL not in turn.offered:
        raise NotNamed
    rows = turn.read(TOOL, query=value).rows("uses")
    if not rows:
        raise NotNamed
    graphs = len({cell(row.get("graph")) for row in rows})
    lines = [f"{_node(row)}: {code(cell(row.get('field')))}" for row in rows[:SHOWN]]
    return f"{turn.say('used_where', value=code(value), count=len(rows), graphs=graphs)}\n{bullets(lines)}"


def everywhere(turn: RulesTurn) -> str:
    """Name the nodes of all graphs that fit a question best, by graph."""
    question = turn.conversation.question.strip()[:900]
    words = " ".join(words_asked(turn)) or question
    found: Sequence[Row] = turn.read(TOOL, query=words).rows("found") if words else ()
    if not found:
        return turn.say("nothing_found", query=code(question[:120]))
    lines = [f"{_node(row)}: {plain(cell(row.get('holds')), 160)}" for row in found]
    return f"{turn.say('found_everywhere')}\n{bullets(lines)}"


def _node(row: Row) -> str:
    graph = cell(row.get("graph"))
    link = code(graph) if set("{}|\n") & set(graph) else f"{{{{graph:{graph}}}}}"
    return f"{link} · {plain(cell(row.get('name')), 80)}"
