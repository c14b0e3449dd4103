"""Lists completely the node sets that a search query names, as in "which nodes have no
error output".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datasources.text import node_label
from datasources.types import Edge, Node
from tools.base import ToolContext
from tools.compact import cut, cut_name
from tools.node_sets import NodeSet, asks_for_set, distinct, sets_in
from tools.read_tools.views import MAX_NAME_CHARS, MAX_TYPE_CHARS, Row, table

MAX_ROWS = 100  # in all lists of one answer together
MAX_GRAPHS = 200  # read for one answer
MAX_NODES = 20_000  # in all these graphs together


async def sets_of_graph(query: str, context: ToolContext) -> str:
    """Returns the node sets that `query` names, with their counts.

    Returns "" if it names none, or if the graph is too large to be read whole.
    """
    limit = context.limits.whole_graph_nodes
    if not asks_for_set(query):
        return ""
    nodes = await context.source.get_nodes(context.graph_key, limit=limit + 1)
    if len(nodes) > limit:
        return ""
    edges = await context.source.get_edges(context.graph_key)
    return _sets_text({context.graph_key: (nodes, edges)}, query, is_wide=False)


async def sets_of_workspace(query: str, context: ToolContext) -> str:
    """Returns the node sets that `query` names in all graphs, with their counts; "" if none.

    If a limit left some graphs unread, the text ends with their number.
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
    text = _sets_text(read, query, is_wide=True)
    unread = len(keys) - len(read)
    return f"{text}\n{unread} more graphs were not read for this." if text and unread else text


def _sets_text(
    graphs: Mapping[str, tuple[Sequence[Node], Sequence[Edge]]], query: str, *, is_wide: bool
) -> str:
    """Returns a table of the sets with their counts, and a table of their nodes."""
    sets_by_name: dict[tuple[str, str], list[tuple[str, NodeSet]]] = {}
    for key, (nodes, edges) in graphs.items():
        for node_set in distinct(sets_in(query, nodes, edges, also_all=is_wide)):
            # Sets of one value are joined even if the value has another kind in each graph.
            kind = "" if node_set.value else node_set.kind
            sets_by_name.setdefault((kind, node_set.value), []).append((key, node_set))
    labels = {(key, n.key): n for key, (nodes, _) in graphs.items() for n in nodes}
    total = len(labels)
    sets: list[Row] = []
    rows: list[Row] = []
    for parts_of_set in sets_by_name.values():
        first = parts_of_set[0][1]
        name = first.name
        count = sum(len(node_set.members) for _, node_set in parts_of_set)
        value = first.value or None
        sets.append({"set": name, "kind": first.kind, "value": value, "nodes": count, "of": total})
        for graph_key, node_set in parts_of_set:
            for key, holds in node_set.members.items():
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
