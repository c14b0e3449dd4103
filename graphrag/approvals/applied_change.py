"""The mutation that applies an action, its inverse, and their stored form."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

import numpy as np

from datasources.errors import BadDocument
from datasources.hits import NodeVector, Vector
from datasources.instructions import IDENTITY_FIELDS, apply_instruction
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig, parse_document
from graphrag.approvals.approval import Outcome
from graphrag.approvals.converter import ActionConversion
from tools.actions.field_changes import json_document
from tools.actions.snapshot import Snapshot

_PUT = {"put_nodes": ("putNodes", Node), "put_edges": ("putEdges", Edge)} | {
    "put_configs": ("putConfigs", NodeTypeConfig)
}
_DELETED = {
    "delete_nodes": "deleteNodes",
    "delete_edges": "deleteEdges",
    "delete_configs": "deleteConfigs",
}
_POSITION_FIELDS = ("posX", "posY")


def to_mutation(conversion: ActionConversion, snapshot: Snapshot) -> Mutation:
    """Returns the mutation that applies the conversion to this graph.

    Raises: InstructionError, BadDocument if an instruction does not fit its node.
    """
    nodes = {**snapshot.nodes, **conversion.new_nodes}
    documents: dict[str, Any] = {}
    for sent in conversion.instructions:
        key = str(sent["nodeId"])
        document = documents.setdefault(key, json_document(nodes[key]))
        documents[key] = apply_instruction(document, sent["i"], protected=IDENTITY_FIELDS)
    put = [node for node in conversion.new_nodes.values() if node.key not in documents]
    for key, document in documents.items():
        if key not in snapshot.nodes or document != json_document(nodes[key]):
            put.append(parse_document(Node, document, "nodes"))
    return Mutation(
        graph_key=snapshot.graph.key,
        put_nodes=put,
        put_edges=list(conversion.new_edges),
        delete_nodes=list(conversion.gone),
        delete_edges=list(conversion.cut),
        put_configs=[c.replace(workspace=snapshot.graph.workspace) for c in conversion.configs],
        graph=_graph_with(snapshot.graph, conversion.graph_fields)
        if conversion.graph_fields
        else None,
    )


def _graph_with(graph: Graph, fields: Mapping[str, Any]) -> Graph:
    """Returns the graph with these fields. Of sheets, only the given names change. Raises:
    BadDocument.
    """
    document = {**graph.to_document(), **fields}
    if isinstance(names := fields.get("sheetsList"), Mapping):
        document["sheetsList"] = {**graph.sheets_list, **names}
    return parse_document(Graph, {k: v for k, v in document.items() if v is not None}, "graphs")


def after(snapshot: Snapshot, mutation: Mutation) -> Snapshot:
    """Returns the snapshot after the mutation, with the same revision."""
    gone = set(mutation.delete_nodes)
    cut = set(mutation.delete_edges)
    cut |= snapshot.edges_of(gone).keys()
    unset = {*mutation.delete_configs, *(config.key for config in mutation.put_configs)}
    return replace(
        snapshot,
        graph=mutation.graph or snapshot.graph,
        nodes={k: n for k, n in snapshot.nodes.items() if k not in gone}
        | {node.key: node for node in mutation.put_nodes},
        edges={k: e for k, e in snapshot.edges.items() if k not in cut}
        | {edge.key: edge for edge in mutation.put_edges},
        types={name: c for name, c in snapshot.types.items() if c.key not in unset}
        | {config.type: config for config in mutation.put_configs},
        vectors={k: v for k, v in snapshot.vectors.items() if k not in gone}
        | {vector.key: vector for vector in mutation.put_vectors},
    )


def inverse_mutation(before: Snapshot, mutation: Mutation) -> Mutation:
    """Returns the mutation that restores nodes, edges, types and vectors.

    `before` must contain everything that the mutation touches, with its vectors. The vector of a
    node that only moved is not restored, because it may have been renewed since.
    """
    nodes = before.nodes
    gone = set(mutation.delete_nodes)
    cut = {
        *mutation.delete_edges,
        *before.edges_of(gone),
        *(edge.key for edge in mutation.put_edges),
    }
    own_types = {c.key: c for c in before.types.values() if c.workspace == before.graph.workspace}
    types = [*(config.key for config in mutation.put_configs), *mutation.delete_configs]
    renewed = [
        node.key for node in mutation.put_nodes if _has_new_content(nodes.get(node.key), node)
    ]
    return Mutation(
        graph_key=mutation.graph_key,
        put_nodes=[
            nodes[key]
            for key in [*(node.key for node in mutation.put_nodes), *mutation.delete_nodes]
            if key in nodes
        ],
        put_edges=[edge for key, edge in before.edges.items() if key in cut],
        delete_nodes=[node.key for node in mutation.put_nodes if node.key not in nodes],
        delete_edges=[edge.key for edge in mutation.put_edges if edge.key not in before.edges],
        put_configs=[own_types[key] for key in types if key in own_types],
        delete_configs=[
            config.key for config in mutation.put_configs if config.key not in own_types
        ],
        put_vectors=[
            before.vectors[key]
            for key in dict.fromkeys([*renewed, *mutation.delete_nodes])
            if key in before.vectors
        ],
        graph=None if mutation.graph is None else before.graph,
    )


def _has_new_content(old: Node | None, new: Node) -> bool:
    """Returns whether more than the position of a node changed."""
    if old is None:
        return True
    one, other = (
        {k: v for k, v in n.to_document().items() if k not in _POSITION_FIELDS} for n in (old, new)
    )
    return one != other


def outcome_of(
    before: Snapshot, mutation: Mutation, *, at: int, conversion: ActionConversion | None = None
) -> Outcome:
    """Returns the stored form of an applied mutation and of its inverse. `before`: as for
    `inverse_mutation`.

    Shapes: `keys`: `nodesCreated`, `edgesDeleted`, …; empty lists are omitted.
    """
    inverse = inverse_mutation(before, mutation)
    put_again = {edge.key for edge in mutation.put_edges}
    cut = [edge.key for edge in inverse.put_edges if edge.key not in put_again]
    keys: dict[str, list[str]] = {}
    for kind, new_keys, put, deleted in (
        ("nodes", inverse.delete_nodes, mutation.put_nodes, mutation.delete_nodes),
        ("edges", inverse.delete_edges, mutation.put_edges, cut),
        ("types", inverse.delete_configs, mutation.put_configs, mutation.delete_configs),
    ):
        created = sorted(set(new_keys))
        changed = sorted({document.key for document in put}.difference(created))
        keys |= {
            f"{kind}Created": created,
            f"{kind}Changed": changed,
            f"{kind}Deleted": sorted(deleted),
        }
    return Outcome(
        at=at,
        revision=before.graph.revision + 1,
        keys={name: kind_keys for name, kind_keys in keys.items() if kind_keys},
        mutation=_mutation_document(mutation),
        inverse=_mutation_document(inverse),
        irregular=_irregular_edges(before, inverse),
        conversion=conversion.to_document() if conversion else None,
    )


def _mutation_document(mutation: Mutation) -> dict[str, Any]:
    """Returns the mutation as JSON, with vectors in base64 and without empty parts."""
    parts: dict[str, Any] = {
        name: [document.to_document() for document in getattr(mutation, part)]
        for part, (name, _) in _PUT.items()
    }
    parts |= {name: list(getattr(mutation, part)) for part, name in _DELETED.items()}
    parts["putVectors"] = [
        {"key": v.key, "model": v.model, "hash": v.hash, "content": _packed(v.content)}
        | ({} if v.name is None else {"name": _packed(v.name)})
        for v in mutation.put_vectors
    ]
    parts["graph"] = None if mutation.graph is None else mutation.graph.to_document()
    return {"graphKey": mutation.graph_key, **{name: part for name, part in parts.items() if part}}


def mutation_from_document(document: Mapping[str, Any]) -> Mutation:
    """Returns the mutation of a stored document. Raises: BadDocument."""
    try:
        parts: dict[str, Any] = {
            part: [parse_document(model, raw, part) for raw in document.get(name, ())]
            for part, (name, model) in _PUT.items()
        }
        parts |= {
            part: [str(key) for key in document.get(name, ())] for part, name in _DELETED.items()
        }
        graph = document.get("graph")
        return Mutation(
            graph_key=str(document["graphKey"]),
            put_vectors=[_vector(raw) for raw in document.get("putVectors", ())],
            graph=None if graph is None else parse_document(Graph, graph, "graphs"),
            **parts,
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise BadDocument(
            collection="approval", key="?", field="mutation", reason=str(exc)
        ) from exc


def _vector(document: Mapping[str, Any]) -> NodeVector:
    name = document.get("name")
    facts = {part: str(document[part]) for part in ("key", "model", "hash")}
    content = _unpacked(document["content"])
    return NodeVector(**facts, content=content, name=None if name is None else _unpacked(name))


def _packed(vector: Vector) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _unpacked(text: str) -> Vector:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32)


def edges_without_handles(
    before: Snapshot, mutation: Mutation, irregular: Set[str]
) -> Iterator[str]:
    """Yields the problems of edges, restored or existing, that would not fit the handles of their
    nodes after an undo.

    `irregular`: restored edges that did not fit before either; these are not yielded.
    """
    result = after(before, mutation)
    changed = {node.key for node in mutation.put_nodes}
    restored = {edge.key for edge in mutation.put_edges}
    for key, edge in result.edges.items():
        is_restored = key in restored
        if (key in irregular) if is_restored else not {edge.source, edge.target} & changed:
            continue
        for end, handle, direction in _ends(edge):
            if end not in result.nodes:  # the snapshot need not contain it
                continue
            old = before.nodes.get(end)
            # An edge that already lacked its handle is not a problem of the undo.
            is_checked = is_restored or (old is not None and _has_handle(old, handle, direction))
            if is_checked and not _has_handle(result.nodes[end], handle, direction):
                yield f"edge/{key}: node {end} has no {direction} handle {handle}"
    ends = {_ends(result.edges[key]) for key in restored - irregular}
    for key, edge in result.edges.items():
        if key not in restored and _ends(edge) in ends:
            yield f"edge/{key}: connects the same handles"


def _irregular_edges(before: Snapshot, inverse: Mutation) -> list[str]:
    """Returns the restored edges that already violated the rules: without a handle, or beyond the
    limit of one.
    """
    restored = {edge.key: edge for edge in inverse.put_edges}
    counted = Counter(map(_ends, {**before.edges, **restored}.values()))

    def is_irregular(edge: Edge) -> bool:
        fits = all(
            end in before.nodes and _has_handle(before.nodes[end], handle, direction)
            for end, handle, direction in _ends(edge)
        )
        return not fits or counted[_ends(edge)] > 1

    return sorted(key for key, edge in restored.items() if is_irregular(edge))


def _ends(edge: Edge) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Returns the two ends of an edge as (node, handle, direction)."""
    return (edge.source, edge.source_handle, "out"), (edge.target, edge.target_handle, "in")


def _has_handle(node: Node, handle: str, direction: str) -> bool:
    """Returns whether a node has a handle. A node without its own handles has those of its type."""
    if not node.handles:
        return True
    return any(
        p.id == handle and p.type == direction
        for group in node.handles.values()
        for p in group.point
    )
