"""Documents at the border: ours with local keys, ArangoDB's with document keys and fields of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from datasources.arango.keys import (
    document_key,
    encoded,
    end_key,
    is_as_nodius,
    is_plain,
    local_key,
    node_id,
    own_key,
)
from datasources.arango.names import (
    EMBEDDING,
    EMBEDDING_BITS,
    EMBEDDING_HASH,
    EMBEDDING_MODEL,
    HIDDEN,
    LOCAL_KEY,
    NAME_EMBEDDING,
    OTHER_EMBEDDING,
    OTHER_NAME_EMBEDDING,
    TEXT,
)
from datasources.arango.words import own_words
from datasources.mutations import encode_document
from datasources.types import Document, Edge, Graph, Node, NodeTypeConfig, NodeVector, Vector, parse_document

_SERVERS = ("_id", "_rev", "_key", LOCAL_KEY, *HIDDEN)


def _plain(document: Document, collection: str, key: str) -> dict[str, Any]:
    """Return the document as JSON has it. Raises: BadDocument for what JSON cannot hold."""
    return orjson.loads(encode_document(document, collection, key))


def graph_document(graph: Graph) -> dict[str, Any]:
    """Return a graph as it is stored. Raises: BadDocument."""
    return _kept(_plain(graph, "graphs", graph.key), encoded(graph.key), graph.key, is_plain(graph.key))


def config_document(config: NodeTypeConfig) -> dict[str, Any]:
    """Return a node type as it is stored, under the key that it has if no other workspace does.

    Raises: BadDocument.
    """
    plain = _plain(config, "node_configs", config.key)
    return _kept(plain, encoded(config.key), config.key, is_plain(config.key))


def config_keys(workspace: str, key: str) -> tuple[str, str]:
    """Return the two keys under which a workspace's type may be stored: as it is, or as this workspace's."""
    return encoded(key), encoded(f"{workspace}\0{key}")


def node_document(node: Node) -> dict[str, Any]:
    """Return a node as it is stored, with its words. Raises: BadDocument."""
    plain = _plain(node, "nodes", node.key)
    key = document_key(node.graph_key, node.key)
    return {**_kept(plain, key, node.key, is_as_nodius(node.graph_key, node.key)), TEXT: own_words(node)}


def edge_document(edge: Edge) -> dict[str, Any]:
    """Return an edge as it is stored, with the ids of its ends. Raises: BadDocument."""
    plain = _plain(edge, "edges", edge.key)
    ends = {"_from": node_id(edge.graph_key, edge.source), "_to": node_id(edge.graph_key, edge.target)}
    # What can be read off the ids is not written twice; Nodius does not write it either.
    for name, local in (("source", edge.source), ("target", edge.target)):
        if is_as_nodius(edge.graph_key, local):
            plain.pop(name, None)
    key = document_key(edge.graph_key, edge.key)
    return {**_kept(plain, key, edge.key, is_as_nodius(edge.graph_key, edge.key)), **ends}


def _kept(plain: dict[str, Any], key: str, local: str, readable: bool) -> dict[str, Any]:
    document = {**plain, "_key": key}
    if not readable:
        document[LOCAL_KEY] = local
    return document


def read_graph(stored: Mapping[str, Any]) -> Graph:
    """Raises: BadDocument."""
    return parse_document(Graph, _ours(stored, own_key(stored)), "graphs")


def read_config(stored: Mapping[str, Any]) -> NodeTypeConfig:
    """Raises: BadDocument."""
    return parse_document(NodeTypeConfig, _ours(stored, own_key(stored)), "node_configs")


def read_node(stored: Mapping[str, Any], graph_key: str) -> Node:
    """Raises: BadDocument."""
    return parse_document(Node, _ours(stored, local_key(stored, graph_key)), "nodes")


def read_edge(stored: Mapping[str, Any], graph_key: str) -> Edge:
    """Raises: BadDocument."""
    ours = _ours(stored, local_key(stored, graph_key))
    for name, end in (("source", "_from"), ("target", "_to")):
        ours[name] = end_key(stored, end, graph_key)
        ours.pop(end, None)
    return parse_document(Edge, ours, "edges")


def _ours(stored: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {"_key": key, **{name: value for name, value in stored.items() if name not in _SERVERS}}


def vector_fields(vector: NodeVector, indexed_dim: int | None) -> dict[str, Any]:
    """Return the fields of a node that hold its vectors; null removes what an earlier vector left.

    `indexed_dim` is the length that the server's vector index takes, None where there is none.
    """
    fits = indexed_dim is None or vector.content.size == indexed_dim
    content, name = (_numbers(part) for part in (vector.content, vector.name))
    return {
        EMBEDDING: content if fits else None,
        NAME_EMBEDDING: name if fits else None,
        OTHER_EMBEDDING: None if fits else content,
        OTHER_NAME_EMBEDDING: None if fits else name,
        EMBEDDING_BITS: None,
        EMBEDDING_MODEL: vector.model,
        EMBEDDING_HASH: vector.hash,
    }


def _numbers(vector: Vector | None) -> list[float] | None:
    return None if vector is None else vector.tolist()


def read_vector(row: Mapping[str, Any], key: str) -> NodeVector | None:
    """Return a stored vector; None for what is none, as another program may have written."""
    content, name = (read_part(row.get(part)) for part in ("content", "name"))
    if content is None:
        return None
    return NodeVector(key=key, model=row["model"], hash=row.get("hash") or "", content=content, name=name)


def read_part(numbers: Any) -> Vector | None:
    """Return one stored vector; None for what is none."""
    if not isinstance(numbers, list) or not numbers:
        return None
    try:
        return np.array(numbers, dtype=np.float32)
    except (TypeError, ValueError):
        return None
