"""Writes a graph as Nodius JSON, the form that imports without loss."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from datasources.types import Document, Edge, Graph, Node, NodeTypeConfig

FORMAT = "nodius"
FORMAT_VERSION = 1

DERIVED_FIELDS = frozenset({"embedding", "embeddingModel", "embeddingHash"})
"""What a database computed of a node; another one computes its own."""


def export_graph(
    graph: Graph, nodes: Iterable[Node], edges: Iterable[Edge], configs: Iterable[NodeTypeConfig]
) -> dict[str, Any]:
    """Return `{format, formatVersion, graph, nodes, edges, configs}`, each list in key order.

    The graph's revision and vectors belong to a database and are left out, as are types that
    no node uses.
    """
    listed = sorted(nodes, key=lambda node: node.key)
    return {
        "format": FORMAT,
        "formatVersion": FORMAT_VERSION,
        "graph": graph_document(graph),
        "nodes": [node_document(node) for node in listed],
        "edges": [edge.to_document() for edge in sorted(edges, key=lambda edge: edge.key)],
        "configs": config_documents(configs, {node.type for node in listed}),
    }


def graph_document(graph: Graph) -> dict[str, Any]:
    return _without(graph, frozenset({"revision"}))


def node_document(node: Node) -> dict[str, Any]:
    return _without(node, DERIVED_FIELDS)


def config_documents(configs: Iterable[NodeTypeConfig], used: Set[str]) -> list[dict[str, Any]]:
    """Return the types that nodes use, by key."""
    ordered = sorted(configs, key=lambda config: config.key)
    return [config.to_document() for config in ordered if config.type in used]


def _without(document: Document, fields: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in document.to_document().items() if name not in fields}
