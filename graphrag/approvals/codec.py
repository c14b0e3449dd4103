"""The stored form of a mutation: documents as they are, vectors in base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from datasources.errors import BadDocument
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig, NodeVector, Vector, parse_document

_WHERE = "approval"


def mutation_to_document(mutation: Mutation) -> dict[str, Any]:
    """Return the mutation as JSON; empty parts are left out."""
    parts: dict[str, Any] = {
        "putNodes": [node.to_document() for node in mutation.put_nodes],
        "putEdges": [edge.to_document() for edge in mutation.put_edges],
        "deleteNodes": list(mutation.delete_nodes),
        "deleteEdges": list(mutation.delete_edges),
        "putConfigs": [config.to_document() for config in mutation.put_configs],
        "deleteConfigs": list(mutation.delete_configs),
        "putVectors": [_vector_document(vector) for vector in mutation.put_vectors],
    }
    found = {"graphKey": mutation.graph_key, **{name: part for name, part in parts.items() if part}}
    if mutation.graph is not None:
        found["graph"] = mutation.graph.to_document()
    return found


def mutation_from_document(document: Mapping[str, Any]) -> Mutation:
    """Read a stored mutation. Raises: BadDocument."""
    try:
        graph = document.get("graph")
        return Mutation(
            graph_key=str(document["graphKey"]),
            put_nodes=[parse_document(Node, raw, "nodes") for raw in document.get("putNodes", ())],
            put_edges=[parse_document(Edge, raw, "edges") for raw in document.get("putEdges", ())],
            delete_nodes=[str(key) for key in document.get("deleteNodes", ())],
            delete_edges=[str(key) for key in document.get("deleteEdges", ())],
            put_configs=[
                parse_document(NodeTypeConfig, raw, "node_configs") for raw in document.get("putConfigs", ())
            ],
            delete_configs=[str(key) for key in document.get("deleteConfigs", ())],
            put_vectors=[_vector(raw) for raw in document.get("putVectors", ())],
            graph=None if graph is None else parse_document(Graph, graph, "graphs"),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise BadDocument(collection=_WHERE, key="?", field="mutation", reason=str(exc)) from exc


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
