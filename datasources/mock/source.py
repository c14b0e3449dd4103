"""A database in memory and its graph sources. It is empty or has the NBA sample graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

import numpy as np

from datasources.base import Abilities, Finding, MutableGraphDataSource, RecordStore, RecordWrite
from datasources.builtin_types import visible_types
from datasources.errors import GraphExists, GraphNotFound, RevisionConflict
from datasources.everywhere import FoundNode, NodeName, WideHits
from datasources.held_reads import HeldReads
from datasources.hits import FIELDS, Hit, NodeVector, SearchField, VectorInfo
from datasources.lexical import LexicalIndex
from datasources.links import Link
from datasources.mock.state import GraphState, MemoryRecords, stored_copy
from datasources.mutations import (
    Existing,
    check_mutation,
    check_owner,
    check_vectors,
    dropped_sheets,
)
from datasources.notices import SILENT, NoticeRouter
from datasources.search import SearchHits, SearchRequest
from datasources.text import tokenize
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
from mock_data import load_json

Configs = Mapping[str, NodeTypeConfig]


@dataclass(slots=True)
class Store:
    """The content of a memory database."""

    graphs: dict[str, GraphState] = field(default_factory=dict[str, GraphState])
    configs: dict[str, Configs] = field(default_factory=dict[str, Configs])
    records: dict[str, MemoryRecords] = field(default_factory=dict[str, MemoryRecords])


@dataclass(frozen=True, slots=True)
class MemorySource(HeldReads):
    """Implements MutableGraphDataSource. No method awaits anything, so each is atomic.

    Documents are shared between reads: treat their data as read-only.
    """

    store: Store
    workspace: str

    @property
    def abilities(self) -> Abilities:
        return Abilities()

    def held(self, graph_key: str) -> GraphState:
        state = self.store.graphs.get(graph_key)
        if state is None or state.graph.workspace != self.workspace:
            raise GraphNotFound(graph_key=graph_key)
        return state

    def _types(self) -> list[NodeTypeConfig]:
        own, root = (self.store.configs.get(name, {}) for name in (self.workspace, ROOT_WORKSPACE))
        return visible_types(own.values(), root.values())

    async def list_graphs(self) -> list[Graph]:
        states = (state for _, state in sorted(self.store.graphs.items()))
        return [state.graph for state in states if state.graph.workspace == self.workspace]

    async def get_graph(self, graph_key: str) -> Graph:
        return self.held(graph_key).graph

    async def get_versions(self, graph_key: str) -> GraphVersions:
        state = self.held(graph_key)
        return GraphVersions(graph=state.graph, vectors=str(state.vectors_version))

    async def get_stats(self, graph_key: str) -> GraphStats:
        state = self.held(graph_key)
        return state.stats(vector.model for vector in state.vectors.values())

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        return [config for config in self._types() if types is None or config.type in types]

    async def search(self, graph_key: str, request: SearchRequest) -> SearchHits:
        graph = self.held(graph_key)
        vector, name_vector = (_nearest(graph, request, part) for part in FIELDS)
        words = graph.search_words(request, self._types())
        hits = replace(words, vector=vector, name_vector=name_vector)
        return hits.or_first(islice(graph.nodes, request.first))

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        vectors = await self.get_vectors(graph_key, keys)
        return {key: VectorInfo(vector.model, vector.hash) for key, vector in vectors.items()}

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        vectors = self.held(graph_key).vectors
        return {key: vectors[key] for key in dict.fromkeys(keys) if key in vectors}

    def _of(self, graphs: Sequence[str] | None) -> dict[str, GraphState]:
        states = sorted(self.store.graphs.items())
        own = {key: state for key, state in states if state.graph.workspace == self.workspace}
        return (
            own if graphs is None else {key: state for key, state in own.items() if key in graphs}
        )

    async def find_users(
        self, entries: Sequence[str], *, limit: int, graphs: Sequence[str] | None = None
    ) -> list[FoundNode]:
        users = [user for state in self._of(graphs).values() for user in state.users(entries)]
        return users[: max(0, limit)]

    async def search_everywhere(
        self, asked: SearchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        states = self._of(graphs)
        terms = tokenize(asked.query)
        configs = self._types()
        fields: tuple[tuple[str, str, SearchField], ...] = (
            ("text", "vector", "content"),
            ("name", "name_vector", "name"),
        )
        model, numbers = asked.vector or ("", np.zeros(0, np.float32))
        hits_by_search: dict[str, list[Hit]] = {}
        for text, near, part in fields:
            words = {
                f"{graph_key}\0{key}": getattr(of, part)
                for graph_key, state in states.items()
                for key, of in state.read_with(configs).items()
            }
            hits_by_search[text] = LexicalIndex.build(words.items()).search(terms, asked.limit)
            vectors = {
                f"{graph_key}\0{key}": getattr(one, part)
                for graph_key, state in states.items()
                for key, one in state.vectors.items()
                if one.model == model
            }
            hits_by_search[near] = nearest(vectors, numbers, asked.limit)
        wide = {
            search: [(_name(hit.key), hit.score) for hit in hits]
            for search, hits in hits_by_search.items()
        }
        nodes = {name: states[name[0]].found(name[1]) for hits in wide.values() for name, _ in hits}
        return replace(WideHits(nodes=nodes), **wide)

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        check_owner(graph, self.workspace, "graphs")
        if graph.key in self.store.graphs:
            raise GraphExists(graph_key=graph.key)
        state = GraphState(graph=stored_copy(graph.replace(revision=0), "graphs", graph.key))
        return self._apply(state, mutation, records).graph

    async def delete_graph(self, graph_key: str) -> None:
        self.held(graph_key)
        del self.store.graphs[graph_key]

    async def apply(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None = None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        state = self.held(mutation.graph_key)
        revision = state.graph.revision
        if expected_revision is not None and expected_revision != revision:
            raise RevisionConflict(
                graph_key=mutation.graph_key, expected=expected_revision, actual=revision
            )
        return self._apply(state, mutation, records).graph.revision

    def _apply(
        self, state: GraphState, mutation: Mutation | None, records: Sequence[RecordWrite]
    ) -> GraphState:
        own = self.store.configs.get(self.workspace, {})
        new_state, configs = (state, own) if mutation is None else self._after(state, mutation, own)
        store = self.store.records.setdefault(self.workspace, MemoryRecords())
        new_records = store.after(records)
        # Nothing below can fail, so the change is applied completely or not at all.
        self.store.graphs[state.graph.key] = new_state
        if configs is not own:
            self.store.configs[self.workspace] = configs
        store.stored = new_records
        return new_state

    def _after(
        self, state: GraphState, mutation: Mutation, own: Configs
    ) -> tuple[GraphState, Configs]:
        """Returns the state after a mutation. Raises: InvalidMutation, BadDocument."""
        dropped = dropped_sheets(mutation, state.graph)
        existing = Existing(
            nodes=state.nodes.keys(),
            edges=state.edges.keys(),
            configs=own.keys(),
            on_dropped={key for key, node in state.nodes.items() if node.sheet in dropped},
            edges_on_dropped={
                key: Link(edge.source, edge.target)
                for key, edge in state.edges.items()
                if edge.sheet in dropped
            },
        )
        check_mutation(mutation, graph=state.graph, existing=existing)
        return state.after(mutation), _configs_after(own, mutation)

    async def get_own_configs(self) -> list[NodeTypeConfig]:
        own = self.store.configs.get(self.workspace, {})
        return [config for _, config in sorted(own.items())]

    async def put_node_config(self, config: NodeTypeConfig) -> None:
        check_owner(config, self.workspace, "node_configs")
        stored = stored_copy(config, "node_configs", config.key)
        own = self.store.configs.get(self.workspace, {})
        self.store.configs[self.workspace] = {**own, config.key: stored}

    async def put_embeddings(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        state = self.held(graph_key)
        check_vectors(graph_key, vectors)
        kept = [vector for vector in vectors if vector.key in state.nodes]
        if kept:
            self.store.graphs[graph_key] = state.with_vectors(kept)
        return len(kept)


def _nearest(graph: GraphState, request: SearchRequest, part: SearchField) -> list[Hit]:
    query = request.vector_query(part)
    if query is None:
        return []
    vectors = {
        vector.key: vector.content if part == "content" else vector.name
        for vector in graph.vectors.values()
        if vector.model == query.model
    }
    return nearest(vectors, query.vector, query.limit, query.min_score)


def _configs_after(own: Configs, mutation: Mutation) -> Configs:
    if not mutation.put_configs and not mutation.delete_configs:
        return own
    gone = set(mutation.delete_configs)
    kept = {key: config for key, config in own.items() if key not in gone}
    return kept | {c.key: stored_copy(c, "node_configs", c.key) for c in mutation.put_configs}


def _name(joined: str) -> NodeName:
    graph_key, _, key = joined.partition("\0")  # keys cannot contain NUL
    return graph_key, key


NBA_WORKSPACE = "test"
NBA_GRAPH = "testgraph001"


class MemoryDatabase:
    """Implements Database. Its content is lost with the object; opening and closing do nothing."""

    def __init__(self) -> None:
        self._store = Store()

    @property
    def url(self) -> str:
        return "memory:"

    @property
    def notices(self) -> NoticeRouter:
        return SILENT

    def source(self, workspace: str) -> MutableGraphDataSource:
        return MemorySource(self._store, workspace)

    def records(self, workspace: str) -> RecordStore:
        return self._store.records.setdefault(workspace, MemoryRecords())

    async def workspaces(self, kind: str | None = None) -> list[str]:
        if kind is None:
            return sorted({state.graph.workspace for state in self._store.graphs.values()})
        records = self._store.records.items()
        return sorted(
            name for name, of in records if any(of_kind == kind for of_kind, _ in of.stored)
        )

    async def check(self) -> list[Finding]:
        graphs = self._store.graphs.values()
        nodes = sum(len(state.nodes) for state in graphs)
        return [
            Finding(
                "memory",
                "ok",
                f"{len(graphs)} graphs, {nodes} nodes; nothing is kept when the program ends",
            )
        ]

    def load(self, document: dict[str, Any], workspace: str) -> None:
        """Adds a graph from Nodius JSON (graph, nodes, edges, configs), owned by `workspace`.

        Raises: BadDocument, InvalidMutation.
        """
        graph = parse_document(Graph, {**document["graph"], "workspace": workspace}, "graphs")
        configs = [
            parse_document(NodeTypeConfig, {**config, "workspace": workspace}, "node_configs")
            for config in document["configs"]
        ]
        content = Mutation(
            graph_key=graph.key,
            put_nodes=[parse_document(Node, node, "nodes") for node in document["nodes"]],
            put_edges=[parse_document(Edge, edge, "edges") for edge in document["edges"]],
        )
        check_mutation(content, graph=graph, existing=Existing())
        self._store.graphs[graph.key] = GraphState(graph=graph.replace(revision=0)).after(content)
        own = self._store.configs.get(workspace, {})
        self._store.configs[workspace] = {**own, **{config.key: config for config in configs}}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def open_nba(workspace: str = NBA_WORKSPACE) -> MemoryDatabase:
    """Returns a memory database that holds the NBA sample graph in this workspace."""
    database = MemoryDatabase()
    database.load(load_json("nba.json"), workspace)
    return database
