"""The state of a graph in memory, and the records of a workspace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar, Unpack

import orjson

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument, RecordConflict
from datasources.held_reads import HeldGraph
from datasources.hits import NodeVector, Vector
from datasources.mutations import encode_document, graph_after
from datasources.record_kinds import QueryOptions, RecordQuery, Where
from datasources.types import Document, Mutation, parse_document

D = TypeVar("D", bound=Document)


@dataclass(slots=True, kw_only=True, eq=False)
class GraphState(HeldGraph):
    """The state of one graph, with its vectors by node, in key order.

    A change does not modify it but creates a new state.
    """

    vectors: Mapping[str, NodeVector] = field(default_factory=dict[str, NodeVector])
    vectors_version: int = 0

    def after(self, mutation: Mutation) -> GraphState:
        """Returns the state after a checked mutation. Raises: BadDocument."""
        gone = set(mutation.delete_nodes)
        cut = set(mutation.delete_edges)
        nodes = {key: node for key, node in self.nodes.items() if key not in gone}
        edges = {
            key: edge
            for key, edge in self.edges.items()
            if key not in cut and edge.source not in gone and edge.target not in gone
        }
        nodes.update(
            (node.key, stored_copy(node, "nodes", node.key)) for node in mutation.put_nodes
        )
        edges.update(
            (edge.key, stored_copy(edge, "edges", edge.key)) for edge in mutation.put_edges
        )
        graph = graph_after(mutation, self.graph)
        vectors = {key: vector for key, vector in self.vectors.items() if key not in gone}
        return GraphState(
            graph=stored_copy(graph, "graphs", graph.key),
            nodes=dict(sorted(nodes.items())),
            edges=dict(sorted(edges.items())),
            vectors=_with_vectors(vectors, mutation.put_vectors),
            vectors_version=self.vectors_version,
            words=self.words,
            uses=self.uses,
        )

    def with_vectors(self, vectors: Iterable[NodeVector]) -> GraphState:
        """Returns the state with these vectors, at the same revision."""
        merged = _with_vectors(self.vectors, vectors)
        return replace(self, vectors=merged, vectors_version=self.vectors_version + 1)


def stored_copy(document: D, collection: str, key: str) -> D:
    """Returns a copy of the document that has passed through JSON, as from a real store.

    Raises: BadDocument if JSON cannot represent it.
    """
    return parse_document(type(document), encode_document(document, collection, key), collection)


def _with_vectors(
    old: Mapping[str, NodeVector], new: Iterable[NodeVector]
) -> dict[str, NodeVector]:
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

    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        self.stored = self.after(writes)
        return [self.stored.get((write.kind, write.key)) for write in writes]

    def after(self, writes: Iterable[RecordWrite]) -> dict[Name, Record]:
        """Returns the records after the writes, applied in order, without storing them.

        Raises: RecordConflict, BadDocument.
        """
        records = dict(self.stored)
        for write in writes:
            name = (write.kind, write.key)
            current = records.get(name)
            if (current.version if current else None) != write.expected_version:
                raise RecordConflict(
                    kind=write.kind, key=write.key, expected=write.expected_version
                )
            if write.data is None:
                records.pop(name, None)
            else:
                records[name] = Record(
                    kind=write.kind,
                    key=write.key,
                    data=_stored(write),
                    version=str(next(_versions)),
                )
        return records

    async def query(
        self, kind: str, where: Where | None = None, **how: Unpack[QueryOptions]
    ) -> list[Record]:
        asked = RecordQuery.of(kind, where, **how)
        order_by = asked.order_by
        records = [
            record
            for (kind, _), record in sorted(self.stored.items())
            if kind == asked.kind
            and all(record.data.get(name) == value for name, value in asked.where.items())
            and (not asked.bounded or _is_within(record.data.get(order_by or ""), asked))
        ]
        if order_by:  # the sort is stable also in reverse: ties stay in key order
            records.sort(
                key=lambda record: _rank(record.data.get(order_by)), reverse=asked.descending
            )
        elif asked.descending:
            records.reverse()
        return records[: asked.limit]

    async def get_page(self, kind: str, *, after: str | None = None, limit: int) -> list[Record]:
        keys = sorted(key for of_kind, key in self.stored if of_kind == kind)
        later = [key for key in keys if after is None or key > after]
        return [self.stored[kind, key] for key in later[: max(0, limit)]]


def _stored(write: RecordWrite) -> Mapping[str, Any]:
    try:
        return orjson.loads(orjson.dumps(write.data))
    except TypeError as exc:
        raise BadDocument(
            collection=write.kind, key=write.key, field="data", reason=str(exc)
        ) from exc


def _is_within(value: Any, asked: RecordQuery) -> bool:
    least = asked.at_least
    most = asked.at_most
    is_number = isinstance(value, int | float)
    return is_number and (least is None or value >= least) and (most is None or value <= most)


def _rank(value: Any) -> tuple[int, float, str]:
    """Returns a sort key for values of several types: missing, then numbers, then text."""
    if isinstance(value, bool | int | float):
        return (1, value, "")
    return (2, 0, value) if isinstance(value, str) else (0, 0, "")
