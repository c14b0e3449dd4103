"""`check_graph`: what is wrong with a graph, found without a model, and how it can be repaired."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from tools.base import Problem, ToolArguments, ToolContext, ToolResult, failure, read_tool
from tools.checks import CheckedGraph, GraphFinding, check
from tools.compact import cut
from tools.read_tools.views import Row, table
from tools.toon import compact_json

MAX_NODES = 100_000
"""A larger graph is not read whole."""
MAX_GRAPHS = 200
"""In a workspace with more graphs it is not looked up which types are used."""
_SHOWN = 50
_SHOWN_KEYS = 5
_IN_A_THREAD = 300
"""Nodes from which the rules may take longer than the event loop has."""


class GraphTooLarge(Exception):
    """A graph has more nodes than are checked."""

    def __init__(self, *, graph_key: str, nodes: int) -> None:
        super().__init__(
            f"graph {graph_key!r} has {nodes:,} nodes; {MAX_NODES:,} are checked at most"
        )
        self.graph_key = graph_key
        self.nodes = nodes


class CheckGraph(ToolArguments):
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0


async def findings(
    source: GraphDataSource, graph_key: str, rules: Sequence[str] = ()
) -> list[GraphFinding]:
    """Return what the rules find in a graph, the worst first. Raises: GraphNotFound,
    GraphTooLarge.
    """
    graph = await source.get_graph(graph_key)
    stats = await source.get_stats(graph_key)
    if stats.nodes > MAX_NODES:
        raise GraphTooLarge(graph_key=graph_key, nodes=stats.nodes)
    nodes = await source.get_nodes(graph_key)
    view = CheckedGraph(
        graph=graph,
        nodes={node.key: node for node in nodes},
        edges=await source.get_edges(graph_key),
        types=types_by_name(await source.get_node_configs()),
        used_types=await _used_types(source),
    )
    if len(nodes) <= _IN_A_THREAD:
        return check(view, only=rules)
    return await asyncio.to_thread(check, view, only=rules)


@read_tool("Finds errors.")
async def check_graph(arguments: CheckGraph, context: ToolContext) -> ToolResult:
    try:
        found = await findings(context.source, context.graph_key)
    except GraphTooLarge as error:
        return failure("unavailable", Problem(what=str(error)))
    if not found:
        return ToolResult(
            text="The rules find nothing wrong with this graph.", data={"findings": []}
        )
    shown = found[arguments.offset : arguments.offset + _SHOWN]
    text = table("findings", [_row(one, context) for one in shown], list(_COLUMNS))
    end = arguments.offset + len(shown)
    if end < len(found):
        text += f"\n{len(found) - end} more: offset={end}."
    return ToolResult(
        text=text, data={"findings": [document(one, context.language) for one in found]}
    )


def document(found: GraphFinding, language: Any) -> dict[str, Any]:
    """Return a finding as clients get it."""
    return {
        "rule": found.rule,
        "severity": found.severity,
        "nodes": list(found.found.nodes),
        "text": found.sentence(language),
        "repair": found.repair,
    }


_COLUMNS = ("severity", "rule", "nodes", "what", "repair")


def _row(one: GraphFinding, context: ToolContext) -> Row:
    keys = one.found.nodes
    repair = one.repair
    more = f" +{len(keys) - _SHOWN_KEYS}" if len(keys) > _SHOWN_KEYS else ""
    return {
        "severity": one.severity,
        "rule": one.rule,
        "nodes": " ".join(keys[:_SHOWN_KEYS]) + more,
        "what": cut(one.sentence(context.language), context.limits.field_chars),
        "repair": f"{repair['tool']} {compact_json(repair['arguments'])}" if repair else None,
    }


async def _used_types(source: GraphDataSource) -> frozenset[str] | None:
    graphs = await source.list_graphs()
    if len(graphs) > MAX_GRAPHS:
        return None
    used: set[str] = set()
    for graph in graphs:
        used.update((await source.get_stats(graph.key)).types)
    return frozenset(used)
