"""Writes the sets of nodes that a search names ("which nodes have no error
output") as complete lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datasources.text import node_label
from datasources.types import Edge, Node
from tools.base import ToolContext
from tools.compact import cut, cut_name
from tools.node_sets import NodeSet, asks_for_set, distinct, sets_in
from tools.read_tools.views import MAX_NAME_CHARS, MAX_TYPE_CHARS, Row, table

MAX_ROWS = 100  # of all lists of an answer together
MAX_GRAPHS = 200  # that are read for one answer
MAX_NODES = 20_000  # of all these graphs together


async def sets_of_graph(query: str, context: ToolContext) -> str:
    """Returns the sets that a search names, with their counts; "" for none and
    for a large graph.
    """
    limit = context.limits.whole_graph_nodes
    if not asks_for_set(query):
        return ""
    nodes = await context.source.get_nodes(context.graph_key, limit=limit + 1)
    if len(nodes) > limit:
        return ""
    edges = await context.source.get_edges(context.graph_key)
    return _written({context.graph_key: (nodes, edges)}, query, is_wide=False)


async def sets_of_workspace(query: str, context: ToolContext) -> str:
    """Returns the sets that a search names in all graphs, with their counts; "" for none.

    Where there are more graphs or nodes than are read, it says so.
    """
    if not asks_for_set(query):
        return ""
    keys = [graph.key for graph in await context.source.list_graphs()]
    keys = [key for key in keys if context.graphs is None or key in context.graphs]
    read: dict[str, tuple[Sequence[Node], Sequence[Edge]]] = {}
    left = MAX_NODES
    for key in keys[:MAX_GRAPHS]:
        if (await context.source.get_stats(key)).nodes > left:
            continue
        read[key] = (await context.source.get_nodes(key), await context.source.get_edges(key))
        left -= len(read[key][0])
    text = _written(read, query, is_wide=True)
    unread = len(keys) - len(read)
    return f"{text}\n{unread} more graphs were not read for this." if text and unread else text


def _written(
    graphs: Mapping[str, tuple[Sequence[Node], Sequence[Edge]]], query: str, *, is_wide: bool
) -> str:
    """Returns the sets of some graphs as a table of counts and a table of nodes."""
    found: dict[tuple[str, str], list[tuple[str, NodeSet]]] = {}
    for key, (nodes, edges) in graphs.items():
        for one in distinct(sets_in(query, nodes, edges, also_all=is_wide)):
            kind = "" if one.value else one.kind  # a value is one thing, whatever holds it
            found.setdefault((kind, one.value), []).append((key, one))
    labels = {(key, n.key): n for key, (nodes, _) in graphs.items() for n in nodes}
    total = len(labels)
    sets: list[Row] = []
    rows: list[Row] = []
    for members in found.values():
        name = members[0][1].name
        count = sum(len(one.members) for _, one in members)
        kind = members[0][1].kind
        value = members[0][1].value or None
        sets.append({"set": name, "kind": kind, "value": value, "nodes": count, "of": total})
        for graph_key, one in members:
            for key, holds in one.members.items():
                node = labels[graph_key, key]
                row = {"_key": key, "type": cut(node.type, MAX_TYPE_CHARS), "holds": holds or None}
                label = cut_name(node_label(node), MAX_NAME_CHARS)
                rows.append(
                    {"set": name, "graph": graph_key if is_wide else None, **row, "name": label}
                )
    if not sets:
        return ""
    parts = [table("sets", sets, ["set", "kind", "value", "nodes", "of"])]
    if rows:
        columns = ["set", "graph", "_key", "type", "name", "holds"]
        parts.append(table("complete", rows[:MAX_ROWS], columns))
    return "\n".join(parts)
