"""Answers to what fits no known question: the nodes whose words match, from the context or a search."""

from __future__ import annotations

import re
from collections.abc import Sequence

from datasources.text import tokenize
from graphrag.offline.desk import Desk
from graphrag.offline.flow_answers import edge_lines
from graphrag.offline.intents import Search
from graphrag.offline.readings import Reading, Row, Table, cell
from graphrag.offline.shown import bullets, cite_row, code, plain
from tools.compact import squeeze

SHOWN = 5
_PIECES = re.compile(r"\n|,(?=[\w.]+:)|(?<=[.!?]) ")
_WORD = re.compile(r"\w[\w.-]*")
_COMMON = frozenset(
    tokenize(
        "where is the a an of in on to and or what which who how does do are there happens happen when why"
        " node nodes"
        " find search ou est le la les un une des dans quel quelle quels qui que se passe quand noeud"
        " pourquoi du de"
    )
)


def search(desk: Desk, wanted: Search) -> str:
    """Name the nodes that match best and what in them does. Raises: Needs, CannotGoOn."""
    telling = [word for word in _WORD.findall(wanted.query) if not _COMMON.issuperset(tokenize(word))]
    words = {token for word in telling for token in tokenize(word)}
    rows = _of_context(desk, words)
    links = _links(desk, rows[:SHOWN])
    if not rows:
        query = " ".join(telling) or wanted.query
        rows = list(desk.read("search_nodes", query=query, limit=10).rows("found"))
    if not rows:
        return desk.say("nothing_found", query=code(wanted.query[:120]))
    lines = [cite_row(row) + _excerpt(row, words) for row in rows[:SHOWN]]
    between = f"\n{desk.say('edges_among')}\n{bullets(links)}" if links else ""
    return f"{desk.say('found')}\n{bullets(lines)}{between}\n{desk.say('ask_more')}"


def _of_context(desk: Desk, words: set[str]) -> list[Row]:
    """Return the context's nodes that share a telling word with the question, else those near in meaning.

    Common words find nodes too, and neighbours come along with them: neither answers anything.
    """
    nodes = desk.conversation.context.nodes
    sharing = [row for row in nodes if words & set(tokenize(_text(row)))]
    return sharing or [row for row in nodes if "vector" in cell(row.get("why")).split(" near ")[0]]


def _text(row: Row) -> str:
    return " ".join(cell(row.get(name)) for name in ("_key", "name", "type", "data", "process", "holds"))


def _excerpt(row: Row, words: set[str]) -> str:
    """Return the line of the node's code or data that shares most words with the question."""
    pieces = [
        piece
        for name in ("process", "data", "holds")
        for piece in _PIECES.split(cell(row.get(name)))
        if piece.strip()
    ]
    best = max(pieces, key=lambda piece: len(words & set(tokenize(piece))), default="")
    if not words & set(tokenize(best)):
        return ""
    return f": {code(plain(squeeze(best).strip(' ,/'), 160))}"


def _links(desk: Desk, rows: Sequence[Row]) -> list[str]:
    shown = Reading(
        tables={
            "nodes": Table(rows=tuple(rows), total=len(rows)),
            "edges": Table(rows=desk.conversation.context.edges, total=0),
        }
    )
    return edge_lines(shown)[:SHOWN]
