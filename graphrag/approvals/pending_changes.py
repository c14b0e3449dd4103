"""The additions of pending proposals of a thread, on which later proposals may build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from datasources.base import GraphDataSource
from datasources.held_reads import E, page_of
from datasources.types import Edge, Node, NodeTypeConfig, parse_document
from graphrag.approvals.approval import Action, Approval
from tools import proposals
from tools.action_keys import keys_named, with_node_keys
from tools.write_tools import Snapshot


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """The documents that one pending proposal adds."""

    approval_id: str
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    types: Mapping[str, NodeTypeConfig]


def additions_of(approval: Approval) -> Additions:
    """Returns the documents that a proposal adds, from its preview. Raises: BadDocument."""
    shown = approval.preview
    nodes = [parse_document(Node, raw, "nodes") for raw in shown.get("nodesAdded", ())]
    edges = [parse_document(Edge, raw, "edges") for raw in shown.get("edgesAdded", ())]
    types = [
        parse_document(NodeTypeConfig, raw, "node_configs") for raw in shown.get("typesAdded", ())
    ]
    return Additions(
        approval_id=approval.id,
        nodes={node.key: node for node in nodes},
        edges={edge.key: edge for edge in edges},
        types={config.type: config for config in types},
    )


def with_additions(snapshot: Snapshot, additions: Iterable[Additions]) -> Snapshot:
    """Returns the graph with these additions, without edges that have a missing end."""
    nodes = dict(snapshot.nodes)
    edges = dict(snapshot.edges)
    types = dict(snapshot.types)
    for added in additions:
        types.update(added.types)
        nodes.update(added.nodes)
        edges.update(added.edges)
    complete = {key: e for key, e in edges.items() if e.source in nodes and e.target in nodes}
    return replace(snapshot, nodes=nodes, edges=complete, types=types)


def used_by(action: Action, additions: Sequence[Additions]) -> list[Additions]:
    """Returns the additions that an action builds on directly."""
    named = keys_named(action, "node") | keys_named(action, "edge")
    types = keys_named(action, "type")
    return [a for a in additions if named & {*a.nodes, *a.edges} or types & a.types.keys()]


def own_names(proposed: Action, finalized: Action) -> dict[str, str]:
    """Returns the names that an action gave its new nodes, with their keys."""
    pairs = zip(_keys_created(proposed), _keys_created(finalized), strict=True)
    return {name: key for name, key in pairs if name and key and name != key}


def _keys_created(action: Action) -> list[str | None]:
    singles = (single for _, single in proposals.single_actions(action))
    return [new.key for single in singles if (new := single.effects().creates)]


def renamed(action: Action, names: Mapping[str, str], existing: Iterable[str]) -> Action:
    """Replaces the names of pending nodes in an action by their keys.

    A name that is a key in the graph (`existing`), or of a node that the action creates, is kept.
    """
    unchanged = {*_keys_created(action), *existing}
    keys = {name: key for name, key in names.items() if name not in unchanged}
    if not keys or not keys_named(action, "node") & keys.keys():
        return action
    return with_node_keys(action, keys)


@final
class PendingView:
    """A GraphDataSource for write tools that includes pending nodes, edges and types.

    A pending node has its key, and also the name that the model gave it. Searches and traversals
    use the stored graph only.
    """

    def __init__(
        self,
        source: GraphDataSource,
        graph_key: str,
        additions: Iterable[Additions],
        names: Mapping[str, str],
    ) -> None:
        self._source = source
        self._graph_key = graph_key
        listed = list(additions)
        self._nodes = {key: node for added in listed for key, node in added.nodes.items()}
        self._edges = {key: edge for added in listed for key, edge in added.edges.items()}
        self._types = {name: config for added in listed for name, config in added.types.items()}
        named = {name: self._nodes[key] for name, key in names.items() if key in self._nodes}
        self._nodes |= {name: node.replace(key=name) for name, node in named.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def get_nodes(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        stored = await self._source.get_nodes(graph_key, sheet=sheet, after=after, limit=limit)
        more = list(self._nodes.values()) if graph_key == self._graph_key else []
        return _joined(stored, page_of(more, sheet, after, None))[:limit]

    async def get_edges(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        stored = await self._source.get_edges(graph_key, sheet=sheet, after=after, limit=limit)
        more = list(self._edges.values()) if graph_key == self._graph_key else []
        return _joined(stored, page_of(more, sheet, after, None))[:limit]

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        pending = self._nodes if graph_key == self._graph_key else {}
        return _by_key(keys, await self._source.get_nodes_by_key(graph_key, keys), pending)

    async def get_edges_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        pending = self._edges if graph_key == self._graph_key else {}
        return _by_key(keys, await self._source.get_edges_by_key(graph_key, keys), pending)

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        pending = self._edges.values() if graph_key == self._graph_key else ()
        more = [edge for edge in pending if {edge.source, edge.target} & set(keys)]
        return _joined(await self._source.get_edges_of(graph_key, keys), more)

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        stored = await self._source.get_node_configs(types)
        stored_types = {config.type for config in stored}
        more = [
            c
            for t, c in self._types.items()
            if t not in stored_types and (types is None or t in types)
        ]
        return [*stored, *more]


def _by_key(keys: Sequence[str], stored: Sequence[E], pending: Mapping[str, E]) -> list[E]:
    elements = {**pending, **{element.key: element for element in stored}}
    return [elements[key] for key in dict.fromkeys(keys) if key in elements]


def _joined(stored: list[E], more: list[E]) -> list[E]:
    elements = {element.key: element for element in [*more, *stored]}
    return [elements[key] for key in sorted(elements)]
