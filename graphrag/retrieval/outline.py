"""Writes an outline of a whole graph: sizes, types, names, flow and nodes without edges.

It answers questions about the whole graph. Every list is complete, so that a model can count its
entries. Text written by people is always inside table cells.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from datasources.base import GraphDataSource
from datasources.text import node_label
from datasources.types import Edge, Graph, Node
from graphrag.i18n import Language
from graphrag.prompts.library import context_phrase
from graphrag.retrieval.context_rows import MAX_NAME_CHARS, MAX_TYPE_CHARS, says_same
from tools.compact import cut, cut_name, sheet_label
from tools.read_tools.views import digest, table
from tools.toon import encode

MAX_NODES = 200
NOTE_CHARS = (160, 80, 30, 0)  # characters of a node without edges; the largest that fits is used


async def build_outline(
    source: GraphDataSource,
    graph: Graph,
    *,
    language: Language,
    budget_tokens: int,
    count_tokens: Callable[[str], int],
) -> str | None:
    """Returns the outline of a graph, or None if it is too large or a key contains whitespace.

    Raises: GraphNotFound.
    """
    stats = await source.get_stats(graph.key)
    if not 0 < stats.nodes <= MAX_NODES:
        return None
    nodes = await source.get_nodes(graph.key)
    edges = await source.get_edges(graph.key)
    if any(not node.key or node.key.split() != [node.key] for node in nodes):
        return None
    head: dict[str, Any] = {
        "graph": graph.key,
        "name": cut_name(graph.name, 120),
        "description": cut(graph.description or "", 400) or None,
        "nodes": stats.nodes,
        "edges": stats.edges,
    }
    header = encode({name: value for name, value in head.items() if value is not None})
    begin = [context_phrase("outline", language), header, _sheets(graph, nodes)]
    end = [*_names(nodes), *_flow(edges)]
    for chars in (*NOTE_CHARS, None):  # None: also without the keys of each type
        more = _loose(nodes, edges, chars) if chars else []
        text = "\n".join([*begin, _types(nodes, with_keys=chars is not None), *end, *more])
        if count_tokens(text) <= budget_tokens:
            return text
    return None


def _types(nodes: Sequence[Node], *, with_keys: bool) -> str:
    keys: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        keys[node.type].append(node.key)
    ordered = sorted(keys.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    rows = [
        {"type": cut(t, MAX_TYPE_CHARS), "nodes": len(k), "keys": " ".join(k)} for t, k in ordered
    ]
    return table("types", rows, ["type", "nodes", *(["keys"] if with_keys else [])])


def _sheets(graph: Graph, nodes: Sequence[Node]) -> str:
    count = Counter(node.sheet for node in nodes)
    sheets = dict.fromkeys([*graph.sheets_list, *count])
    rows = [{"sheet": sheet_label(graph, sheet), "nodes": count[sheet]} for sheet in sheets]
    return table("sheets", rows, ["sheet", "nodes"])


def _names(nodes: Sequence[Node]) -> list[str]:
    named = [(node.key, node_label(node)) for node in nodes]
    rows = [
        {"_key": k, "name": cut_name(n, MAX_NAME_CHARS)} for k, n in named if not says_same(k, n)
    ]
    return [table("names", rows, ["_key", "name"])] if rows else []


def _flow(edges: Sequence[Edge]) -> list[str]:
    """Returns a table with every edge once, as paths: each key of a path leads to the next."""
    by_label: dict[str | None, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    by_label[None] = defaultdict(list)  # the main flow comes first
    for edge in edges:
        label = None if edge.label is None else cut_name(edge.label, MAX_NAME_CHARS)
        by_label[label][edge.source].append(edge.target)
    rows = [
        {"path": " ".join(path), "label": label}
        for label, onward in by_label.items()
        for path in paths(onward)
    ]
    return [table("flow", rows, ["path", "label"])] if rows else []


def paths(onward: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Returns paths that together use every link once; paths from nodes without incoming links
    come first.
    """
    left = {source: list(reversed(targets)) for source, targets in onward.items()}
    entered = {target for targets in onward.values() for target in targets}
    all_paths: list[list[str]] = []
    for start in sorted(left, key=lambda source: source in entered):
        while left[start]:
            path = [start]
            while left.get(path[-1]):
                path.append(left[path[-1]].pop())
            all_paths.append(path)
    return all_paths


def _loose(nodes: Sequence[Node], edges: Sequence[Edge], chars: int) -> list[str]:
    tied = {key for edge in edges for key in (edge.source, edge.target)}
    rows = [{"_key": n.key, "holds": digest(n, chars)} for n in nodes if n.key not in tied]
    return [table("without_edges", rows, ["_key", "holds"])] if rows else []
