"""The graphs of one workspace in ArangoDB.

Only the words of node types are cached, for some seconds. Each read is one statement, so any number
of servers may share a database with each other and with Nodius.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from datasources.arango import graph_documents as documents
from datasources.arango import statements_read as read
from datasources.arango import statements_write as write
from datasources.arango.applying import GraphChange
from datasources.arango.errors import UNIQUE, ServerRefused
from datasources.arango.graph_documents import read_document
from datasources.arango.large_changes import delete_large
from datasources.arango.records import prepared
from datasources.arango.search import (
    NO_LIMIT,
    SearchWords,
    SharedState,
    exact_words,
    search,
    search_values,
)
from datasources.arango.statements import Statement
from datasources.arango.statements_search import SEARCH_ALL, USERS
from datasources.arango.type_words import TypeWords
from datasources.base import Abilities, RecordWrite
from datasources.builtin_types import types_by_name, visible_types
from datasources.errors import GraphExists, InvalidMutation
from datasources.everywhere import SEARCHES, FoundNode, WideHits, with_nodes
from datasources.held_reads import WIDTH, page_of
from datasources.hits import NodeVector, Vector, VectorInfo
from datasources.links import Direction, Link, LinkWalk, TypedLink
from datasources.mutations import check_owner, check_vectors
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
    Subgraph,
)

E = TypeVar("E", Node, Edge)

MAX_TERMS = 512  # distinct words of a question that are searched
DELETED_AT_ONCE = 10_000  # nodes or edges; larger graphs are deleted in several transactions
MAX_UNMARKED = 10_000  # nodes counted whose vectors name no model


@dataclass(frozen=True, slots=True)
class ArangoSource:
    """Implements MutableGraphDataSource."""

    state: SharedState
    workspace: str

    @property
    def abilities(self) -> Abilities:
        return Abilities(foreign_vectors=self)

    async def _ask(self, statement: Statement, graph_key: str, **values: Any) -> dict[str, Any]:
        return await self.state.ask(statement, self.workspace, graph_key, **values)

    async def _rows(self, statement: Statement, graph_key: str, **values: Any) -> list[Any]:
        return (await self._ask(statement, graph_key, **values))["rows"]

    @property
    def _workspaces(self) -> list[str]:
        return [self.workspace, ROOT_WORKSPACE]

    async def list_graphs(self) -> list[Graph]:
        rows = await self.state.connection.query(read.GRAPHS, workspace=self.workspace)
        return sorted((read_document(Graph, row) for row in rows), key=lambda graph: graph.key)

    async def get_graph(self, graph_key: str) -> Graph:
        return (await self.get_versions(graph_key)).graph

    async def get_versions(self, graph_key: str) -> GraphVersions:
        row = await self._ask(read.GRAPH, graph_key)
        self._see(row["types"])
        return GraphVersions(
            graph=read_document(Graph, row["stored"]), vectors=row["vectors"] or ""
        )

    def _see(self, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, TypeWords]:
        types = self._visible([read_document(NodeTypeConfig, row) for row in rows])
        return self.state.seen_types.see(self.workspace, types_by_name(types))

    async def _type_words(self) -> Mapping[str, TypeWords]:
        """Returns the words of the types, read again if the last ones are too old."""
        words = self.state.seen_types.fresh(self.workspace)
        if words is not None:
            return words
        return self._see(
            await self.state.connection.query(read.TYPE_WORDS, workspaces=self._workspaces)
        )

    def _visible(self, configs: Sequence[NodeTypeConfig]) -> list[NodeTypeConfig]:
        own = [config for config in configs if config.workspace == self.workspace]
        return visible_types(
            own, [config for config in configs if config.workspace == ROOT_WORKSPACE]
        )

    async def get_stats(self, graph_key: str) -> GraphStats:
        row = await self._ask(read.STATS, graph_key)
        types = dict(row["types"])
        return GraphStats(
            nodes=sum(types.values()), edges=row["edges"], types=types, vectors=dict(row["vectors"])
        )

    async def get_nodes(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        return await self._page(Node, graph_key, sheet, after, limit)

    async def _page(
        self, kind: type[E], graph_key: str, sheet: str | None, after: str | None, limit: int | None
    ) -> list[E]:
        # If the server orders text otherwise, all are read and cut here.
        cut = self.state.by_code_point
        start = after if cut and after is not None else ""
        rows = await self._rows(
            read.NODES if kind is Node else read.EDGES,
            graph_key,
            sheet=sheet,
            after=start,
            afterKey=f"{graph_key}-{start}",
            limit=max(0, limit) if cut and limit is not None else NO_LIMIT,
        )
        return page_of(documents.read_documents(kind, rows, graph_key), None, after, limit)

    async def get_edges(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        return await self._page(Edge, graph_key, sheet, after, limit)

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        return await self._by_key(Node, graph_key, keys)

    async def _by_key(self, kind: type[E], graph_key: str, keys: Sequence[str]) -> list[E]:
        statement = read.NODES_BY_KEY if kind is Node else read.EDGES_BY_KEY
        rows = await self._rows(statement, graph_key, keys=documents.document_keys(graph_key, keys))
        found = {
            element.key: element for element in documents.read_documents(kind, rows, graph_key)
        }
        return [found[key] for key in dict.fromkeys(keys) if key in found]

    async def get_edges_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return await self._by_key(Edge, graph_key, keys)

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        rows = await self._rows(read.EDGES_OF, graph_key, ids=documents.node_ids(graph_key, keys))
        return documents.read_documents(Edge, rows, graph_key)

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        asked: dict[str, Any] = {"limit": NO_LIMIT if limit is None else max(0, limit)}
        statement = read.LINKS_OF
        if max_degree is not None:
            statement, asked["enough"] = read.LINKS_OF_DEGREE, max_degree + 1
        ids = documents.node_ids(graph_key, keys)
        return documents.read_links(
            await self._rows(statement, graph_key, ids=ids, **asked), graph_key
        )

    async def get_typed_links(self, graph_key: str, wanted: LinkWalk) -> list[TypedLink]:
        rows = await self._rows(
            read.TYPED_LINKS,
            graph_key,
            ids=documents.node_ids(graph_key, wanted.keys),
            labels=None if wanted.labels is None else list(wanted.labels),
            steps=wanted.steps,
            limit=max(0, wanted.limit),
            most=max(0, wanted.limit) + 1,
            enough=wanted.max_degree + 1,
            width=WIDTH,
        )
        links = documents.read_links(rows, graph_key)
        return [TypedLink(*link, row[4]) for link, row in zip(links, rows, strict=True)]

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        wanted = None if types is None else list(types)
        rows = await self.state.connection.query(
            read.CONFIGS, workspaces=self._workspaces, types=wanted
        )
        return self._visible([read_document(NodeTypeConfig, row) for row in rows])

    async def search(self, graph_key: str, request: SearchRequest) -> SearchHits:
        words = await self._words(request)
        return await search(self.state, self.workspace, graph_key, request, words)

    async def _words(self, request: SearchRequest) -> SearchWords:
        wanted = tokenize(request.query) if request.limit > 0 else []
        terms = list(dict.fromkeys(wanted))[:MAX_TERMS]
        return SearchWords(terms, await self._type_words() if terms else {})

    async def get_neighborhood(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        max_depth: int,
        direction: Direction = "any",
        limit: int,
        with_types: bool = False,
    ) -> Subgraph:
        row = await self._ask(
            read.AROUND[direction],
            graph_key,
            seeds=documents.node_ids(graph_key, keys),
            typed=with_types,
            depth=max(0, max_depth),
            limit=max(0, limit),
        )
        nodes = [read_document(Node, stored, graph_key) for stored in row["nodes"]]
        depths = dict(zip((node.key for node in nodes), row["depths"], strict=True))
        edges = documents.read_documents(Edge, row["edges"], graph_key)
        types = [read_document(NodeTypeConfig, stored) for stored in row["types"]]
        return Subgraph(
            nodes=tuple(nodes),
            edges=tuple(edges),
            depths=depths,
            configs=tuple(self._visible(types)),
        )

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        rows = await self._vectors(graph_key, keys, whole=False)
        return {key: VectorInfo(row["model"] or "", row["hash"] or "") for key, row in rows.items()}

    async def count_unmarked_vectors(self) -> dict[int, int]:
        """Implements ForeignVectors."""
        rows = await self.state.connection.query(
            read.UNMARKED_VECTORS, workspace=self.workspace, limit=MAX_UNMARKED
        )
        return {int(row["length"]): int(row["amount"]) for row in rows}

    async def adopt_vectors(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        """Implements ForeignVectors."""
        return await self._put_vectors(graph_key, vectors, documents.adopted_fields)

    async def get_unmarked_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, Vector]:
        """Implements ForeignVectors. A value that is no list of finite numbers is left out."""
        rows = await self._vectors(graph_key, keys, whole=True)
        unmarked = [(key, row["content"]) for key, row in rows.items() if row["model"] is None]
        found = ((key, documents.read_part(content)) for key, content in unmarked)
        return {key: vector for key, vector in found if vector is not None}

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        rows = await self._vectors(graph_key, keys, whole=True)
        found = ((key, documents.read_vector(row, key)) for key, row in rows.items())
        return {key: vector for key, vector in found if vector is not None}

    async def _vectors(self, graph_key: str, keys: Sequence[str], *, whole: bool) -> dict[str, Any]:
        asked = documents.document_keys(graph_key, keys)
        rows = await self._rows(read.VECTORS, graph_key, keys=asked, whole=whole)
        return {documents.local_key(row, graph_key): row for row in rows}

    async def find_users(
        self, entries: Sequence[str], *, limit: int, graphs: Sequence[str] | None = None
    ) -> list[FoundNode]:
        rows = await self.state.connection.query(USERS, entries=list(entries), **self._of(graphs))
        found = sorted(map(_found, rows), key=lambda one: (one.graph_key, one.node.key))
        return found[: max(0, limit)]

    async def search_everywhere(
        self, asked: SearchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        words = await self._words(asked)
        values = search_values(asked) | exact_words(words) | self._of(graphs)
        (row,) = await self.state.connection.query(SEARCH_ALL, **values)
        found = [_found(one) for one in row["nodes"]]
        lists = {of: [((key[0], key[1]), score) for key, score, *_ in row[of]] for of in SEARCHES}
        nodes = {(one.graph_key, one.node.key): one for one in found}
        return with_nodes(replace(WideHits(), **lists), nodes)

    def _of(self, graphs: Sequence[str] | None) -> dict[str, Any]:
        return {"workspace": self.workspace, "graphs": None if graphs is None else list(graphs)}

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        check_owner(graph, self.workspace, "graphs")
        document = documents.graph_document(graph.replace(revision=0))
        try:
            if mutation is not None:
                await self._apply(mutation, records=records, create=document)
                return await self.get_graph(graph.key)
            await self.state.connection.query(write.CREATE_GRAPH, document=document)
        except ServerRefused as exc:
            if exc.code != UNIQUE:
                raise
            raise GraphExists(graph_key=graph.key) from exc
        return read_document(Graph, document)

    async def delete_graph(self, graph_key: str) -> None:
        row = await self._ask(write.DELETE_GRAPH, graph_key, most=DELETED_AT_ONCE)
        if row["large"]:
            await delete_large(self.state.connection, self.workspace, graph_key)

    async def apply(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None = None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        return await self._apply(mutation, expected_revision=expected_revision, records=records)

    async def _apply(
        self, mutation: Mutation, *, records: Sequence[RecordWrite], **options: Any
    ) -> int:
        """Applies a mutation. Raises: SourceError if the server does not say whether it did."""
        change = GraphChange(
            workspace=self.workspace,
            mutation=mutation,
            records=[prepared(self.workspace, write) for write in records],
            indexed_dim=self.state.indexed_dim,
            **options,
        )
        try:
            return await change.apply(self.state.connection)
        finally:
            if mutation.put_configs or mutation.delete_configs:
                self.state.seen_types.outdate(self.workspace)

    async def get_own_configs(self) -> list[NodeTypeConfig]:
        rows = await self.state.connection.query(
            read.CONFIGS, workspaces=[self.workspace], types=None
        )
        configs = [read_document(NodeTypeConfig, row) for row in rows]
        return sorted(configs, key=lambda config: config.key)

    async def put_node_config(self, config: NodeTypeConfig) -> None:
        check_owner(config, self.workspace, "node_configs")
        rows = [documents.config_row(self.workspace, config)]
        try:
            query = self.state.connection.query
            await query(write.PUT_CONFIGS, docs=rows, workspace=self.workspace)
        finally:
            self.state.seen_types.outdate(self.workspace)

    async def put_embeddings(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        return await self._put_vectors(graph_key, vectors, documents.vector_fields)

    async def _put_vectors(
        self, graph_key: str, vectors: Sequence[NodeVector], fields: Callable[..., dict[str, Any]]
    ) -> int:
        try:
            check_vectors(graph_key, vectors)
        except InvalidMutation:
            # A graph that does not exist is reported first.
            await self._ask(read.NODES_BY_KEY, graph_key, keys=[])
            raise
        dim = self.state.indexed_dim
        docs = [fields(graph_key, vector, dim) for vector in vectors]
        row = await self._ask(write.PUT_EMBEDDINGS, graph_key, docs=docs, mark=secrets.token_hex(8))
        return len(row["done"])


def _found(row: Mapping[str, Any]) -> FoundNode:
    node = read_document(Node, row["node"], row["graphKey"])
    return FoundNode(graph_key=row["graphKey"], graph_name=row["title"], node=node)
