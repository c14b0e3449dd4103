"""`search_nodes`: finds nodes by words and meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from datasources.types import ScoredNode
from tools.base import Tool, ToolArguments, ToolContext, ToolResult
from tools.compact import cut_name
from tools.read_tools.views import digest, find_sheet, node_row, table, unknown_sheet

MAX_RESULTS = 50
_WIDER = 5
"""With a filter, this many times more nodes are ranked before the filter is applied."""


class SearchNodes(ToolArguments):
    query: Annotated[str, Field(min_length=1, max_length=1000, description="what the node does or is called")]
    limit: Annotated[int, Field(ge=1, le=MAX_RESULTS, description="rows")] = 10
    type: Annotated[str | None, Field(max_length=400)] = None
    sheet: Annotated[str | None, Field(max_length=400, description="id or name")] = None


async def search_nodes(arguments: SearchNodes, context: ToolContext) -> ToolResult:
    graph = await context.source.get_graph(context.graph_key)
    sheet = None
    if arguments.sheet is not None:
        sheet = find_sheet(graph, arguments.sheet)
        if sheet is None:
            return unknown_sheet(graph, arguments.sheet)
    filtered = sheet is not None or arguments.type is not None
    wanted = arguments.limit * (_WIDER if filtered else 1)
    found = [
        scored
        for scored in await _ranked(arguments.query, wanted, context)
        if (sheet is None or scored.node.sheet == sheet)
        and (arguments.type is None or scored.node.type == arguments.type)
    ][: arguments.limit]
    rows = [
        {
            **node_row(scored.node, graph),
            "score": round(scored.score, 2),
            "why": "+".join(scored.reasons) or None,
            "holds": digest(scored.node, 120),
        }
        for scored in found
    ]
    if not rows:
        shown = cut_name(arguments.query, 80)
        hint = "drop the filter or use other words" if filtered else "use other words, or read_graph_overview"
        return ToolResult(text=f"No node found for {shown!r}: {hint}.", data=[])
    text = table("found", rows, ["_key", "type", "sheet", "name", "score", "why", "holds"])
    return ToolResult(text=text, data=rows)


async def _ranked(query: str, limit: int, context: ToolContext) -> Sequence[ScoredNode]:
    if context.search is not None:
        return await context.search(context.graph_key, query, limit=limit)
    hits = await context.source.search_text(context.graph_key, query, limit=limit)
    score = {hit.key: hit.score for hit in hits}
    nodes = await context.source.get_nodes_by_key(context.graph_key, list(score))
    return [ScoredNode(node=node, score=score[node.key], reasons=("text",)) for node in nodes]


SEARCH_NODES = Tool(
    name="search_nodes",
    description=("Find nodes by words and meaning, best first: when the context lacks a node or its key."),
    arguments=SearchNodes,
    run=search_nodes,
    example={"query": "send the error by mail", "limit": 5},
)
