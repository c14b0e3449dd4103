"""Builds the rows for nodes, notes and types in the tables of a context. Long texts are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasources.text import letters, node_label
from datasources.types import Graph, Node, NodeTypeConfig, ScoredNode
from tools.compact import compact_handles, cut, cut_name, other_cells, sheet_label
from tools.node_meaning import NodeFact, facts_of, line_of, write_facts
from tools.node_meaning.writing import NO_WORDS, shorten
from tools.secret_texts import redacted

MAX_NAME_CHARS = 80
MAX_TYPE_CHARS = 120
MAX_HANDLES_CHARS = 240
MAX_DESCRIPTION_CHARS = 160
MAX_AROUND = 12  # nodes listed as lying on a note

DATA_CHARS = 400  # default length of the text about a node's data

Row = dict[str, Any]
_REASONS = {"name-vector": "name", "refers-to": "refers to", "referred-by": "referred to by"}


def node_row(
    scored: ScoredNode,
    config: NodeTypeConfig | None,
    graph: Graph,
    *,
    truncate_process: int,
    truncate_data: int,
    words: frozenset[str] = NO_WORDS,
    facts: Sequence[NodeFact] | None = None,
) -> Row:
    """Returns the row of a node.

    `config` is its type, if it is stored or built in; `words` are stems of the question; `facts`
    are the facts in its data, if they were read before. Units: characters.
    """
    node = scored.node
    label = node_label(node)
    own_handles = node.handles and (config is None or node.handles != config.node.handles)
    return {
        "_key": node.key,
        "type": cut(node.type, MAX_TYPE_CHARS),
        "sheet": sheet_label(graph, node.sheet),
        "process": process_cell(node.process, truncate_process, words),
        "name": None if says_same(node.key, label) else cut_name(label, MAX_NAME_CHARS),
        "data": write_facts(facts_of(node) if facts is None else facts, truncate_data, words),
        **other_cells(node, truncate_data),
        "handles": cut(compact_handles(node.handles), MAX_HANDLES_CHARS) if own_handles else None,
        "why": why(scored),
    }


def process_cell(code: str | None, limit: int, words: frozenset[str] = NO_WORDS) -> str | None:
    """Returns a node's code, or its beginning and the passage about the question if too long."""
    if not code:
        return None
    text = redacted(code).text
    return text if len(text) <= limit else shorten(text, limit, words)


def brief_row(node: Node, facts: Sequence[NodeFact]) -> Row:
    """Returns the row of a node shown in one line: key, name, type and what it does."""
    label = node_label(node)
    return {
        "_key": node.key,
        "name": None if says_same(node.key, label) else cut_name(label, MAX_NAME_CHARS),
        "type": cut(node.type, MAX_TYPE_CHARS),
        "does": line_of(facts),
    }


def note_row(node: Node, facts: Sequence[NodeFact], around: Sequence[str]) -> Row:
    """Returns the row of a note or a frame: its text and the keys of the nodes on it."""
    more = f" …+{len(around) - MAX_AROUND}" if len(around) > MAX_AROUND else ""
    label = node_label(node)
    return {
        "_key": node.key,
        "says": line_of(facts) or cut_name(label, MAX_NAME_CHARS),
        "around": ", ".join(around[:MAX_AROUND]) + more or None,
    }


def says_same(key: str, name: str) -> bool:
    """Returns True if a name only repeats the last part of a key: `api-call` and `API Call`."""
    return letters(name) in (letters(key), letters(key.rpartition(".")[2]))


def type_row(config: NodeTypeConfig, *, truncate_process: int, with_process: bool) -> Row:
    """Returns the row of a node type, with its code if `with_process` is set."""
    code = config.node.process if with_process else None
    name = config.display_name
    return {
        "type": cut(config.type, MAX_TYPE_CHARS),
        "name": None if says_same(config.type, name) else cut_name(name, MAX_NAME_CHARS),
        "description": cut_name(config.description, MAX_DESCRIPTION_CHARS) or None,
        "handles": cut(compact_handles(config.node.handles), MAX_HANDLES_CHARS) or None,
        "process": cut(code, truncate_process) if code else None,
    }


def why(scored: ScoredNode) -> str:
    """Returns a node's score (best: 100) and the reasons: `87 text+vector`, `31 near fetch-api`.

    If no node is similar to the question, scores mean nothing and `weak` is written instead.
    """
    short = dict.fromkeys(map(_short_reason, scored.reasons))
    score = "weak" if scored.weak else str(round(scored.score * 100))
    return f"{score} {'+'.join(short)}".strip()


def _short_reason(reason: str) -> str:
    kind, colon, key = reason.partition(":")
    return f"{_REASONS.get(kind, kind)} {key}" if colon else _REASONS.get(reason, reason)
