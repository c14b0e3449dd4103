"""Data commands, which read the data for a block, and their readers.

Most of them read the same data as a read tool, in the same form. They are derived from the blocks
each time and not stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, final

from datasources.types import Graph, Node
from graphrag.commands.blocks import Block, BlockType, TargetKind
from graphrag.commands.graph_history import GraphHistory
from graphrag.retrieval.signals.reference_signal import MAX_NODES, find_reference_links
from graphrag.sessions.periods import PeriodError
from graphrag.workers import run_limited
from tools.base import Problem, ToolContext, ToolResult, failure
from tools.compact import cut_name
from tools.past_changes import Past
from tools.proposals import hash_of
from tools.read_tools.read_history import history_result
from tools.read_tools.views import (
    edge_row,
    find_sheet,
    node_row,
    table,
    unknown_node,
    unknown_sheet,
)
from tools.references import calls_by_name
from tools.tool_box import ToolBox
from tools.toon import compact_json, encode

STATS_MS: Final = 30 * 24 * 3_600_000
EXAMPLES: Final = 3
LISTED: Final = 100
PAST_LIMIT: Final = 100
COUNTED_CHANGES: Final = 200
PAGE: Final = 1_000

CommandType = Literal[
    "SCHEMA",
    "TYPE_CONFIG",
    "TYPE_USES",
    "TYPE_EXAMPLES",
    "GRAPH",
    "SHEET",
    "NODE",
    "NODE_DATA",
    "NODE_LINKS",
    "NODE_STATS",
    "EDGE",
    "HISTORY",
]

# The commands for a block, in order.
READ_FOR: Mapping[tuple[BlockType, TargetKind], tuple[CommandType, ...]] = {
    ("POINTER", "graph"): ("GRAPH",),
    ("POINTER", "sheet"): ("SHEET",),
    ("POINTER", "node"): ("NODE",),
    ("POINTER", "edge"): ("EDGE",),
    ("POINTER", "nodeType"): ("SCHEMA",),
    ("USE", "node"): ("SCHEMA", "NODE", "NODE_DATA", "NODE_LINKS", "NODE_STATS"),
    ("CREATE", "nodeType"): ("SCHEMA", "TYPE_EXAMPLES"),
    ("MODIFY_CONFIG", "nodeType"): ("SCHEMA", "TYPE_CONFIG", "TYPE_USES"),
    ("MODIFY_CONFIG", "node"): ("SCHEMA", "NODE", "NODE_DATA"),
}
WITH_HISTORY: Final = frozenset({"POINTER", "USE"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DataCommand:
    """One command. `params`: local keys, and periods as written."""

    type: CommandType
    params: Mapping[str, str]

    @property
    def id(self) -> str:
        """The hash of the command. Equal commands in a message are run once."""
        return hash_of([self.type, dict(self.params)])[:16]


def commands(block: Block) -> list[DataCommand]:
    """Returns the commands for a block, in order."""
    target = block.target
    period = block.period
    named = {target.kind: target.key}
    found = [DataCommand(type=one, params=named) for one in READ_FOR[block.type, target.kind]]
    if period is not None and block.type in WITH_HISTORY:
        params = {**named, "from": period.start, "to": period.end}
        found.append(DataCommand(type="HISTORY", params=params))
    return found


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlace:
    """The context in which commands run. Periods use the calendar of the history, from its
    reference.
    """

    context: ToolContext
    box: ToolBox
    history: GraphHistory

    async def graph(self) -> Graph:
        return await self.context.source.get_graph(self.context.graph_key)

    async def by_tool(self, name: str, **arguments: Any) -> ToolResult:
        return await self.box.run(name, compact_json(arguments), self.context)

    async def past(self, **asked: Any) -> ToolResult:
        """Returns the changes of a period as a result; an invalid period as an error."""
        try:
            found = await self.history(
                self.context.graph_key, Past(**asked, language=self.context.language)
            )
        except PeriodError as exc:
            return failure("invalid_arguments", Problem(what=str(exc)))
        return history_result(found)


Params = Mapping[str, str]


async def _type(params: Params, place: CommandPlace) -> ToolResult:
    name = params.get("nodeType")
    if name is None:
        graph = await place.graph()
        nodes = await place.context.source.get_nodes_by_key(graph.key, [params["node"]])
        if not nodes:
            return await unknown_node(place.context, graph, params["node"], "target")
        name = nodes[0].type
    return await place.by_tool("read_node_config", typeKey=name)


async def _graph(_: Params, place: CommandPlace) -> ToolResult:
    return await place.by_tool("read_graph_overview")


async def _sheet(params: Params, place: CommandPlace) -> ToolResult:
    graph = await place.graph()
    rows = place.context.limits.rows
    sheet = find_sheet(graph, params["sheet"])
    if sheet is None:
        return unknown_sheet(graph, params["sheet"])
    nodes = await place.context.source.get_nodes(graph.key, sheet=sheet, limit=rows + 1)
    edges = await place.context.source.get_edges(graph.key, sheet=sheet, limit=rows + 1)
    parts = [
        encode({"sheet": sheet, "name": cut_name(graph.sheets_list[sheet], 80)}),
        table("nodes", [node_row(node, graph) for node in nodes[:rows]], ["_key", "type", "name"]),
        table("edges", [edge_row(edge) for edge in edges[:rows]], ["from", "to", "label"]),
    ]
    parts += [f"There are more than {rows} nodes."] * (len(nodes) > rows)
    parts += [f"There are more than {rows} edges."] * (len(edges) > rows)
    return ToolResult(text="\n".join(parts))


async def _nodes(params: Params, place: CommandPlace) -> ToolResult:
    """Returns nodes of a type."""
    graph = await place.graph()
    name = params["nodeType"]
    total = (await place.context.source.get_stats(graph.key)).types.get(name, 0)
    rows = [node_row(node, graph) for node in await _first_nodes(graph, name, LISTED, place)]
    shown = table("nodes", rows, ["_key", "type", "sheet", "name"])
    return ToolResult(text=f"{total} nodes have this type.\n{shown}")


async def _examples(params: Params, place: CommandPlace) -> ToolResult:
    """Returns a few whole nodes of a type."""
    found = await _first_nodes(await place.graph(), params["nodeType"], EXAMPLES, place)
    shown = [await place.by_tool("read_node_detail", nodeKey=node.key) for node in found]
    return ToolResult(text="\n\n".join(one.text for one in shown) or "No node has this type yet.")


async def _first_nodes(graph: Graph, name: str, limit: int, place: CommandPlace) -> list[Node]:
    """Returns the first nodes of a type by key; in a large graph, of a sample only."""
    source = place.context.source
    found: list[Node] = []
    after: str | None = None
    for _ in range(0, place.context.limits.whole_graph_nodes, PAGE):
        page = await source.get_nodes(graph.key, after=after, limit=PAGE)
        found += [node for node in page if node.type == name]
        if len(page) < PAGE or len(found) >= limit:
            break
        after = page[-1].key
    return found[:limit]


async def _node(params: Params, place: CommandPlace, **more: str) -> ToolResult:
    return await place.by_tool("read_node_detail", nodeKey=params["node"], **more)


async def _links(params: Params, place: CommandPlace) -> ToolResult:
    return await place.by_tool("list_node_edges", nodeKey=params["node"])


async def _edge(params: Params, place: CommandPlace) -> ToolResult:
    source = place.context.source
    graph = await place.graph()
    key = params["edge"]
    found = await source.get_edges_by_key(graph.key, [key])
    if not found:
        return failure(
            "not_found", Problem(what=f"no edge {key[:200]!r} in this graph", where="target")
        )
    edge = found[0]
    row = {"_key": key, **edge_row(edge)}
    ends = await source.get_nodes_by_key(graph.key, [edge.source, edge.target])
    rows = [node_row(node, graph) for node in ends]
    text = encode({name: value for name, value in row.items() if value is not None})
    return ToolResult(text=f"{text}\n{table('ends', rows, ['_key', 'type', 'sheet', 'name'])}")


async def _stats(params: Params, place: CommandPlace) -> ToolResult:
    """Returns the numbers of a node's edges, of references from and to it, and of its changes."""
    source = place.context.source
    graph = await place.graph()
    key = params["node"]
    if not await source.get_nodes_by_key(graph.key, [key]):
        return await unknown_node(place.context, graph, key, "target")
    edges = await source.get_edges_of(graph.key, [key])
    counts = {
        "edges_in": sum(edge.target == key for edge in edges),
        "edges_out": sum(edge.source == key for edge in edges),
    }
    if calls_by_name(graph) and (await source.get_stats(graph.key)).nodes <= MAX_NODES:
        nodes = await source.get_nodes(graph.key)
        links = await run_limited(lambda: find_reference_links(graph, nodes))
        counts["refers_to"] = len(links.refers_to.get(key, ()))
        counts["referred_by"] = len(links.referred_by.get(key, ()))
    since = place.history.iso(place.history.now - STATS_MS)
    past = await place.history(graph.key, Past(node=key, start=since, limit=COUNTED_CHANGES))
    changes = f"{len(past.changes)}{'+' if past.more else ''}"
    return ToolResult(text=encode({**counts, "changes_in_30_days": changes}))


async def _history(params: Params, place: CommandPlace) -> ToolResult:
    about = {name: params[name] for name in ("node", "edge", "sheet") if name in params}
    return await place.past(
        **about,
        node_type=params.get("nodeType"),
        start=params["from"],
        end=params["to"],
        limit=PAST_LIMIT,
    )


Reader = Callable[[Params, CommandPlace], Awaitable[ToolResult]]
# They raise SourceError.
READERS: Mapping[CommandType, Reader] = {
    "SCHEMA": _type,
    "TYPE_CONFIG": _type,
    "GRAPH": _graph,
    "SHEET": _sheet,
    "TYPE_USES": _nodes,
    "TYPE_EXAMPLES": _examples,
    "NODE": _node,
    "NODE_DATA": partial(_node, field="data"),
    "NODE_LINKS": _links,
    "EDGE": _edge,
    "NODE_STATS": _stats,
    "HISTORY": _history,
}
