"""A store as a stranger would write one: a dict of JSON texts, with what `datasources` has to help.

The tests run the contract suite on it, and ask it a question: one module is all that a new store
needs, beside a line where stores are chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any, Self, Unpack, final

import orjson

from datasources.base import Abilities, Finding, Record, RecordStore, RecordWrite
from datasources.builtin_types import visible_types
from datasources.errors import (
    BadDocument,
    GraphExists,
    GraphNotFound,
    RecordConflict,
    RevisionConflict,
)
from datasources.everywhere import FoundNode, WideHits, joined, of_graph, with_nodes
from datasources.held_reads import HeldGraph, HeldReads
from datasources.hits import FIELDS, Hit, NodeVector, SearchField, VectorInfo
from datasources.links import Link
from datasources.mutations import (
    Existing,
    check_mutation,
    check_owner,
    check_vectors,
    dropped_sheets,
    encode_document,
    graph_after,
)
from datasources.notices import SILENT, NoticeRouter
from datasources.record_kinds import QueryOptions, RecordQuery, Where
from datasources.search import SearchHits, SearchRequest
from datasources.types import (
    ROOT_WORKSPACE,
    Edge,
    Graph,
    GraphStats,
    GraphVersions,
    Mutation,
    Node,
    NodeTypeConfig,
    parse_document,
)
from datasources.vectors import nearest

Texts = dict[str, bytes]  # documents as JSON, by key


@final
@dataclass(slots=True, kw_only=True)
class StoredGraph:
    """One graph: its documents as JSON, its vectors, and the number of times they were stored."""

    graph: bytes
    nodes: Texts = field(default_factory=dict[str, bytes])
    edges: Texts = field(default_factory=dict[str, bytes])
    vectors: dict[str, NodeVector] = field(default_factory=dict[str, NodeVector])
    embeddings: int = 0

    def document(self) -> Graph:
        return parse_document(Graph, self.graph, "graphs")

    def read(self) -> HeldGraph:
        nodes = (parse_document(Node, text, "nodes") for text in self.nodes.values())
        edges = (parse_document(Edge, text, "edges") for text in self.edges.values())
        return HeldGraph(
            graph=self.document(),
            nodes={node.key: node for node in sorted(nodes, key=lambda one: one.key)},
            edges={edge.key: edge for edge in sorted(edges, key=lambda one: one.key)},
        )

    def near(self, request: SearchRequest, part: SearchField) -> list[Hit]:
        query = request.vector_query(part)
        if query is None:
            return []
        stored = sorted(self.vectors.values(), key=lambda one: one.key)
        vectors = {
            one.key: one.content if part == "content" else one.name
            for one in stored
            if one.model == query.model
        }
        return nearest(vectors, query.vector, query.limit, query.min_score)


@final
@dataclass(slots=True)
class JsonRecords(RecordStore):
    """Keeps the records of one workspace."""

    stored: dict[tuple[str, str], Record] = field(default_factory=dict[tuple[str, str], Record])
    versions: Any = field(default_factory=count)

    async def get(self, kind: str, key: str) -> Record | None:
        return self.stored.get((kind, key))

    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        self.stored = self.after(writes)
        return [self.stored.get((write.kind, write.key)) for write in writes]

    def after(self, writes: Sequence[RecordWrite]) -> dict[tuple[str, str], Record]:
        records = dict(self.stored)
        for write in writes:
            current = records.pop((write.kind, write.key), None)
            if (current.version if current else None) != write.expected_version:
                raise RecordConflict(
                    kind=write.kind, key=write.key, expected=write.expected_version
                )
            try:
                plain = replace(write, data=orjson.loads(orjson.dumps(write.data)))
            except TypeError as exc:
                raise BadDocument(
                    collection=write.kind, key=write.key, field="data", reason=str(exc)
                ) from exc
            record = plain.stored(str(next(self.versions)))
            if record is not None:
                records[write.kind, write.key] = record
        return records

    async def get_page(self, kind: str, *, after: str | None = None, limit: int) -> list[Record]:
        of_kind = [one for one in self.stored.values() if one.kind == kind]
        later = [one for one in of_kind if after is None or one.key > after]
        return sorted(later, key=lambda one: one.key)[: max(0, limit)]

    async def query(
        self, kind: str, where: Where | None = None, **how: Unpack[QueryOptions]
    ) -> list[Record]:
        asked = RecordQuery.of(kind, where, **how)

        def rank(record: Record) -> tuple[int, float, str]:
            value = record.data.get(asked.order_by or "")
            if isinstance(value, int | float):
                return (1, value, "")
            return (2, 0, value) if isinstance(value, str) else (0, 0, "")

        def is_wanted(record: Record) -> bool:
            level, value, _ = rank(record)
            within = (asked.at_least is None or value >= asked.at_least) and (
                asked.at_most is None or value <= asked.at_most
            )
            return (not asked.bounded or (level == 1 and within)) and all(
                record.data.get(name) == value for name, value in asked.where.items()
            )

        of_kind = [self.stored[name] for name in sorted(self.stored) if name[0] == kind]
        records = list(filter(is_wanted, of_kind))
        if asked.order_by:
            records.sort(key=rank, reverse=asked.descending)
        elif asked.descending:
            records.reverse()
        return records[: asked.limit]


@final
@dataclass(frozen=True, slots=True)
class JsonSource(HeldReads):
    """Implements MutableGraphDataSource: reads a graph whole for every question."""

    database: JsonDatabase
    workspace: str

    @property
    def abilities(self) -> Abilities:
        return Abilities()

    def _stored(self, graph_key: str) -> StoredGraph:
        stored = self.database.graphs.get(graph_key)
        if stored is None or stored.document().workspace != self.workspace:
            raise GraphNotFound(graph_key=graph_key)
        return stored

    def held(self, graph_key: str) -> HeldGraph:
        return self._stored(graph_key).read()

    async def list_graphs(self) -> list[Graph]:
        graphs = [stored.document() for _, stored in sorted(self.database.graphs.items())]
        return [graph for graph in graphs if graph.workspace == self.workspace]

    async def get_graph(self, graph_key: str) -> Graph:
        return self._stored(graph_key).document()

    async def get_versions(self, graph_key: str) -> GraphVersions:
        stored = self._stored(graph_key)
        return GraphVersions(graph=stored.document(), vectors=str(stored.embeddings))

    async def get_stats(self, graph_key: str) -> GraphStats:
        stored = self._stored(graph_key)
        return stored.read().stats(one.model for one in stored.vectors.values())

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        own, root = (self.database.types(name) for name in (self.workspace, ROOT_WORKSPACE))
        visible = visible_types(own.values(), root.values())
        return [config for config in visible if types is None or config.type in types]

    async def search(self, graph_key: str, request: SearchRequest) -> SearchHits:
        stored = self._stored(graph_key)
        graph = stored.read()
        hits = graph.search_words(request, await self.get_node_configs())
        vector, name_vector = (stored.near(request, part) for part in FIELDS)
        hits = replace(hits, vector=vector, name_vector=name_vector)
        return hits.or_first(islice(graph.nodes, request.first))

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        vectors = await self.get_vectors(graph_key, keys)
        return {key: VectorInfo(one.model, one.hash) for key, one in vectors.items()}

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        vectors = self._stored(graph_key).vectors
        return {key: vectors[key] for key in dict.fromkeys(keys) if key in vectors}

    async def _graphs(self, named: Sequence[str] | None) -> list[HeldGraph]:
        keys = [graph.key for graph in await self.list_graphs()]
        return [self.held(key) for key in keys if named is None or key in named]

    async def find_users(
        self, entries: Sequence[str], *, limit: int, graphs: Sequence[str] | None = None
    ) -> list[FoundNode]:
        users = [user for graph in await self._graphs(graphs) for user in graph.users(entries)]
        return users[: max(0, limit)]

    async def search_everywhere(
        self, asked: SearchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        held = {graph.graph.key: graph for graph in await self._graphs(graphs)}
        parts = [of_graph(key, await self.search(key, asked)) for key in held]
        hits = joined(parts, asked.limit)
        return with_nodes(hits, {name: held[name[0]].found(name[1]) for name in hits.names})

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        check_owner(graph, self.workspace, "graphs")
        if graph.key in self.database.graphs:
            raise GraphExists(graph_key=graph.key)
        text = encode_document(graph.replace(revision=0), "graphs", graph.key)
        return self._write(StoredGraph(graph=text), mutation, records)

    async def delete_graph(self, graph_key: str) -> None:
        self._stored(graph_key)
        del self.database.graphs[graph_key]

    async def apply(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None = None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        stored = self._stored(mutation.graph_key)
        revision = stored.document().revision
        if expected_revision not in (None, revision):
            raise RevisionConflict(
                graph_key=mutation.graph_key, expected=expected_revision or 0, actual=revision
            )
        return self._write(stored, mutation, records).revision

    def _write(
        self, stored: StoredGraph, mutation: Mutation | None, records: Sequence[RecordWrite]
    ) -> Graph:
        """Stores all or nothing: whatever refuses the change raises before the first assignment."""
        types = self.database.types(self.workspace)
        if mutation is not None:
            stored, types = _after(stored, types, mutation)
        kept = self.database.records(self.workspace)
        after = kept.after(records)
        graph = stored.document()
        self.database.graphs[graph.key] = stored
        self.database.configs[self.workspace] = types
        kept.stored = after
        return graph

    async def get_own_configs(self) -> list[NodeTypeConfig]:
        return [config for _, config in sorted(self.database.types(self.workspace).items())]

    async def put_node_config(self, config: NodeTypeConfig) -> None:
        check_owner(config, self.workspace, "node_configs")
        types = self.database.types(self.workspace)
        self.database.configs[self.workspace] = {**types, config.key: _copy_of(config)}

    async def put_embeddings(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        stored = self._stored(graph_key)
        check_vectors(graph_key, vectors)
        kept = {one.key: _frozen(one) for one in vectors if one.key in stored.nodes}
        stored.vectors.update(kept)
        stored.embeddings += bool(kept)
        return len(kept)


def _copy_of(config: NodeTypeConfig) -> NodeTypeConfig:
    text = encode_document(config, "node_configs", config.key)
    return parse_document(NodeTypeConfig, text, "node_configs")


def _frozen(vector: NodeVector) -> NodeVector:
    name = None if vector.name is None else vector.name.copy()
    return replace(vector, content=vector.content.copy(), name=name)


def _after(
    stored: StoredGraph, types: Mapping[str, NodeTypeConfig], mutation: Mutation
) -> tuple[StoredGraph, Mapping[str, NodeTypeConfig]]:
    """Returns graph and types after a mutation. Raises: InvalidMutation, BadDocument."""
    held = stored.read()
    dropped = dropped_sheets(mutation, held.graph)
    existing = Existing(
        nodes=held.nodes.keys(),
        edges=held.edges.keys(),
        configs=types.keys(),
        on_dropped={key for key, node in held.nodes.items() if node.sheet in dropped},
        edges_on_dropped={
            key: Link(edge.source, edge.target)
            for key, edge in held.edges.items()
            if edge.sheet in dropped
        },
    )
    check_mutation(mutation, graph=held.graph, existing=existing)
    gone = set(mutation.delete_nodes)
    cut = {*mutation.delete_edges}
    cut |= {key for key, edge in held.edges.items() if {edge.source, edge.target} & gone}
    nodes = {key: text for key, text in stored.nodes.items() if key not in gone}
    edges = {key: text for key, text in stored.edges.items() if key not in cut}
    nodes |= {node.key: encode_document(node, "nodes", node.key) for node in mutation.put_nodes}
    edges |= {edge.key: encode_document(edge, "edges", edge.key) for edge in mutation.put_edges}
    vectors = {key: one for key, one in stored.vectors.items() if key not in gone}
    vectors |= {one.key: _frozen(one) for one in mutation.put_vectors}
    graph = graph_after(mutation, held.graph)
    kept = {key: config for key, config in types.items() if key not in mutation.delete_configs}
    after = StoredGraph(
        graph=encode_document(graph, "graphs", graph.key),
        nodes=nodes,
        edges=edges,
        vectors=vectors,
        embeddings=stored.embeddings,
    )
    return after, kept | {config.key: _copy_of(config) for config in mutation.put_configs}


@final
class JsonDatabase:
    """Implements Database."""

    url = "json:"

    def __init__(self) -> None:
        self.graphs: dict[str, StoredGraph] = {}
        self.configs: dict[str, Mapping[str, NodeTypeConfig]] = {}
        self._records: dict[str, JsonRecords] = {}

    def types(self, workspace: str) -> Mapping[str, NodeTypeConfig]:
        """Returns the types that a workspace has stored, by key."""
        return self.configs.get(workspace, {})

    @property
    def notices(self) -> NoticeRouter:
        return SILENT

    def source(self, workspace: str) -> JsonSource:
        return JsonSource(self, workspace)

    def records(self, workspace: str) -> JsonRecords:
        return self._records.setdefault(workspace, JsonRecords())

    async def workspaces(self, kind: str | None = None) -> list[str]:
        if kind is None:
            return sorted({stored.document().workspace for stored in self.graphs.values()})
        records = self._records.items()
        return sorted(name for name, of in records if any(key[0] == kind for key in of.stored))

    async def check(self) -> list[Finding]:
        return [Finding("json", "ok", f"{len(self.graphs)} graphs")]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held open."""
