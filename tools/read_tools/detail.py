"""The tool `read_node_detail`: shows one node with all its fields, or one long field in pages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from datasources.text import effective_process
from datasources.types import Graph, Node, NodeTypeConfig
from tools.base import ToolArguments, ToolContext, ToolResult, read_tool
from tools.compact import compact_value, cut, cut_name, other_cells
from tools.node_meaning import facts_of, line_of
from tools.read_tools.views import (
    NodeKey,
    Row,
    data_without_name,
    node_row,
    table,
    type_of,
    unknown_node,
)
from tools.secret_texts import redacted
from tools.toon import compact_json, encode

MAX_HANDLES = 200
MAX_LINE_CHARS = 200


class ReadNodeDetail(ToolArguments):
    node_key: NodeKey
    field: Annotated[
        Literal["process", "data"] | None, Field(description="Read this field whole, page by page.")
    ] = None
    offset: Annotated[int, Field(ge=0, le=1_000_000_000, description="Where the page begins.")] = 0


@read_tool("A node whole; a field in pages.", {"nodeKey": "fetch-api"}, essential=True)
async def read_node_detail(arguments: ReadNodeDetail, context: ToolContext) -> ToolResult:
    graph = await context.source.get_graph(context.graph_key)
    nodes = await context.source.get_nodes_by_key(graph.key, [arguments.node_key])
    if not nodes:
        return await unknown_node(context, graph, arguments.node_key)
    node = nodes[0]
    config = await type_of(context, node.type)
    if arguments.field is not None:
        return _page(node, config, arguments.field, arguments.offset, context.limits.page_chars)
    return await _whole(node, config, graph, context)


def _page(
    node: Node,
    config: NodeTypeConfig | None,
    field: Literal["process", "data"],
    offset: int,
    chars: int,
) -> ToolResult:
    if field == "process":
        text = effective_process(node, config)
    else:
        text = "" if node.data is None else compact_json(node.data)
    text = redacted(text or "").text
    if not text:
        return ToolResult(text=f"{node.key} has no {field}.", data={"text": "", "total": 0})
    part = text[offset : offset + chars]
    end = offset + len(part)
    more = f"; go on with offset={end}" if end < len(text) else ""
    if not part:
        more = f"; offset {offset} is past the end"
    head = f"{field} of {encode(node.key)}: characters {offset}–{end} of {len(text)}{more}"
    inherited = field == "process" and node.process is None
    origin = f" (code of its type {encode(node.type)})" if inherited else ""
    data = {
        "text": part,
        "offset": offset,
        "total": len(text),
        "next_offset": end if end < len(text) else None,
    }
    return ToolResult(text=f"{head}{origin}\n{encode({field: part})}", data=data)


async def _whole(
    node: Node, config: NodeTypeConfig | None, graph: Graph, context: ToolContext
) -> ToolResult:
    limit = context.limits.detail_chars
    edges = await context.source.get_links(graph.key, [node.key], limit=context.limits.sample_links)
    row = node_row(node, graph)
    process = effective_process(node, config)
    shown: dict[str, Any] = {
        **row,
        "type_name": cut_name(config.display_name, 80) if config else None,
        "position": f"{node.pos_x:g},{node.pos_y:g}",
        "size": f"{node.size.width:g}x{node.size.height:g}",
        "edges_in": sum(link.target == node.key for link in edges),
        "edges_out": sum(link.source == node.key for link in edges),
        "does": line_of(facts_of(node), MAX_LINE_CHARS),
        "data": None
        if node.data is None
        else cut(compact_value(data_without_name(node)), limit // 2),
        "process": cut(redacted(process).text, limit) if process else None,
        **other_cells(node, limit // 2),
    }
    if process and node.process is None:
        shown["process_from"] = "its type"
    parts = [encode({name: value for name, value in shown.items() if value is not None})]
    handles = handle_rows(node)
    if handles:
        columns = ["handle", "side", "direction", "accept", "display"]
        parts.append(table("handles", handles[:MAX_HANDLES], columns))
    if len(handles) > MAX_HANDLES:
        parts.append(f"{len(handles) - MAX_HANDLES} more handles are not shown.")
    if config is None:
        parts.append("Its type has no configuration in this workspace.")
    if any("…+" in str(shown[name])[-30:] for name in ("data", "process")):
        parts.append("Read a cut field (…+N chars) with field and offset.")
    return ToolResult(text="\n".join(parts), data=node.to_document())


def handle_rows(node: Node) -> list[Row]:
    """Returns one row for each handle, inputs first."""
    return [
        {
            "handle": point.id,
            "side": side,
            "direction": point.type,
            "accept": point.accept,
            "display": point.display,
        }
        for direction in ("in", "out")
        for side, point in node.points(direction)
    ]
