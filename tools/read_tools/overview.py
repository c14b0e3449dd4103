"""The tool `read_graph_overview`: counts of a graph by type and sheet, its entry points, hubs
and unconnected nodes, and its longest path.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.json_schema import SkipJsonSchema

from datasources.links import Link
from datasources.types import Graph, GraphStats, Node
from tools.base import Problem, ToolArguments, ToolContext, ToolResult, failure, read_tool
from tools.checks.checked_graph import NO_STEPS
from tools.compact import cut, cut_name, sheet_label
from tools.flow_summary import FlowSummary, beginning, summarize_flow
from tools.read_tools.views import MAX_TYPE_CHARS, Row, node_row, table
from tools.toon import encode

SHOWN = 10
SHOWN_TYPES = 30
SHOWN_SHEETS = 50
SHOWN_NOTES = 5
NOTE_CHARS = 240
SHOWN_WAY = 40
_HUB_EDGES = 3


class ReadGraphOverview(ToolArguments):
    """`graph_key` is optional and, if given, must be the graph of the conversation."""

    graph_key: SkipJsonSchema[str | None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Degrees and special nodes of a graph or a sample of it. `components` are the sizes of
    the connected components, largest first.
    """

    degree: Mapping[str, int]
    entries: Sequence[str]
    hubs: Sequence[str]
    alone: Sequence[str]
    components: Sequence[int]


@read_tool("Counts, entries, hubs.")
async def read_graph_overview(arguments: ReadGraphOverview, context: ToolContext) -> ToolResult:
    source = context.source
    limits = context.limits
    if arguments.graph_key not in (None, context.graph_key):
        what = (
            f"no graph {arguments.graph_key[:100]!r} here: the overview is of {context.graph_key!r}"
        )
        return failure("not_found", Problem(where="graphKey", what=what, allowed=context.graph_key))
    graph = await source.get_graph(context.graph_key)
    stats = await source.get_stats(graph.key)
    whole = stats.nodes <= limits.whole_graph_nodes and stats.edges <= limits.sample_links
    nodes = await source.get_nodes(graph.key, limit=None if whole else limits.sample_nodes)
    flow = None
    if whole:
        edges = await source.get_edges(graph.key)
        links = [Link(edge.source, edge.target) for edge in edges]
        flow = await asyncio.to_thread(summarize_flow, nodes, edges)
    else:
        links = await source.get_links(
            graph.key, [node.key for node in nodes], limit=limits.sample_links
        )
    shape = _shape(nodes, links)
    cut_links = not whole and len(links) >= limits.sample_links
    head = {
        "graph": graph.key,
        "name": cut_name(graph.name, 120),
        "description": cut(graph.description or "", 400) or None,
        "nodes": stats.nodes,
        "edges": stats.edges,
        "version": graph.version,
        "category": cut_name(graph.category, 80),
        "permission": graph.permission,
    }
    parts = [encode({name: value for name, value in head.items() if value is not None})]
    parts += _counts(graph, stats, nodes, links if whole else None)
    if not whole:
        parts.append(
            f"The graph is large: what follows is of its first {len(nodes)} nodes by key only."
        )
    data: dict[str, Any] = {**head, "types": dict(stats.types), "sampled": not whole}
    parts += _structure(graph, {node.key: node for node in nodes}, shape, data, flow, cut_links)
    return ToolResult(text="\n".join(parts), data=data)


def _counts(
    graph: Graph, stats: GraphStats, nodes: Sequence[Node], links: Sequence[Link] | None
) -> list[str]:
    """Returns tables of types and sheets. Without `links` (a sample) sheets have no counts.

    An edge counts for the sheet of its source node.
    """
    types = sorted(stats.types.items(), key=lambda pair: (-pair[1], pair[0]))
    rows = [
        {"type": cut(name, MAX_TYPE_CHARS), "nodes": count} for name, count in types[:SHOWN_TYPES]
    ]
    parts = [table("types", rows, ["type", "nodes"])]
    if len(types) > SHOWN_TYPES:
        parts.append(f"{len(types) - SHOWN_TYPES} more types: list_available_node_types.")
    sheet_of = {node.key: node.sheet for node in nodes}
    by_sheet = Counter(sheet_of.values())
    edges = Counter(sheet_of.get(source) for source, _ in links or ())
    sheets = list(dict.fromkeys([*graph.sheets_list, *by_sheet]))
    shown: list[Row] = [
        {
            "sheet": sheet_label(graph, sheet),
            "nodes": by_sheet[sheet] if links is not None else None,
            "edges": edges[sheet] if links is not None else None,
        }
        for sheet in sheets[:SHOWN_SHEETS]
    ]
    parts.append(table("sheets", shown, ["sheet", "nodes", "edges"]))
    if len(sheets) > SHOWN_SHEETS:
        parts.append(f"{len(sheets) - SHOWN_SHEETS} more sheets.")
    return parts


def _structure(
    graph: Graph,
    nodes: Mapping[str, Node],
    shape: _Shape,
    data: dict[str, Any],
    flow: FlowSummary | None,
    cut_links: bool,
) -> list[str]:
    parts: list[str] = []
    # All edges of the sampled nodes were read (unless the number of links was cut), so these
    # three groups are right for each sampled node.
    groups = {"entry_points": shape.entries, "hubs": shape.hubs, "without_edges": shape.alone}
    if flow is not None:
        groups = {**groups, "entry_points": flow.starts, "ends": flow.ends}
    if cut_links:
        groups = {"hubs": shape.hubs}
    for name, keys in groups.items():
        rows = [
            {**node_row(nodes[key], graph), "edges": shape.degree.get(key, 0)}
            for key in keys[:SHOWN]
        ]
        data[name] = list(keys[:SHOWN])
        data[f"{name}_total"] = len(keys)
        if not rows:
            continue
        parts.append(table(name, rows, ["_key", "type", "sheet", "name", "edges"]))
        if len(keys) > SHOWN:
            parts.append(f"{len(keys) - SHOWN} more {name}.")
    if flow is not None and nodes:
        parts += _way_and_notes(flow, nodes, graph)
        sizes = ", ".join(str(size) for size in shape.components[:SHOWN])
        more = ", …" if len(shape.components) > SHOWN else ""
        parts.append(f"Connected parts: {len(shape.components)} (of {sizes}{more} nodes).")
        data["components"] = list(shape.components[:SHOWN])
    if not nodes:
        parts.append("The graph has no node yet.")
    return parts


def _way_and_notes(flow: FlowSummary, nodes: Mapping[str, Node], graph: Graph) -> list[str]:
    way = [node_row(nodes[key], graph) for key in flow.way[:SHOWN_WAY]]
    notes = [
        {"_key": key, "text": beginning(text, NOTE_CHARS)} for key, text in flow.notes[:SHOWN_NOTES]
    ]
    parts = [table("longest_way", way, ["_key", "type", "sheet", "name"])] if way else []
    return parts + ([table("notes", notes, ["_key", "text"])] if notes else [])


def _shape(nodes: Sequence[Node], links: Sequence[Link]) -> _Shape:
    keys = [node.key for node in nodes]
    key_set = set(keys)
    degree: Counter[str] = Counter()
    entered: set[str] = set()
    for source, target in links:
        degree[source] += 1
        if source != target:
            degree[target] += 1
            entered.add(target)
    hubs = sorted((k for k in keys if degree[k] >= _HUB_EDGES), key=lambda k: (-degree[k], k))
    return _Shape(
        degree=degree,
        entries=[k for k in keys if degree[k] and k not in entered],
        hubs=hubs,
        alone=[node.key for node in nodes if not degree[node.key] and node.type not in NO_STEPS],
        components=_component_sizes(keys, [link for link in links if key_set.issuperset(link)]),
    )


def _component_sizes(keys: Sequence[str], links: Sequence[Link]) -> list[int]:
    parent = {key: key for key in keys}

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for source, target in links:
        parent[root(source)] = root(target)
    return sorted(Counter(root(key) for key in keys).values(), reverse=True)
