"""Answers questions about sets ("which nodes call X", "how many…") with complete lists.

Used for small graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from datasources.text import node_label
from datasources.types import Node
from graphrag.i18n import Language
from graphrag.prompts.library import context_phrase
from graphrag.retrieval.context import WholeGraph
from graphrag.retrieval.context_rows import MAX_NAME_CHARS, says_same
from tools.compact import cut_name
from tools.node_sets import NodeSet, asks_for_set, distinct, sets_in
from tools.toon import encode_table

LIST_SHARE = 0.4  # maximum share of a context's budget for complete lists


def complete_lists(
    question: str,
    graph: WholeGraph,
    *,
    language: Language,
    budget_tokens: int,
    count_tokens: Callable[[str], int],
) -> str:
    """Returns the complete lists that a question asks for, with their counts; "" if none fits."""
    if not asks_for_set(question):
        return ""
    nodes = {node.key: node for node in graph.nodes}
    parts: list[str] = []
    left = budget_tokens
    node_sets = [one for one in sets_in(question, graph.nodes, graph.edges) if one.members]
    for node_set in distinct(node_sets):
        facts = {"n": len(node_set.members), "all": len(nodes), "what": node_set.name}
        heading = context_phrase("set", language, **facts)
        text = f"{heading}\n{_table([nodes[key] for key in node_set.members], node_set)}"
        size = count_tokens(text)
        if size <= left:
            parts.append(text)
            left -= size
    return "\n\n".join(parts)


def _table(nodes: Sequence[Node], node_set: NodeSet) -> str:
    labels = {node.key: node_label(node) for node in nodes}
    rows = [
        {
            "_key": key,
            "name": None if says_same(key, label) else cut_name(label, MAX_NAME_CHARS),
            "holds": node_set.members[key] or None,
        }
        for key, label in labels.items()
    ]
    columns = [name for name in ("_key", "name", "holds") if any(row[name] for row in rows)]
    return encode_table(None, rows, columns)
