"""The graphs of one workspace in the embedded database.

Every read runs in a reader's thread, in one transaction. The versions in the graph's row tell
whether the parts held in memory are current, so another process's write is seen at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from datasources.base import Abilities, RecordWrite
from datasources.errors import GraphNotFound
from datasources.everywhere import FoundNode, WideHits, joined, of_graph, with_nodes
from datasources.held_reads import walk_typed
from datasources.hits import FIELDS, NodeVector, VectorInfo
from datasources.links import Direction, Link, LinkWalk, TypedLink
from datasources.search import SearchHits, SearchRequest, keys_to_name, names_by_key
from datasources.sqlite import statements as sql
from datasources.sqlite import writes
from datasources.sqlite.engine import Engine, GraphReads
from datasources.sqlite.everywhere import WorkspaceView
from datasources.sqlite.index_manager import IndexKind
from datasources.sqlite.rows import GraphRow, graph_row
from datasources.sqlite.stored_graph import read_stats, read_vector_info, read_vectors
from datasources.sqlite.text_index import TEXT_INDEX
from datasources.sqlite.vector_index import can_match, vector_groups, vector_index_kind
from datasources.sqlite.visible_types import held_configs
from datasources.text import tokenize
from datasources.types import (
    Edge,
    Graph,
    GraphStats,
    GraphVersions,
    Mutation,
    Node,
    NodeTypeConfig,
    Subgraph,
    parse_document,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqliteSource:
    """Implements MutableGraphDataSource. Documents are shared between reads: do not change them."""

    engine: Engine
    workspace: str

    @property
    def abilities(self) -> Abilities:
        return Abilities(index_builder=self)

    async def _read(self, graph_key: str, work: Callable[[GraphReads], T]) -> T:
        """Runs `work` on one moment of a graph, in a reader's thread. Raises: GraphNotFound."""
        return await self._read_rows(graph_key, lambda c, row: work(self.engine.graph(c, row)))

    async def _read_rows(
        self, graph_key: str, work: Callable[[sqlite3.Connection, GraphRow], T]
    ) -> T:
        """Runs `work` on a graph's row and the connection at the same moment.

        Raises: GraphNotFound.
        """

        def read(connection: sqlite3.Connection) -> T:
            return work(connection, graph_row(connection, self.workspace, graph_key))

        return await self.engine.pool.read(read)

    async def list_graphs(self) -> list[Graph]:
        rows = await self.engine.pool.read(
            lambda c: c.execute(sql.GRAPH_LIST, {"workspace": self.workspace}).fetchall()
        )
        return [parse_document(Graph, body, "graphs") for (body,) in rows]

    async def get_graph(self, graph_key: str) -> Graph:
        return await self._read_rows(graph_key, lambda _, row: row.graph)

    async def get_versions(self, graph_key: str) -> GraphVersions:
        return await self._read_rows(
            graph_key,
            lambda _, row: GraphVersions(graph=row.graph, vectors=str(row.vector_version)),
        )

    async def get_stats(self, graph_key: str) -> GraphStats:
        return await self._read_rows(graph_key, read_stats)

    async def get_nodes(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        return await self._read(graph_key, lambda graph: graph.nodes(sheet, after, limit))

    async def get_edges(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        return await self._read(graph_key, lambda graph: graph.edges(sheet, after, limit))

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        return await self._read(graph_key, lambda graph: graph.nodes_by_key(keys))

    async def get_edges_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return await self._read(graph_key, lambda graph: graph.edges_by_key(keys))

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return await self._read(graph_key, lambda graph: graph.edges_of(keys))

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        return await self._read(graph_key, lambda graph: graph.links(keys, limit, max_degree))

    async def get_typed_links(self, graph_key: str, wanted: LinkWalk) -> list[TypedLink]:
        return await self._read(graph_key, lambda graph: walk_typed(graph.typed_links, wanted))

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
        def read(connection: sqlite3.Connection, row: GraphRow) -> Subgraph:
            graph = self.engine.graph(connection, row)
            around = graph.neighborhood(keys, max_depth, direction, limit)
            if not with_types:
                return around
            types = {node.type for node in around.nodes}
            configs = held_configs(connection, self.workspace, self.engine.cache)
            return replace(around, configs=tuple(c for c in configs if c.type in types))

        return await self._read_rows(graph_key, read)

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        configs = await self.engine.pool.read(
            lambda c: held_configs(c, self.workspace, self.engine.cache)
        )
        wanted = None if types is None else set(types)
        return [config for config in configs if wanted is None or config.type in wanted]

    async def search(self, graph_key: str, request: SearchRequest) -> SearchHits:
        return await self._read_rows(
            graph_key, lambda c, row: search_graph(self.engine.graph(c, row), row.nodes, request)
        )

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        return await self._read_rows(graph_key, lambda c, row: read_vector_info(c, row, keys))

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        return await self._read_rows(graph_key, lambda c, row: read_vectors(c, row, keys))

    def _everything(
        self, connection: sqlite3.Connection, graphs: Sequence[str] | None
    ) -> WorkspaceView:
        cache = self.engine.cache
        return WorkspaceView(
            connection=connection, cache=cache, workspace=self.workspace, graphs=graphs
        )

    async def find_users(
        self, entries: Sequence[str], *, limit: int, graphs: Sequence[str] | None = None
    ) -> list[FoundNode]:
        return await self.engine.pool.read(
            lambda c: self._everything(c, graphs).users(entries, limit)
        )

    async def search_everywhere(
        self, asked: SearchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        hits, large = await self.engine.pool.read(
            lambda c: self._everything(c, graphs).search(asked, self.engine.limits.held)
        )
        parts = [hits]
        for key in large:
            with suppress(GraphNotFound):  # deleted meanwhile
                parts.append(of_graph(key, await self.search(key, asked)))
        hits = joined(parts, asked.limit)
        nodes = await self.engine.pool.read(lambda c: self._everything(c, graphs).nodes(hits.names))
        return with_nodes(hits, nodes)

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        return await self.engine.pool.write(
            lambda c: writes.create_graph(c, self.workspace, graph, mutation, records)
        )

    async def delete_graph(self, graph_key: str) -> None:
        gone = await self.engine.pool.write(
            lambda c: writes.delete_graph(c, self.workspace, graph_key)
        )
        self.engine.cache.forget(gone)
        self.engine.cache.forget(self.workspace)
        self.engine.indexes.forget(gone)

    async def apply(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None = None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        return await self.engine.pool.write(
            lambda c: writes.apply(c, self.workspace, mutation, expected_revision, records)
        )

    async def put_node_config(self, config: NodeTypeConfig) -> None:
        await self.engine.pool.write(lambda c: writes.put_config(c, self.workspace, config))

    async def put_embeddings(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        return await self.engine.pool.write(
            lambda c: writes.put_embeddings(c, self.workspace, graph_key, vectors),
            durable=False,  # they can be computed again
        )

    async def build_indexes(self, graph_key: str) -> None:
        """Brings the indexes of a graph up to date now; a held graph has none."""

        def kinds_of(
            connection: sqlite3.Connection, row: GraphRow
        ) -> tuple[GraphRow, list[IndexKind[Any]]]:
            if self.engine.is_held(row):
                return row, []
            groups = vector_groups(connection, row)
            return row, [TEXT_INDEX, *map(vector_index_kind, groups)]

        row, kinds = await self._read_rows(graph_key, kinds_of)
        for kind in kinds:
            await asyncio.shield(asyncio.wrap_future(self.engine.indexes.schedule(row, kind)))


def search_graph(graph: GraphReads, nodes: int, request: SearchRequest) -> SearchHits:
    """Answers a request from one moment of a graph with this number of `nodes`."""
    terms = tokenize(request.query)
    text, name = (
        graph.search_text(terms, request.limit, part) if request.searches_words(part) else []
        for part in FIELDS
    )
    queries = (request.vector_query(part) for part in FIELDS)
    vector, name_vector = (
        graph.search_vectors(query) if query is not None and can_match(query) else []
        for query in queries
    )
    named = keys_to_name(text, name) if request.with_names else []
    names = names_by_key(graph.nodes_by_key(named) if named else ())
    hits = SearchHits(
        text=text,
        name=name,
        vector=vector,
        name_vector=name_vector,
        names=names,
        nodes=nodes,
    )
    if request.first <= 0 or not hits.is_empty:
        return hits
    return hits.or_first(node.key for node in graph.nodes(None, None, request.first))
