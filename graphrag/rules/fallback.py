"""Answers what fits no pattern with what retrieval found: nodes, the line that holds the words, the edges."""

from __future__ import annotations

import re
from collections.abc import Sequence

from datasources.text import tokenize
from graphrag.rules.markup import bullets, cite_row, code, edge_lines, plain
from graphrag.rules.patterns import grammar
from graphrag.rules.tool_tables import Row, ToolTables, cell, key_of
from graphrag.rules.turn_state import RulesTurn
from tools.compact import squeeze

SHOWN = 3
MAX_QUERY = 900
_PIECES = re.compile(r"\n|,(?=[\w.]+:)|(?<=[.!?]) ")
_WORD = re.compile(r"\w[\w.-]*")


def search(turn: RulesTurn, question: str) -> str:
    """Name the two or three nodes that match best and what in them does, and the edges among them."""
    common = {token for word in _common() for token in tokenize(word)}
    distinct = [word for word in _WORD.findall(question) if not common.issuperset(tokenize(word))]
    words = {token for word in distinct for token in tokenize(word)}
    rows, edges = _of_context(turn, words), turn.conversation.edges
    if not rows:
        query = (" ".join(distinct) or question)[:MAX_QUERY]
        rows = (
            list(turn.read("search_nodes", query=query, maxResults=10).rows("found")) if query.strip() else []
        )
    if not rows:
        return turn.say("nothing_found", query=code(question[:120]))
    lines = [cite_row(row) + _excerpt(row, words) for row in rows[:SHOWN]]
    among = edge_lines(ToolTables(tables={"nodes": tuple(rows[:SHOWN]), "edges": edges}))[:SHOWN]
    between = f"\n{turn.say('edges_among')}\n{bullets(among)}" if among else ""
    return f"{turn.say('found')}\n{bullets(lines)}{between}\n{turn.say('ask_more')}"


def _common() -> frozenset[str]:
    return grammar("en").listed("common_list") | grammar("fr").listed("common_list")


def _of_context(turn: RulesTurn, words: set[str]) -> list[Row]:
    """Return the context's nodes that share a distinct word with the question, else those near in meaning.

    Common words find nodes too, and neighbours come along with them: neither answers anything.
    """
    nodes = turn.conversation.nodes
    sharing = [row for row in nodes if words & set(tokenize(_text(row)))]
    return sharing or [row for row in nodes if "vector" in cell(row.get("why")).split(" near ")[0]]


def _text(row: Row) -> str:
    return f"{key_of(row)} " + " ".join(
        cell(row.get(name)) for name in ("name", "type", "data", "process", "holds")
    )


def _excerpt(row: Row, words: set[str]) -> str:
    """Return the line of the node's code or data that shares most words with the question."""
    texts: Sequence[str] = [cell(row.get(name)) for name in ("process", "data", "holds")]
    pieces = [piece for text in texts for piece in _PIECES.split(text) if piece.strip()]
    best = max(pieces, key=lambda piece: len(words & set(tokenize(piece))), default="")
    shown = code(plain(squeeze(best).strip(" ,/"), 160)) if words & set(tokenize(best)) else ""
    return f": {shown}" if shown else ""
