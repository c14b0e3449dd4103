"""Checks mutations. Every source runs this check before it writes.

A source gets the keys to read, in one batch, from `keys_to_look_up`, passes those that exist as
`Existing`, and calls `check_mutation`. All sources check in the same order: the graph is missing
(GraphNotFound), it changed (RevisionConflict), the mutation is invalid (InvalidMutation,
BadDocument), a record changed (RecordConflict).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from datasources.errors import BadDocument, InvalidMutation
from datasources.hits import NodeVector
from datasources.links import Link
from datasources.types import Document, Graph, Mutation, NodeTypeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """The keys that a check needs to look up, or those of them that are stored.

    `configs` are node types of the workspace. `on_dropped` are the stored nodes on
    `dropped_sheets`, `edges_on_dropped` the stored edges there with their ends.
    """

    nodes: Set[str] = frozenset()
    edges: Set[str] = frozenset()
    configs: Set[str] = frozenset()
    on_dropped: Set[str] = frozenset()
    edges_on_dropped: Mapping[str, Link] = field(default_factory=dict[str, Link])


def keys_to_look_up(mutation: Mutation) -> Existing:
    """Returns the keys whose existence decides whether the mutation may be applied."""
    put = {node.key for node in mutation.put_nodes}
    named = {end for edge in mutation.put_edges for end in (edge.source, edge.target)}
    named.update(vector.key for vector in mutation.put_vectors)
    return Existing(
        nodes=(named - put) | set(mutation.delete_nodes),
        edges=set(mutation.delete_edges),
        configs=set(mutation.delete_configs),
    )


def dropped_sheets(mutation: Mutation, graph: Graph) -> frozenset[str]:
    """Returns the sheets of the stored graph that the mutation removes."""
    if mutation.graph is None:
        return frozenset()
    return frozenset(graph.sheets_list.keys() - mutation.graph.sheets_list.keys())


def graph_after(mutation: Mutation, graph: Graph) -> Graph:
    """Returns the graph document after a mutation. A language that is set is kept."""
    new = mutation.graph or graph
    at = mutation.changed_at
    time = {} if at is None else {"last_updated_time": max(at, new.last_updated_time)}
    language = {"language": graph.language} if graph.language else {}
    revision = graph.revision + 1 if mutation.revision is None else mutation.revision
    return new.replace(revision=revision, **time, **language)


def check_mutation(mutation: Mutation, *, graph: Graph, existing: Existing) -> None:
    """Raises InvalidMutation if the mutation contradicts itself or the stored `graph`."""
    _check_graph(mutation, graph)
    _check_lists(mutation)
    _check_owners(mutation, graph)
    _check_sheets(mutation, graph)
    _check_dropped(mutation, existing)
    _check_known(mutation, existing)
    check_vectors(mutation.graph_key, mutation.put_vectors)


def _refuse_if(mutation: Mutation, reason: str, keys: Iterable[str]) -> None:
    wrong = sorted(set(keys))
    if wrong:
        raise InvalidMutation(graph_key=mutation.graph_key, reason=reason, keys=wrong)


def _check_graph(mutation: Mutation, graph: Graph) -> None:
    new = mutation.graph
    if new is not None and new.key != mutation.graph_key:
        _refuse_if(mutation, "the graph document has another key", [new.key])
    if new is not None and new.workspace != graph.workspace:
        _refuse_if(mutation, "a graph cannot move to another workspace", [new.key])


def _check_lists(mutation: Mutation) -> None:
    lists = (
        ("node", [node.key for node in mutation.put_nodes], mutation.delete_nodes),
        ("edge", [edge.key for edge in mutation.put_edges], mutation.delete_edges),
        ("type", [config.key for config in mutation.put_configs], mutation.delete_configs),
    )
    for noun, put, deleted in lists:
        _refuse_if(mutation, f"{noun}s are put twice in one mutation", _repeated(put))
        if deleted:
            _refuse_if(mutation, f"{noun}s are both put and deleted", set(put) & set(deleted))


def _repeated(keys: Sequence[str]) -> list[str]:
    if len(set(keys)) == len(keys):
        return []
    return [key for key, count in Counter(keys).items() if count > 1]


def _check_owners(mutation: Mutation, graph: Graph) -> None:
    key = mutation.graph_key
    for noun, documents in (("nodes", mutation.put_nodes), ("edges", mutation.put_edges)):
        foreign = [document.key for document in documents if document.graph_key != key]
        _refuse_if(mutation, f"{noun} of another graph", foreign)
    foreign = [config.key for config in mutation.put_configs if config.workspace != graph.workspace]
    _refuse_if(mutation, "node types of another workspace", foreign)


def _check_sheets(mutation: Mutation, graph: Graph) -> None:
    sheets = (mutation.graph or graph).sheets_list
    for noun, documents in (("nodes", mutation.put_nodes), ("edges", mutation.put_edges)):
        lost = [document.key for document in documents if document.sheet not in sheets]
        _refuse_if(mutation, f"{noun} on a sheet that the graph does not have", lost)


def _check_dropped(mutation: Mutation, existing: Existing) -> None:
    if not (existing.on_dropped or existing.edges_on_dropped):
        return
    gone = set(mutation.delete_nodes)
    left = existing.on_dropped - gone - {node.key for node in mutation.put_nodes}
    _refuse_if(mutation, "nodes stand on a sheet that would be taken away", left)
    named = {edge.key for edge in mutation.put_edges} | set(mutation.delete_edges)
    hanging = {key for key, ends in existing.edges_on_dropped.items() if gone.isdisjoint(ends)}
    _refuse_if(mutation, "edges are drawn on a sheet that would be taken away", hanging - named)


def _check_known(mutation: Mutation, existing: Existing) -> None:
    _refuse_if(
        mutation, "unknown nodes cannot be deleted", set(mutation.delete_nodes) - existing.nodes
    )
    _refuse_if(
        mutation, "unknown edges cannot be deleted", set(mutation.delete_edges) - existing.edges
    )
    configs = set(mutation.delete_configs) - existing.configs
    _refuse_if(mutation, "unknown node types cannot be deleted", configs)
    after = (existing.nodes - set(mutation.delete_nodes)) | {
        node.key for node in mutation.put_nodes
    }
    dangling = [e.key for e in mutation.put_edges if e.source not in after or e.target not in after]
    _refuse_if(mutation, "edges without a node at an end", dangling)
    _refuse_if(mutation, "vectors of unknown nodes", {v.key for v in mutation.put_vectors} - after)


def check_vectors(graph_key: str, vectors: Sequence[NodeVector]) -> None:
    """Raises InvalidMutation for vectors of a wrong shape or type, not finite, or put twice."""
    repeated = _repeated([vector.key for vector in vectors])
    if repeated:
        reason = "vectors are put twice in one batch"
        raise InvalidMutation(graph_key=graph_key, reason=reason, keys=sorted(repeated))
    for vector in vectors:
        reason = _vector_fault(vector)
        if reason:
            raise InvalidMutation(graph_key=graph_key, reason=reason, keys=[vector.key])


def _vector_fault(vector: NodeVector) -> str | None:
    parts = [vector.content] if vector.name is None else [vector.content, vector.name]
    if any(part.dtype != np.float32 or part.ndim != 1 or not part.size for part in parts):
        return "a vector must be float32[dim] with at least one dimension"
    if len({part.size for part in parts}) > 1:
        return "the vectors of content and name have different lengths"
    if not all(np.isfinite(part).all() for part in parts):
        return "a vector has infinite or undefined components"
    return None if vector.model else "a vector names no model"


def check_owner(document: Graph | NodeTypeConfig, workspace: str, collection: str) -> None:
    """Raises BadDocument if a document names another workspace than the one it is written to."""
    if document.workspace != workspace:
        reason = f"is {document.workspace!r}, but this source writes to {workspace!r}"
        raise BadDocument(collection=collection, key=document.key, field="workspace", reason=reason)


def encode_document(document: Document, collection: str, key: str) -> bytes:
    """Returns the document as stored JSON. Raises: BadDocument if JSON cannot represent it."""
    try:
        return document.to_json()
    except (TypeError, ValueError, RecursionError) as exc:
        raise BadDocument(
            collection=collection, key=key, field="(document)", reason=str(exc)
        ) from exc
