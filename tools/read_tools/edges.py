"""The tools that follow edges: `explore_neighborhood`, `list_node_edges` and `read_subgraph`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from datasources.links import Direction
from datasources.text import node_label
from datasources.types import Edge, Graph, Node
from tools.base import ToolArguments, ToolContext, ToolResult, failure, read_tool
from tools.compact import compact_handles, compact_value, cut, cut_name, sheet_label
from tools.read_tools import views

MAX_KEYS = 30
MAX_AROUND = 100

_OLDER_DIRECTIONS = {"out": "outbound", "in": "inbound"}
EdgeDirection = Annotated[
    Literal["outbound", "inbound", "any"],
    BeforeValidator(
        lambda value: _OLDER_DIRECTIONS.get(value, value) if isinstance(value, str) else value
    ),
]
_DIRECTIONS: dict[str, Direction] = {"outbound": "out", "inbound": "in", "any": "any"}


class ExploreNeighborhood(ToolArguments):
    node_key: views.NodeKey
    max_depth: Annotated[int, Field(ge=1, le=12, description="Steps along edges.")] = 1
    direction: Annotated[EdgeDirection, Field(description="outbound: what comes after it.")] = "any"
    max_results: Annotated[int, Field(ge=1, le=MAX_AROUND, description="Most nodes.")] = 30


@read_tool(
    "Nodes around one.",
    {"nodeKey": "fetch-api", "maxDepth": 2, "direction": "outbound"},
    essential=True,
)
async def explore_neighborhood(arguments: ExploreNeighborhood, context: ToolContext) -> ToolResult:
    graph = await context.source.get_graph(context.graph_key)
    neighborhood = await context.source.get_neighborhood(
        graph.key,
        [arguments.node_key],
        max_depth=arguments.max_depth,
        direction=_DIRECTIONS[arguments.direction],
        limit=arguments.max_results + 1,
    )
    if not neighborhood.nodes:
        return await views.unknown_node(context, graph, arguments.node_key)
    nodes = neighborhood.nodes[: arguments.max_results]
    kept = {node.key for node in nodes}
    inside = [edge for edge in neighborhood.edges if edge.source in kept and edge.target in kept]
    edges = inside[: context.limits.rows]
    rows = [
        {**views.node_row(node, graph), "depth": neighborhood.depths.get(node.key, 0)}
        for node in nodes
    ]
    parts = [
        views.table("nodes", rows, ["_key", "type", "sheet", "name", "depth"]),
        views.table("edges", [views.edge_row(edge) for edge in edges], ["from", "to", "label"]),
    ]
    if len(neighborhood.nodes) > len(nodes):
        parts.append(
            f"More nodes than maxResults={arguments.max_results}: raise it or lower maxDepth."
        )
    if len(inside) > len(edges):
        parts.append(f"{len(inside) - len(edges)} more edges among them are not shown.")
    if len(nodes) == 1 and not edges:
        parts.append(f"{arguments.node_key} has no neighbour in direction {arguments.direction!r}.")
    data = {"nodes": rows, "edges": [views.edge_row(edge) for edge in inside]}
    return ToolResult(text="\n".join(parts), data=data)


class ListNodeEdges(ToolArguments):
    node_key: views.NodeKey
    direction: EdgeDirection = "any"
    max_results: Annotated[int, Field(ge=1, le=MAX_AROUND)] = 50
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0


@read_tool("With keys and handles.", {"nodeKey": "fetch-api", "direction": "outbound"})
async def list_node_edges(arguments: ListNodeEdges, context: ToolContext) -> ToolResult:
    graph = await context.source.get_graph(context.graph_key)
    key = arguments.node_key
    if not await context.source.get_nodes_by_key(graph.key, [key]):
        return await views.unknown_node(context, graph, key)
    edges = [
        edge
        for edge in await context.source.get_edges_of(graph.key, [key])
        if arguments.direction == "any"
        or (arguments.direction == "outbound" and edge.source == key)
        or (arguments.direction == "inbound" and edge.target == key)
    ]
    page = edges[arguments.offset : arguments.offset + arguments.max_results]
    others = [_other_end(edge, key) for edge in page]
    nodes = {node.key: node for node in await context.source.get_nodes_by_key(graph.key, others)}
    rows = [_edge_view(edge, key, nodes, graph) for edge in page]
    parts = [
        views.table("edges", rows, ["_key", "direction", "from", "to", "label", "other", "sheet"])
    ]
    left = len(edges) - arguments.offset - len(page)
    if left > 0:
        parts.append(f"{left} more: call again with offset={arguments.offset + len(page)}.")
    if not edges:
        parts = [f"{key} has no edge in direction {arguments.direction!r}."]
    return ToolResult(text="\n".join(parts), data={"edges": rows, "total": len(edges)})


def _other_end(edge: Edge, key: str) -> str:
    return edge.target if edge.source == key else edge.source


def _edge_view(edge: Edge, key: str, nodes: dict[str, Node], graph: Graph) -> views.Row:
    other = nodes.get(_other_end(edge, key))
    return {
        "_key": edge.key,
        "direction": "out" if edge.source == key else "in",
        **views.edge_row(edge),
        "other": cut_name(node_label(other), 80) if other else None,
        "sheet": sheet_label(graph, edge.sheet),
    }


NodeField = Literal["data", "process", "handles", "position"]


class ReadSubgraph(ToolArguments):
    node_keys: Annotated[list[views.NodeKey], Field(min_length=1, max_length=MAX_KEYS)]
    fields: Annotated[
        list[NodeField], Field(max_length=4, default_factory=lambda: ["data", "process"])
    ]


@read_tool(
    "Nodes and edges among them.",
    {"nodeKeys": ["fetch-api", "filter-active"], "fields": ["process", "handles"]},
)
async def read_subgraph(arguments: ReadSubgraph, context: ToolContext) -> ToolResult:
    graph = await context.source.get_graph(context.graph_key)
    keys = list(dict.fromkeys(arguments.node_keys))
    subgraph = await context.source.get_neighborhood(graph.key, keys, max_depth=0, limit=len(keys))
    present = {node.key for node in subgraph.nodes}
    missing = [
        await views.missing_node(context, graph, key, f"nodeKeys.{arguments.node_keys.index(key)}")
        for key in [key for key in keys if key not in present][:5]
    ]
    if not present:
        return failure("not_found", *missing)
    rows = [
        _subgraph_row(node, graph, arguments.fields, context.limits.field_chars)
        for node in subgraph.nodes
    ]
    edges = [views.edge_row(edge) for edge in subgraph.edges]
    parts = [
        views.table(
            "nodes", rows, ["_key", "type", "sheet", "name", *dict.fromkeys(arguments.fields)]
        ),
        views.table("edges", edges[: context.limits.rows], ["from", "to", "label"]),
    ]
    if len(edges) > context.limits.rows:
        parts.append(f"{len(edges) - context.limits.rows} more edges among them are not shown.")
    if any("…+" in str(row.get(name)) for row in rows for name in ("data", "process")):
        parts.append("Cut fields (…+N chars) are read whole with read_node_detail.")
    parts += [f"MISSING {problem.what}" for problem in missing]
    absent = [key for key in keys if key not in present]
    return ToolResult(
        text="\n".join(parts), data={"nodes": rows, "edges": edges, "missing": absent}
    )


def _subgraph_row(node: Node, graph: Graph, fields: list[NodeField], limit: int) -> views.Row:
    row = views.node_row(node, graph)
    shown: dict[str, Any] = {
        "data": lambda: (
            None if node.data is None else compact_value(views.data_without_name(node)) or None
        ),
        "process": lambda: node.process,
        "handles": lambda: compact_handles(node.handles) or None,
        "position": lambda: f"{node.pos_x:g},{node.pos_y:g}",
    }
    for name in fields:
        value = shown[name]()
        row[name] = None if value is None else cut(value, limit)
    return row
