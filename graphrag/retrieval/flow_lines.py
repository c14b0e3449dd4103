"""Writes edges as lines of a flow in walking order: `fetch --success--> parse --> store`.

Nodes are written by key; the node tables have their names. Keys and labels that contain an arrow or
a line break are quoted, so that the text of a node cannot be mistaken for a line of the flow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from datasources.types import Edge, Node
from graphrag.retrieval.context_rows import MAX_NAME_CHARS
from tools.checks.checked_graph import NO_STEPS
from tools.compact import cut_name
from tools.toon import compact_json, encode

ARROW = "-->"
_PLAIN = re.compile(r"[\w.,/()&+%?!=<>'-]+(?: [\w.,/()&+%?!=<>'-]+)*")


def walking_order(nodes: Sequence[Node], edges: Sequence[Edge]) -> list[str]:
    """Returns the keys of nodes in depth-first order from the nodes without incoming edges."""
    onward = _onward(edges)
    entered = {edge.target for edge in edges if edge.source != edge.target}
    order: dict[str, None] = {}
    starts = [node.key for node in nodes if node.key not in entered and node.key in onward]
    for start in (*starts, *(node.key for node in nodes)):
        waiting = [start]
        while waiting:
            key = waiting.pop()
            if key not in order:
                order[key] = None
                waiting += [edge.target for edge in reversed(onward.get(key, ()))]
    node_keys = {node.key for node in nodes}
    return [key for key in order if key in node_keys]


def flow_lines(nodes: Sequence[Node], edges: Iterable[Edge], order: Sequence[str]) -> list[str]:
    """Returns lines with each edge once, in walking order. Unbranched runs are one line."""
    by_key = {node.key: node for node in nodes}
    left = _onward([edge for edge in edges if edge.source in by_key and edge.target in by_key])
    names = {key: _written(key) for key in by_key}
    lines: list[str] = []
    for key in order:
        while left.get(key):
            line = names[key]
            at = key
            while left.get(at):
                edge = left[at].pop(0)
                line += f" {_arrow(edge, by_key[at])} {names[edge.target]}"
                at = edge.target
                if len(left.get(at, ())) > 1:  # a fork begins lines of its own
                    break
            lines.append(line)
    return lines


def unconnected(nodes: Sequence[Node], edges: Iterable[Edge]) -> list[str]:
    """Returns the keys of steps without edges, quoted as in the lines."""
    tied = {key for edge in edges for key in (edge.source, edge.target)}
    return [
        _written(node.key) for node in nodes if node.key not in tied and node.type not in NO_STEPS
    ]


def edge_rows(edges: Iterable[Edge], nodes: Mapping[str, Node]) -> list[dict[str, str | None]]:
    """Returns edges as table rows: source, target, and the label or the name of the output."""
    return [
        {
            "from": edge.source,
            "to": edge.target,
            "label": cut_name(edge.label or _output_name(edge, nodes[edge.source]), MAX_NAME_CHARS)
            or None,
        }
        for edge in edges
    ]


def _onward(edges: Iterable[Edge]) -> dict[str, list[Edge]]:
    onward: dict[str, list[Edge]] = {}
    for edge in edges:
        onward.setdefault(edge.source, []).append(edge)
    return onward


def _written(text: str) -> str:
    """Returns a key or label, quoted if it contains special characters."""
    if "--" in text:
        return compact_json(text)
    return text if _PLAIN.fullmatch(text) else encode(text)


def _arrow(edge: Edge, source: Node) -> str:
    label = edge.label or _output_name(edge, source)
    if not label:
        return ARROW
    return f"--{_written(cut_name(label, MAX_NAME_CHARS))}{ARROW}"


def _output_name(edge: Edge, source: Node) -> str:
    """Returns the name of the output that an edge leaves by; its id if several have no name."""
    outputs = [point for _, point in source.points("out")]
    unnamed = sum(not point.display for point in outputs)
    for point in outputs:
        if point.id == edge.source_handle:
            return point.display or (point.id if unnamed > 1 else "")
    return ""
