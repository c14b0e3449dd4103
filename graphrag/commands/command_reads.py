"""What each operation of a command reads: mostly what a read tool reads, in its form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from datasources.types import Graph, Node
from graphrag.commands.edge_lookup import edge_by_key
from graphrag.commands.graph_history import iso
from graphrag.commands.transform import ExecutableCommand
from graphrag.retrieval.reference_links import MAX_NODES, find_reference_links
from graphrag.workers import run_limited
from tools.base import Past, Problem, ToolBox, ToolContext, ToolResult, failure
from tools.compact import cut_name
from tools.read_tools.read_history import history_result
from tools.read_tools.views import edge_row, find_sheet, node_row, table, unknown_node, unknown_sheet
from tools.references import calls_by_name
from tools.toon import compact_json, encode

COUNTED_CHANGES = 200
PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlace:
    """Where commands are run. `clock` gives milliseconds since 1970; `zone` is that of the session."""

    context: ToolContext
    box: ToolBox
    zone: ZoneInfo
    clock: Callable[[], int]


Params = Mapping[str, Any]


async def run(command: ExecutableCommand, place: CommandPlace) -> ToolResult:
    """Return what a command finds, or an error that says what is missing. Raises: SourceError."""
    return await _OPERATIONS[command.resource, command.operation](command.params, place)


async def _by_tool(name: str, arguments: dict[str, Any], place: CommandPlace) -> ToolResult:
    return await place.box.run(name, compact_json(arguments), place.context)


async def _type(params: Params, place: CommandPlace) -> ToolResult:
    name = params.get("nodeType")
    if name is None:
        graph = await place.context.source.get_graph(place.context.graph_key)
        nodes = await place.context.source.get_nodes_by_key(graph.key, [params["node"]])
        if not nodes:
            return await unknown_node(place.context, graph, params["node"], "target")
        name = nodes[0].type
    return await _by_tool("read_node_config", {"typeKey": name}, place)


async def _types(_: Params, place: CommandPlace) -> ToolResult:
    return await _by_tool("list_available_node_types", {}, place)


async def _graphs(_: Params, place: CommandPlace) -> ToolResult:
    graphs = sorted(await place.context.source.list_graphs(), key=lambda graph: graph.key)
    rows = [{"graph": graph.key, "name": cut_name(graph.name, 80)} for graph in graphs[:100]]
    more = f"\n{len(graphs) - 100} more graphs." if len(graphs) > 100 else ""
    return ToolResult(text=table("graphs", rows, ["graph", "name"]) + more)


async def _graph(params: Params, place: CommandPlace) -> ToolResult:
    if "sheet" not in params:
        return await _by_tool("read_graph_overview", {}, place)
    graph = await place.context.source.get_graph(place.context.graph_key)
    sheet = find_sheet(graph, params["sheet"])
    if sheet is None:
        return unknown_sheet(graph, params["sheet"])
    rows = place.context.limits.rows
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
    """Return nodes of the graph, or of a type in it; `whole` ones as they are read one by one."""
    source, limit = place.context.source, int(params["limit"])
    graph = await source.get_graph(place.context.graph_key)
    name = params.get("nodeType")
    total = (await source.get_stats(graph.key)).types.get(name, 0) if name is not None else None
    found = await _first_nodes(graph, name, limit, place)
    if params.get("whole"):
        shown = [await _by_tool("read_node_detail", {"nodeKey": node.key}, place) for node in found]
        return ToolResult(text="\n\n".join(one.text for one in shown) or "No node has this type yet.")
    rows = [node_row(node, graph) for node in found]
    head = [] if total is None else [f"{total} nodes have this type."]
    return ToolResult(text="\n".join([*head, table("nodes", rows, ["_key", "type", "sheet", "name"])]))


async def _first_nodes(graph: Graph, name: str | None, limit: int, place: CommandPlace) -> list[Node]:
    """Return the first nodes of a type by key; of a large graph only a sample is looked through."""
    source = place.context.source
    if name is None:
        return await source.get_nodes(graph.key, limit=limit)
    found: list[Node] = []
    after: str | None = None
    for _ in range(0, place.context.limits.whole_graph_nodes, PAGE):
        page = await source.get_nodes(graph.key, after=after, limit=PAGE)
        found += [node for node in page if node.type == name]
        if len(page) < PAGE or len(found) >= limit:
            break
        after = page[-1].key
    return found[:limit]


async def _node(params: Params, place: CommandPlace) -> ToolResult:
    arguments = {"nodeKey": params["node"]} | ({"field": params["field"]} if "field" in params else {})
    return await _by_tool("read_node_detail", arguments, place)


async def _edges(params: Params, place: CommandPlace) -> ToolResult:
    if "node" in params:
        return await _by_tool("list_node_edges", {"nodeKey": params["node"]}, place)
    source, key = place.context.source, params["edge"]
    graph = await source.get_graph(place.context.graph_key)
    edge = await edge_by_key(source, graph.key, key)
    if edge is None:
        return failure("not_found", Problem(what=f"no edge {key[:200]!r} in this graph", where="target"))
    row = {"_key": key, **edge_row(edge)}
    ends = await source.get_nodes_by_key(graph.key, [edge.source, edge.target])
    rows = [node_row(node, graph) for node in ends]
    text = encode({name: value for name, value in row.items() if value is not None})
    return ToolResult(text=f"{text}\n{table('ends', rows, ['_key', 'type', 'sheet', 'name'])}")


async def _stats(params: Params, place: CommandPlace) -> ToolResult:
    """Count a node's edges, the nodes that it names and that name it, and its changes."""
    source, key = place.context.source, params["node"]
    graph = await source.get_graph(place.context.graph_key)
    if not await source.get_nodes_by_key(graph.key, [key]):
        return await unknown_node(place.context, graph, key, "target")
    edges = await source.get_edges_of(graph.key, [key])
    shown: dict[str, Any] = {
        "edges_in": sum(edge.target == key for edge in edges),
        "edges_out": sum(edge.source == key for edge in edges),
        **await _references(graph, key, place),
    }
    if place.context.history is not None:
        past = Past(
            node=key,
            start=iso(params["from"], place.zone),
            end=iso(params["to"], place.zone),
            limit=COUNTED_CHANGES,
            language=place.context.language,
        )
        found = await place.context.history(graph.key, past)
        shown["changes_in_30_days"] = f"{len(found.changes)}{'+' if found.more else ''}"
    return ToolResult(text=encode(shown))


async def _references(graph: Graph, key: str, place: CommandPlace) -> dict[str, int]:
    source = place.context.source
    if not calls_by_name(graph) or (await source.get_stats(graph.key)).nodes > MAX_NODES:
        return {}
    nodes = await source.get_nodes(graph.key)
    links = await run_limited(lambda: find_reference_links(graph, nodes))
    return {
        "refers_to": len(links.refers_to.get(key, ())),
        "referred_by": len(links.referred_by.get(key, ())),
    }


async def _history(params: Params, place: CommandPlace) -> ToolResult:
    if place.context.history is None:
        return failure("unavailable", Problem(what="the history of graphs cannot be read here"))
    past = Past(
        node=params.get("node"),
        edge=params.get("edge"),
        sheet=params.get("sheet"),
        node_type=params.get("nodeType"),
        start=iso(params["from"], place.zone),
        end=iso(params["to"], place.zone),
        limit=int(params["limit"]),
        language=place.context.language,
    )
    return history_result(await place.context.history(place.context.graph_key, past))


async def _now(_: Params, place: CommandPlace) -> ToolResult:
    at = place.clock()
    day = datetime.fromtimestamp(at / 1000, place.zone)
    return ToolResult(text=f"{iso(at - at % 1000, place.zone)} ({day:%A}, {place.zone.key})")


_OPERATIONS: Mapping[tuple[str, str], Callable[[Params, CommandPlace], Awaitable[ToolResult]]] = {
    ("types", "get"): _type,
    ("types", "list"): _types,
    ("graphs", "list"): _graphs,
    ("graphs", "get"): _graph,
    ("nodes", "list"): _nodes,
    ("nodes", "get"): _node,
    ("nodes", "stats"): _stats,
    ("edges", "get"): _edges,
    ("history", "get"): _history,
    ("clock", "now"): _now,
}
