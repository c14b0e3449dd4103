"""The stored form of an applied change: its mutation, what undoes it, and the keys of what changed."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from datasources.errors import BadDocument
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig, NodeVector, Vector, parse_document
from graphrag.approvals.approval import Outcome
from graphrag.approvals.restored_edges import irregular_edges
from tools.write_tools import Snapshot

_PUT = {"put_nodes": "putNodes", "put_edges": "putEdges", "put_configs": "putConfigs"}
_DELETED = {"delete_nodes": "deleteNodes", "delete_edges": "deleteEdges", "delete_configs": "deleteConfigs"}
_MODELS = {"put_nodes": Node, "put_edges": Edge, "put_configs": NodeTypeConfig}


def outcome_of(before: Snapshot, mutation: Mutation, inverse: Mutation, *, at: int) -> Outcome:
    """Return what is stored of a mutation that is applied to a graph as it was `before`."""
    return Outcome(
        at=at,
        revision=before.graph.revision + 1,
        keys=_keys_of(mutation, inverse),
        mutation=_mutation_document(mutation),
        inverse=_mutation_document(inverse),
        irregular=irregular_edges(before, inverse),
    )


def _keys_of(mutation: Mutation, inverse: Mutation) -> dict[str, list[str]]:
    """Return the keys of what a mutation creates, changes and deletes; lists that are empty are left out."""
    new_nodes, new_edges = set(inverse.delete_nodes), set(inverse.delete_edges)
    new_types = set(inverse.delete_configs)
    put_again = {edge.key for edge in mutation.put_edges}
    found = {
        "nodesCreated": sorted(new_nodes),
        "nodesChanged": sorted(n.key for n in mutation.put_nodes if n.key not in new_nodes),
        "nodesDeleted": sorted(mutation.delete_nodes),
        "edgesCreated": sorted(new_edges),
        "edgesChanged": sorted(e.key for e in mutation.put_edges if e.key not in new_edges),
        "edgesDeleted": sorted(e.key for e in inverse.put_edges if e.key not in put_again),
        "typesCreated": sorted(new_types),
        "typesChanged": sorted(c.key for c in mutation.put_configs if c.key not in new_types),
        "typesDeleted": sorted(mutation.delete_configs),
    }
    return {name: keys for name, keys in found.items() if keys}


def _mutation_document(mutation: Mutation) -> dict[str, Any]:
    """Return the mutation as JSON, vectors in base64; empty parts are left out."""
    parts: dict[str, Any] = {
        name: [document.to_document() for document in getattr(mutation, part)] for part, name in _PUT.items()
    }
    parts |= {name: list(getattr(mutation, part)) for part, name in _DELETED.items()}
    parts["putVectors"] = [_vector_document(vector) for vector in mutation.put_vectors]
    found = {"graphKey": mutation.graph_key, **{name: part for name, part in parts.items() if part}}
    if mutation.graph is not None:
        found["graph"] = mutation.graph.to_document()
    return found


def mutation_from_document(document: Mapping[str, Any]) -> Mutation:
    """Read a stored mutation. Raises: BadDocument."""
    try:
        parts: dict[str, Any] = {
            part: [parse_document(_MODELS[part], raw, part) for raw in document.get(name, ())]
            for part, name in _PUT.items()
        }
        parts |= {part: [str(key) for key in document.get(name, ())] for part, name in _DELETED.items()}
        graph = document.get("graph")
        return Mutation(
            graph_key=str(document["graphKey"]),
            put_vectors=[_vector(raw) for raw in document.get("putVectors", ())],
            graph=None if graph is None else parse_document(Graph, graph, "graphs"),
            **parts,
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise BadDocument(collection="approval", key="?", field="mutation", reason=str(exc)) from exc


def _vector_document(vector: NodeVector) -> dict[str, Any]:
    document = {
        "key": vector.key,
        "model": vector.model,
        "hash": vector.hash,
        "content": _packed(vector.content),
    }
    return document if vector.name is None else {**document, "name": _packed(vector.name)}


def _vector(document: Mapping[str, Any]) -> NodeVector:
    name = document.get("name")
    return NodeVector(
        key=str(document["key"]),
        model=str(document["model"]),
        hash=str(document["hash"]),
        content=_unpacked(document["content"]),
        name=None if name is None else _unpacked(name),
    )


def _packed(vector: Vector) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _unpacked(text: str) -> Vector:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32)
