"""The mutation that carries out a conversion, and the mutation that takes it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from datasources.instructions import IDENTITY_FIELDS, apply_instruction
from datasources.types import Edge, Graph, Mutation, Node, NodeVector, parse_document
from graphrag.approvals.actions.converter import ActionConversionResult
from tools.write_tools.field_changes import json_document
from tools.write_tools.graph_reads import Snapshot

_OF_POSITION = ("posX", "posY")


def to_mutation(result: ActionConversionResult, snapshot: Snapshot) -> Mutation:
    """Return the batch of changes that carries out the conversion on this graph.

    Raises: InstructionError, BadDocument, when an instruction does not fit its node.
    """
    new = {node.key: node for node in result.nodes_to_create}
    documents: dict[str, Any] = {}
    for sent in result.instructions:
        key = str(sent["nodeId"])
        node = new.get(key) or snapshot.nodes[key]
        document = documents.setdefault(key, json_document(node))
        documents[key] = apply_instruction(document, sent["i"], protected=IDENTITY_FIELDS)
    put: list[Node] = [node for key, node in new.items() if key not in documents]
    for key, document in documents.items():
        old = new.get(key) or snapshot.nodes[key]
        if key in new or document != json_document(old):
            put.append(parse_document(Node, document, "nodes"))
    workspace = snapshot.graph.workspace
    return Mutation(
        graph_key=snapshot.graph.key,
        put_nodes=put,
        put_edges=list(result.edges_to_create),
        delete_nodes=list(result.node_keys_to_delete),
        delete_edges=list(result.edge_keys_to_delete),
        put_configs=[
            config if config.workspace == workspace else config.replace(workspace=workspace)
            for config in result.node_configs_to_upsert
        ],
        graph=_graph_with(snapshot.graph, result.graph_fields) if result.graph_fields else None,
    )


def after(snapshot: Snapshot, mutation: Mutation) -> Snapshot:
    """Return the snapshot as the mutation leaves it; the revision stays."""
    gone, cut = set(mutation.delete_nodes), set(mutation.delete_edges)
    own = {config.type: config for config in mutation.put_configs}
    unset = {*mutation.delete_configs, *(config.key for config in mutation.put_configs)}
    return replace(
        snapshot,
        graph=mutation.graph or snapshot.graph,
        nodes={k: n for k, n in snapshot.nodes.items() if k not in gone}
        | {node.key: node for node in mutation.put_nodes},
        edges={
            key: edge
            for key, edge in snapshot.edges.items()
            if key not in cut and edge.source not in gone and edge.target not in gone
        }
        | {edge.key: edge for edge in mutation.put_edges},
        types={name: c for name, c in snapshot.types.items() if c.key not in unset} | own,
        vectors={k: v for k, v in snapshot.vectors.items() if k not in gone}
        | {vector.key: vector for vector in mutation.put_vectors},
    )


def _graph_with(graph: Graph, fields: Mapping[str, Any]) -> Graph:
    """Return the graph with these fields; of sheets, only the names given are others. Raises: BadDocument."""
    document = {**graph.to_document(), **fields}
    if isinstance(names := fields.get("sheetsList"), Mapping):
        document["sheetsList"] = {**graph.sheets_list, **names}
    return parse_document(Graph, {k: v for k, v in document.items() if v is not None}, "graphs")


def inverse_mutation(before: Snapshot, mutation: Mutation) -> Mutation:
    """Return the changes that restore nodes, edges, types and vectors as they were before.

    `before` must hold what the mutation touches, with its vectors. The vector of a node that only
    moved is left alone: it may have been renewed since.
    """
    gone = set(mutation.delete_nodes)
    old_nodes = [before.nodes[node.key] for node in mutation.put_nodes if node.key in before.nodes]
    restored = [before.nodes[key] for key in mutation.delete_nodes if key in before.nodes]
    cut = {*mutation.delete_edges, *before.edges_of(gone)}
    workspace = before.graph.workspace
    own = {config.key: config for config in before.types.values() if config.workspace == workspace}
    return Mutation(
        graph_key=mutation.graph_key,
        put_nodes=[*old_nodes, *restored],
        put_edges=_old_edges(before, mutation, cut),
        delete_nodes=[node.key for node in mutation.put_nodes if node.key not in before.nodes],
        delete_edges=[edge.key for edge in mutation.put_edges if edge.key not in before.edges],
        put_configs=[own[c.key] for c in mutation.put_configs if c.key in own]
        + [own[key] for key in mutation.delete_configs if key in own],
        delete_configs=[config.key for config in mutation.put_configs if config.key not in own],
        put_vectors=_old_vectors(before, mutation),
        graph=None if mutation.graph is None else before.graph,
    )


def _old_edges(before: Snapshot, mutation: Mutation, cut: set[str]) -> Sequence[Edge]:
    replaced = {edge.key for edge in mutation.put_edges}
    return [edge for key, edge in before.edges.items() if key in cut | replaced]


def _old_vectors(before: Snapshot, mutation: Mutation) -> list[NodeVector]:
    touched = [node.key for node in mutation.put_nodes if content_changed(before.nodes.get(node.key), node)]
    keys = dict.fromkeys([*touched, *mutation.delete_nodes])
    return [before.vectors[key] for key in keys if key in before.vectors]


def content_changed(old: Node | None, new: Node) -> bool:
    """Say whether a node changed in more than its position."""
    if old is None:
        return True
    one, other = old.to_document(), new.to_document()
    for name in _OF_POSITION:
        one.pop(name, None)
        other.pop(name, None)
    return one != other
