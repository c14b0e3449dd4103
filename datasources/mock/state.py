"""One graph at one moment: its documents, the state after a change, questions about it. And records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

import numpy as np
import orjson

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument, RecordConflict
from datasources.lexical import LexicalIndex
from datasources.mutations import encode_document, graph_after
from datasources.record_kinds import RecordQuery
from datasources.text import node_text, tokenize
from datasources.types import (
    Document,
    Edge,
    Graph,
    GraphStats,
    Mutation,
    Node,
    NodeTypeConfig,
    NodeVector,
    SearchField,
    Vector,
    parse_document,
)
from datasources.uses import entries_of
from datasources.vectors import VectorMatrix

D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphState:
    """Never changed once made (but for `indexes`, a cache of it). Mappings are in key order."""

    graph: Graph
    nodes: Mapping[str, Node] = field(default_factory=dict[str, Node])
    edges: Mapping[str, Edge] = field(default_factory=dict[str, Edge])
    vectors: Mapping[str, NodeVector] = field(default_factory=dict[str, NodeVector])
    vectors_version: int = 0
    uses: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """The entries of each node that refers to something."""
    indexes: dict[tuple[str | int, ...], LexicalIndex | VectorMatrix] = field(
        default_factory=dict[tuple[str | int, ...], LexicalIndex | VectorMatrix]
    )

    def after(self, mutation: Mutation) -> GraphState:
        """Return the state that a checked mutation leads to. Raises: BadDocument."""
        gone = set(mutation.delete_nodes)
        cut = set(mutation.delete_edges)
        nodes = {key: node for key, node in self.nodes.items() if key not in gone}
        edges = {
            key: edge
            for key, edge in self.edges.items()
            if key not in cut and edge.source not in gone and edge.target not in gone
        }
        nodes.update((node.key, stored_copy(node, "nodes", node.key)) for node in mutation.put_nodes)
        edges.update((edge.key, stored_copy(edge, "edges", edge.key)) for edge in mutation.put_edges)
        graph = graph_after(mutation, self.graph)
        vectors = {key: vector for key, vector in self.vectors.items() if key not in gone}
        uses = {key: entries for key, entries in self.uses.items() if key not in gone}
        uses.update((node.key, frozenset(entries_of(node))) for node in mutation.put_nodes)
        return GraphState(
            graph=stored_copy(graph, "graphs", graph.key),
            nodes=dict(sorted(nodes.items())),
            edges=dict(sorted(edges.items())),
            vectors=_with_vectors(vectors, mutation.put_vectors),
            vectors_version=self.vectors_version,
            uses=uses,
        )

    def with_vectors(self, vectors: Iterable[NodeVector]) -> GraphState:
        """Return the state with these vectors, at the same revision."""
        merged = _with_vectors(self.vectors, vectors)
        return replace(self, vectors=merged, vectors_version=self.vectors_version + 1, indexes={})

    def stats(self) -> GraphStats:
        return GraphStats(
            nodes=len(self.nodes),
            edges=len(self.edges),
            types=Counter(node.type for node in self.nodes.values()),
            vectors=Counter(vector.model for vector in self.vectors.values()),
        )

    def lexical_index(
        self, search_field: SearchField, types: Mapping[str, NodeTypeConfig], types_version: int
    ) -> LexicalIndex:
        """Return the index of the nodes' words as they read with these types."""
        name = ("text", search_field, types_version)
        index = self.indexes.get(name)
        if not isinstance(index, LexicalIndex):
            texts = [
                node_text(node, types.get(node.type), self.graph.language) for node in self.nodes.values()
            ]
            index = LexicalIndex.build(
                (text.key, tokenize(text.content if search_field == "content" else text.names))
                for text in texts
            )
            for stale in [other for other in self.indexes if other[:2] == name[:2]]:
                del self.indexes[stale]  # of the types as they were
            self.indexes[name] = index
        return index

    def vector_matrix(self, search_field: SearchField, model: str, dim: int) -> VectorMatrix:
        """Return the matrix of the vectors of one model and length."""
        name = ("vectors", search_field, model, dim)
        matrix = self.indexes.get(name)
        if not isinstance(matrix, VectorMatrix):
            found = {
                key: part
                for key, vector in self.vectors.items()
                if vector.model == model
                and (part := vector.content if search_field == "content" else vector.name) is not None
                and part.size == dim
            }
            rows = np.stack(list(found.values())) if found else np.zeros((0, dim), dtype=np.float32)
            matrix = self.indexes[name] = VectorMatrix.build(list(found), rows)
        return matrix


def stored_copy(document: D, collection: str, key: str) -> D:
    """Return the document as a store gives it back: apart from the caller's objects, as JSON has it.

    Raises: BadDocument for what JSON cannot hold.
    """
    return parse_document(type(document), encode_document(document, collection, key), collection)


def _with_vectors(old: Mapping[str, NodeVector], new: Iterable[NodeVector]) -> dict[str, NodeVector]:
    merged = dict(old)
    for vector in new:
        name = None if vector.name is None else _frozen(vector.name)
        merged[vector.key] = replace(vector, content=_frozen(vector.content), name=name)
    return dict(sorted(merged.items()))


def _frozen(vector: Vector) -> Vector:
    copy = vector.copy()
    copy.flags.writeable = False
    return copy


_versions = count(1)
Name = tuple[str, str]


@dataclass(slots=True)
class MemoryRecords(RecordStore):
    """The records of one workspace."""

    stored: dict[Name, Record] = field(default_factory=dict[Name, Record])

    async def get(self, kind: str, key: str) -> Record | None:
        return self.stored.get((kind, key))

    async def write_one(self, write: RecordWrite) -> Record | None:
        self.stored = self.after([write])
        return self.stored.get((write.kind, write.key))

    async def write(self, writes: Sequence[RecordWrite]) -> None:
        self.stored = self.after(writes)

    def after(self, writes: Iterable[RecordWrite]) -> dict[Name, Record]:
        """Return the records as they are after the writes, one upon the other; changes nothing yet.

        Raises: RecordConflict, BadDocument.
        """
        records = dict(self.stored)
        for write in writes:
            name = (write.kind, write.key)
            current = records.get(name)
            if (current.version if current else None) != write.expected_version:
                raise RecordConflict(kind=write.kind, key=write.key, expected=write.expected_version)
            if write.data is None:
                records.pop(name, None)
            else:
                records[name] = Record(
                    kind=write.kind, key=write.key, data=_stored(write), version=str(next(_versions))
                )
        return records

    async def find(self, asked: RecordQuery, fields: Sequence[str]) -> list[Record]:  # noqa: ARG002
        order_by = asked.order_by
        found = [
            record
            for (kind, _), record in sorted(self.stored.items())
            if kind == asked.kind
            and all(record.data.get(name) == value for name, value in asked.where.items())
            and (not asked.bounded or _is_within(record.data.get(order_by or ""), asked))
        ]
        if order_by:  # the sort is stable, also backwards: ties stay in key order
            found.sort(key=lambda record: _rank(record.data.get(order_by)), reverse=asked.descending)
        elif asked.descending:
            found.reverse()
        return found[: asked.limit]


def _stored(write: RecordWrite) -> Mapping[str, Any]:
    try:
        return orjson.loads(orjson.dumps(write.data))
    except TypeError as exc:
        raise BadDocument(collection=write.kind, key=write.key, field="data", reason=str(exc)) from exc


def _is_within(value: Any, asked: RecordQuery) -> bool:
    least, most = asked.at_least, asked.at_most
    is_number = isinstance(value, int | float)
    return is_number and (least is None or value >= least) and (most is None or value <= most)


def _rank(value: Any) -> tuple[int, float, str]:
    """Order values of several types: what is missing, then numbers, then text."""
    if isinstance(value, bool | int | float):
        return (1, value, "")
    return (2, 0, value) if isinstance(value, str) else (0, 0, "")
