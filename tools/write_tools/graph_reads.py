"""Reads what checking and carrying out an action needs of a graph: all of a small one, else
what is near.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from datasources.base import GraphDataSource
from datasources.builtin_types import BUILTIN_TYPES, types_by_name
from datasources.hits import NodeVector
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig
from tools.action_keys import keys_named
from tools.proposals import (
    Action,
    CreateNodeAction,
    CreateNodeWithEdgesAction,
    DeleteNodeAction,
    ReorganizeLayoutAction,
    UpdateNodeAction,
    single_actions,
)
from tools.references import by_name, name_of, references

WHOLE_GRAPH_NODES = 5_000
PAGE_NODES = 500
SAMPLED_NODES = 500
"""Of a larger graph, so many nodes of each sheet are known as obstacles, besides all
that are near.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A graph at one revision, as far as an action needs it. `types` are by name,
    built-in ones too.

    `vectors` are only there for who stores what takes a change back.
    """

    graph: Graph
    nodes: Mapping[str, Node] = field(default_factory=dict[str, Node])
    edges: Mapping[str, Edge] = field(default_factory=dict[str, Edge])
    types: Mapping[str, NodeTypeConfig] = field(default_factory=lambda: dict(BUILTIN_TYPES))
    vectors: Mapping[str, NodeVector] = field(default_factory=dict[str, NodeVector])

    def type_of(self, name: str) -> NodeTypeConfig | None:
        """Return a type by its name, else by the key of its document."""
        found = self.types.get(name)
        return found or next((config for config in self.types.values() if config.key == name), None)

    def edges_of(self, keys: set[str]) -> dict[str, Edge]:
        """Return the edges that start or end at one of the nodes, by key."""
        return {key: e for key, e in self.edges.items() if e.source in keys or e.target in keys}


async def load_snapshot(
    source: GraphDataSource,
    graph_key: str,
    action: Action,
    *,
    whole_graph_nodes: int = WHOLE_GRAPH_NODES,
) -> Snapshot:
    """Read what checking, placing and carrying out an action needs.

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
    """Return the snapshot with the vectors of the nodes that a mutation changes or deletes. Raises:
    as the source.
    """
    changed = {*(node.key for node in mutation.put_nodes), *mutation.delete_nodes}
    keys = sorted(changed & snapshot.nodes.keys())
    if not keys:
        return snapshot
    return replace(snapshot, vectors=await source.get_vectors(snapshot.graph.key, keys))


def _is_to_be_placed(action: Action) -> bool:
    """Say whether something of it gets its place among the other nodes."""
    return any(
        (
            isinstance(single, CreateNodeAction | CreateNodeWithEdgesAction)
            and single.payload.pos_x is None
        )
        or (isinstance(single, ReorganizeLayoutAction) and single.payload.positions is None)
        for _, single in single_actions(action)
    )


async def load_near(
    source: GraphDataSource, graph_key: str, action: Action, also: Iterable[str] = ()
) -> Snapshot:
    """Read only what an action names, and the nodes `also`, with their edges and these edges' ends;
    and what refers by name to a node that is renamed or deleted.

    That is enough to check and carry out an action of which nothing is left to be placed.
    Raises: GraphNotFound and what else the source raises.
    """
    graph = await source.get_graph(graph_key)
    around = sorted({*keys_named(action, "node"), *also})
    edges = {edge.key: edge for edge in await source.get_edges_of(graph_key, around)}
    # also of new edges: they may replace none
    elsewhere = keys_named(action, "edge") - edges.keys()
    edges |= {
        edge.key: edge for edge in await source.get_edges_by_key(graph_key, sorted(elsewhere))
    }
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
    """Return the nodes that refer by name to one that the action may rename or delete, or
    share its name.
    """
    changed: set[str] = set()
    for _, single in single_actions(action):
        match single:
            case UpdateNodeAction(payload=payload) if payload.changes.keys() & {
                "data",
                "data.name",
            }:
                changed.add(payload.node_key)
            case DeleteNodeAction(payload=payload):
                changed.add(payload.node_key)
            case _:
                pass
    names = by_name(graph, [nodes[key] for key in changed if key in nodes])
    found: dict[str, Node] = {}
    after: str | None = None
    while names and (page := await source.get_nodes(graph.key, after=after, limit=PAGE_NODES)):
        found |= {n.key: n for n in page if name_of(n) in names or any(references([n], names))}
        after = page[-1].key
    return found
