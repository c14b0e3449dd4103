"""Reads what checking and carrying out an action needs of a graph: all of a small one, else
what is near.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.types import Graph, Mutation, Node
from tools.action_keys import keys_named
from tools.actions.snapshot import Snapshot
from tools.proposals import Action, single_actions
from tools.references import by_name, name_of, references

WHOLE_GRAPH_NODES = 5_000
PAGE_NODES = 500
_NAME_PATHS = {"data", "data.name"}
SAMPLED_NODES = 500
"""Of a larger graph, so many nodes of each sheet are known as obstacles, besides all
that are near.
"""


async def load_snapshot(
    source: GraphDataSource,
    graph_key: str,
    action: Action,
    *,
    whole_graph_nodes: int = WHOLE_GRAPH_NODES,
) -> Snapshot:
    """Reads what checking, placing and carrying out an action needs.

    Raises: GraphNotFound and what else the source raises.
    """
    if not _is_to_be_placed(action):
        return await load_near(source, graph_key, action)
    graph = await source.get_graph(graph_key)
    stats = await source.get_stats(graph_key)
    types = types_by_name(await source.get_node_configs())
    if stats.nodes > whole_graph_nodes:
        near = await load_near(source, graph_key, action)
        nodes = dict(near.nodes)
        for sheet in graph.sheets_list:
            sample = await source.get_nodes(graph_key, sheet=sheet, limit=SAMPLED_NODES)
            nodes |= {node.key: node for node in sample}
        return replace(near, nodes=dict(sorted(nodes.items())))
    nodes = {node.key: node for node in await source.get_nodes(graph_key)}
    edges = {edge.key: edge for edge in await source.get_edges(graph_key)}
    return Snapshot(
        graph=graph,
        nodes=dict(sorted(nodes.items())),
        edges=dict(sorted(edges.items())),
        types=types,
    )


async def with_vectors(source: GraphDataSource, snapshot: Snapshot, mutation: Mutation) -> Snapshot:
    """Returns the snapshot with the vectors of the nodes that a mutation changes or deletes.

    Raises: as the source.
    """
    changed = {*(node.key for node in mutation.put_nodes), *mutation.delete_nodes}
    keys = sorted(changed & snapshot.nodes.keys())
    if not keys:
        return snapshot
    return replace(snapshot, vectors=await source.get_vectors(snapshot.graph.key, keys))


def _is_to_be_placed(action: Action) -> bool:
    """Returns whether something of it gets its place among the other nodes."""
    return any(single.effects().places for _, single in single_actions(action))


async def load_near(
    source: GraphDataSource, graph_key: str, action: Action, also: Iterable[str] = ()
) -> Snapshot:
    """Reads only the nodes that an action names, and those of `also`, with their edges and the ends
    of these, and the nodes that refer by name to one that is renamed or deleted.

    That is enough to check and carry out an action of which nothing is left to be placed.
    Raises: GraphNotFound and what else the source raises.
    """
    graph = await source.get_graph(graph_key)
    around = sorted({*keys_named(action, "node"), *also})
    edges = {edge.key: edge for edge in await source.get_edges_of(graph_key, around)}
    # also of new edges: they may replace none
    elsewhere = sorted(keys_named(action, "edge") - edges.keys())
    if elsewhere:
        named = await source.get_edges_by_key(graph_key, elsewhere)
        edges |= {edge.key: edge for edge in named}
    ends = {end for edge in edges.values() for end in (edge.source, edge.target)}
    nodes = {
        node.key: node
        for node in await source.get_nodes_by_key(graph_key, sorted({*around, *ends}))
    }
    nodes |= await _referring(source, graph, action, nodes)
    return Snapshot(
        graph=graph,
        nodes=dict(sorted(nodes.items())),
        edges=dict(sorted(edges.items())),
        types=types_by_name(await source.get_node_configs()),
    )


async def _referring(
    source: GraphDataSource, graph: Graph, action: Action, nodes: Mapping[str, Node]
) -> dict[str, Node]:
    """Returns the nodes that refer by name to one that the action may rename or delete, or
    share its name.
    """
    changed: set[str] = set()
    for _, single in single_actions(action):
        effects = single.effects()
        changed |= effects.deletes
        changed |= {key for key, new in effects.updates.items() if new.keys() & _NAME_PATHS}
    names = by_name(graph, [nodes[key] for key in changed if key in nodes])
    found: dict[str, Node] = {}
    after: str | None = None
    while names and (page := await source.get_nodes(graph.key, after=after, limit=PAGE_NODES)):
        found |= {n.key: n for n in page if name_of(n) in names or any(references([n], names))}
        after = page[-1].key
    return found
