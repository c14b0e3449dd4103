"""What pending proposals of a thread will create: a later proposal may build on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from datasources.types import Edge, Node, NodeTypeConfig, parse_document
from graphrag.approvals.approval import Action, Approval
from tools.proposals import (
    ConfigureNodeTypeAction,
    CreateNodeAction,
    CreateNodeWithEdgesAction,
    UpdateNodeAction,
    parse_action,
    single_actions,
    to_document,
)
from tools.write_tools import Snapshot
from tools.write_tools.graph_reads import edges_named, nodes_named

_NODE_FIELDS = ("nodeKey", "sourceKey", "targetKey", "targetNodeKey")


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """The documents that one pending proposal adds."""

    approval_id: str
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    types: Mapping[str, NodeTypeConfig]

    def is_used_by(self, action: Action) -> bool:
        """Say whether an action names a node, an edge or a type of these."""
        named = nodes_named(action) | edges_named(action)
        return bool(named & {*self.nodes, *self.edges}) or bool(_types_named(action) & self.types.keys())


def additions_of(approval: Approval) -> Additions:
    """Read from a proposal's preview what it adds. Raises: BadDocument."""
    shown = approval.preview
    nodes = [parse_document(Node, raw, "nodes") for raw in shown.get("nodesAdded", ())]
    edges = [parse_document(Edge, raw, "edges") for raw in shown.get("edgesAdded", ())]
    types = [parse_document(NodeTypeConfig, raw, "node_configs") for raw in shown.get("typesAdded", ())]
    return Additions(
        approval_id=approval.id,
        nodes={node.key: node for node in nodes},
        edges={edge.key: edge for edge in edges},
        types={config.type: config for config in types},
    )


def with_additions(snapshot: Snapshot, additions: Iterable[Additions]) -> Snapshot:
    """Return the graph as if these were applied; an edge whose end is not there is left out."""
    nodes, edges, types = dict(snapshot.nodes), dict(snapshot.edges), dict(snapshot.types)
    for added in additions:
        types.update(added.types)
        nodes.update(added.nodes)
        edges.update(added.edges)
    standing = {key: e for key, e in edges.items() if e.source in nodes and e.target in nodes}
    return replace(snapshot, nodes=nodes, edges=standing, types=types)


def used_by(action: Action, additions: Sequence[Additions]) -> list[Additions]:
    """Return those additions that an action builds on; what they build on themselves is theirs to say."""
    return [added for added in additions if added.is_used_by(action)]


def own_names(proposed: Action, settled: Action) -> dict[str, str]:
    """Return the names that an action gave its new nodes, with the keys they got."""
    pairs = zip(single_actions(proposed), single_actions(settled), strict=True)
    found: dict[str, str] = {}
    for (_, before), (_, after) in pairs:
        if isinstance(before, CreateNodeAction | CreateNodeWithEdgesAction) and before.payload.key:
            made = cast(CreateNodeAction | CreateNodeWithEdgesAction, after).payload.key
            if made and made != before.payload.key:
                found[before.payload.key] = made
    return found


def renamed(action: Action, names: Mapping[str, str], known: Iterable[str]) -> Action:
    """Put the keys of pending nodes where an action uses their names.

    A name that is a node of the graph (`known`), or that the action creates itself, means that node.
    """
    created = {
        single.payload.key
        for _, single in single_actions(action)
        if isinstance(single, CreateNodeAction | CreateNodeWithEdgesAction)
    }
    meant = {name: key for name, key in names.items() if name not in created and name not in known}
    if not meant or not nodes_named(action) & meant.keys():
        return action
    return parse_action(_renamed(to_document(action), meant))


def _renamed(document: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    payload = dict(document["payload"])
    for field in _NODE_FIELDS:
        if field in payload:
            payload[field] = names.get(payload[field], payload[field])
    if "edges" in payload and document["type"] == "create_node_with_edges":
        payload["edges"] = [
            {**edge, "targetNodeKey": names.get(edge["targetNodeKey"], edge["targetNodeKey"])}
            for edge in payload["edges"]
        ]
    if "nodeKeys" in payload:
        payload["nodeKeys"] = [names.get(key, key) for key in payload["nodeKeys"]]
    for position in payload.get("positions", ()):
        position["nodeKey"] = names.get(position["nodeKey"], position["nodeKey"])
    if document["type"] == "batch":
        payload["actions"] = [_renamed(inner, names) for inner in payload["actions"]]
    return {**document, "payload": payload}


def _types_named(action: Action) -> set[str]:
    found: set[str] = set()
    for _, single in single_actions(action):
        match single:
            case CreateNodeAction() | CreateNodeWithEdgesAction() | ConfigureNodeTypeAction():
                found.add(single.payload.type_key)
            case UpdateNodeAction(payload=payload) if isinstance(payload.changes.get("type"), str):
                found.add(str(payload.changes["type"]))
            case _:
                pass
    return found
