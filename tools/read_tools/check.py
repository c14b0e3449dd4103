"""The tool `check_graph`: runs the rules of `tools.checks` over a graph and lists the
findings with their repairs. Needs no model.
"""

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

MAX_NODES = 100_000  # larger graphs are not checked
MAX_GRAPHS = 200  # in workspaces with more graphs, the types in use are not collected
_SHOWN = 50  # findings in one answer
_SHOWN_KEYS = 5  # node keys in one finding
_IN_A_THREAD = 300  # nodes; above this the rules would block the event loop for too long


class GraphTooLarge(Exception):
    """Raised when a graph has more than `MAX_NODES` nodes."""

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
    """Returns the findings of the rules, most severe first; of all rules if `rules` is empty.

    Raises: GraphNotFound, GraphTooLarge.
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
        results = await findings(context.source, context.graph_key)
    except GraphTooLarge as error:
        return failure("unavailable", Problem(what=str(error)))
    if not results:
        return ToolResult(
            text="The rules find nothing wrong with this graph.", data={"findings": []}
        )
    page = results[arguments.offset : arguments.offset + _SHOWN]
    text = table("findings", [_row(finding, context) for finding in page], list(_COLUMNS))
    end = arguments.offset + len(page)
    if end < len(results):
        text += f"\n{len(results) - end} more: offset={end}."
    return ToolResult(
        text=text,
        data={"findings": [document(finding, context.language) for finding in results]},
    )


def document(finding: GraphFinding, language: Any) -> dict[str, Any]:
    """Returns a finding in the form that clients receive."""
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "nodes": list(finding.violation.nodes),
        "text": finding.sentence(language),
        "repair": finding.repair,
    }


_COLUMNS = ("severity", "rule", "nodes", "what", "repair")


def _row(finding: GraphFinding, context: ToolContext) -> Row:
    keys = finding.violation.nodes
    repair = finding.repair
    more = f" +{len(keys) - _SHOWN_KEYS}" if len(keys) > _SHOWN_KEYS else ""
    return {
        "severity": finding.severity,
        "rule": finding.rule,
        "nodes": " ".join(keys[:_SHOWN_KEYS]) + more,
        "what": cut(finding.sentence(context.language), context.limits.field_chars),
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
