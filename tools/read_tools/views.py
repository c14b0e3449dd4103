"""What the read tools share: arguments, rows, tables, and the answer to a key that does not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import Field

from datasources.builtin_types import types_by_name
from datasources.text import node_label
from datasources.types import Edge, Graph, Node, NodeTypeConfig
from tools.base import Problem, ToolContext, ToolResult, failure
from tools.compact import compact_value, cut, cut_name, sheet_label
from tools.key_suggestions import describe_near, near_nodes
from tools.secret_texts import redacted
from tools.toon import encode_table

MAX_NAME_CHARS = 80
MAX_TYPE_CHARS = 120

NodeKey = Annotated[str, Field(min_length=1, max_length=400)]
Row = dict[str, Any]


def find_sheet(graph: Graph, wanted: str) -> str | None:
    """Return the id of a sheet given by id, by name or as `0 main`; None for no such sheet."""
    if wanted in graph.sheets_list:
        return wanted
    low = wanted.strip().casefold()
    for sheet, name in graph.sheets_list.items():
        if low in (sheet.casefold(), name.casefold(), sheet_label(graph, sheet).casefold()):
            return sheet
    return None


def unknown_sheet(graph: Graph, wanted: str) -> ToolResult:
    shown = ", ".join(sheet_label(graph, sheet) for sheet in list(graph.sheets_list)[:50])
    return failure("not_found", Problem(what=f"no sheet {wanted[:60]!r}", where="sheetId", allowed=shown))


async def unknown_node(context: ToolContext, graph: Graph, key: str, where: str = "nodeKey") -> ToolResult:
    """Return the error for a key that is not in this graph, with the nodes that may be meant."""
    return failure("not_found", await missing_node(context, graph, key, where))


async def missing_node(context: ToolContext, graph: Graph, key: str, where: str = "nodeKey") -> Problem:
    near = describe_near(await near_nodes(context.source, graph, key), graph)
    what = f"no node {key[:200]!r} in this graph"
    hint = f"did you mean: {near}" if near else "find the key with search_nodes"
    return Problem(what=f"{what}; {hint}", where=where)


def node_row(node: Node, graph: Graph) -> Row:
    """Return the columns that every list of nodes begins with."""
    label = node_label(node)
    return {
        "_key": node.key,
        "type": cut(node.type, MAX_TYPE_CHARS),
        "sheet": sheet_label(graph, node.sheet),
        "name": None if label == node.key else cut_name(label, MAX_NAME_CHARS),
    }


def data_without_name(node: Node) -> Any:
    """Return the node's data but for the name that `node_row` shows."""
    if not isinstance(node.data, Mapping):
        return node.data
    label = node_label(node)
    pairs = cast(Mapping[str, Any], node.data)
    return {key: value for key, value in pairs.items() if key != "name" or value != label}


def digest(node: Node, limit: int) -> str | None:
    """Return the beginning of what a node holds: its data, else its code."""
    data = data_without_name(node)
    text = "" if data is None else compact_value(data)
    return cut(text or redacted(node.process or "").text.strip(), limit) or None


def edge_row(edge: Edge) -> Row:
    return {
        "from": f"{edge.source}:{edge.source_handle}",
        "to": f"{edge.target}:{edge.target_handle}",
        "label": None if edge.label is None else cut_name(edge.label, MAX_NAME_CHARS),
    }


def table(name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as a table; columns after the first that no row fills are left out."""
    kept = [c for i, c in enumerate(columns) if not i or any(row.get(c) is not None for row in rows)]
    return encode_table(name, rows, kept)


async def all_types(context: ToolContext) -> dict[str, NodeTypeConfig]:
    """Return every type this workspace sees, built-in ones too, by name."""
    return types_by_name(await context.source.get_node_configs())


async def type_of(context: ToolContext, name: str) -> NodeTypeConfig | None:
    return types_by_name(await context.source.get_node_configs([name])).get(name)
