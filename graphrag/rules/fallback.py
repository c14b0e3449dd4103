"""Answers what fits no pattern with what the search finds: nodes, the lines that hold the words, edges."""

from __future__ import annotations

import re

from datasources.text import tokenize
from graphrag.rules.markup import bullets, cite_row, code, edge_lines, plain
from graphrag.rules.patterns import grammar
from graphrag.rules.tool_tables import Row, cell, key_of
from graphrag.rules.turn_state import RulesTurn
from tools.compact import squeeze

SHOWN = 3
MAX_QUERY = 900
_PIECES = re.compile(r"\n|,(?=[\w.]+:)|(?<=[.!?]) ")
_WORD = re.compile(r"\w[\w.-]*")


def search(turn: RulesTurn, question: str) -> str:
    """Name the two or three nodes that match best and what in them does, and the edges among them."""
    common = grammar("en").listed("common_list") | grammar("fr").listed("common_list")
    few = {token for word in common for token in tokenize(word)}
    distinct = [word for word in _WORD.findall(question) if not few.issuperset(tokenize(word))]
    words = {token for word in distinct for token in tokenize(word)}
    query = (" ".join(distinct) or question)[:MAX_QUERY]
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
