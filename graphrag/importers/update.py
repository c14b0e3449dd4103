"""Turns an import into the smallest mutation that brings the stored graph to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from datasources.types import Document, Edge, Graph, Mutation, Node, NodeTypeConfig
from graphrag.importers.assemble import ImportResult
from graphrag.importers.known import ExistingGraph, is_imported

K = TypeVar("K", Node, Edge, NodeTypeConfig)


def to_mutation(result: ImportResult, existing: ExistingGraph | None) -> Mutation:
    """Return what must change; nothing when the graph is as the file says.

    What an earlier import made and the file no longer has is deleted; what people added stays.
    With `existing` None the graph is new and empty: it is to be created first.
    """
    if existing is None:
        return Mutation(
            graph_key=result.graph.key,
            put_nodes=result.nodes,
            put_edges=result.edges,
            put_configs=result.configs,
        )
    form = result.report.format
    node_keys = {node.key for node in result.nodes}
    edge_keys = {edge.key for edge in result.edges}
    gone = {node.key for node in existing.nodes if node.key not in node_keys and is_imported(node, form)}
    return Mutation(
        graph_key=result.graph.key,
        put_nodes=_changed(result.nodes, existing.nodes),
        put_edges=_changed(result.edges, existing.edges),
        put_configs=_changed(result.configs, existing.configs),
        delete_nodes=sorted(gone),
        delete_edges=[
            edge.key
            for edge in existing.edges
            if edge.key not in edge_keys
            and (is_imported(edge, form) or edge.source in gone or edge.target in gone)
        ],
        graph=None if _same_graph(result.graph, existing.graph) else result.graph,
    )


def _changed(new: Sequence[K], old: Sequence[K]) -> tuple[K, ...]:
    stored = {document.key: document for document in old}
    return tuple(d for d in new if d.key not in stored or not _same(d, stored[d.key]))


def _same(new: Document, old: Document) -> bool:
    return new.to_document() == old.to_document()


def _same_graph(new: Graph, old: Graph) -> bool:
    return _same(new.replace(revision=0), old.replace(revision=0))
