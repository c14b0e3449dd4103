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
from datasources.hits import NodeVector, VectorInfo
from datasources.links import Direction
from datasources.moment_reads import GraphReads, ReadsOfOneMoment, search_graph
from datasources.search import SearchHits, SearchRequest
from datasources.sqlite import statements as sql
from datasources.sqlite import writes
from datasources.sqlite.engine import Engine
from datasources.sqlite.everywhere import WorkspaceView
from datasources.sqlite.index_manager import IndexKind
from datasources.sqlite.rows import GraphRow, graph_row
from datasources.sqlite.stored_graph import read_stats, read_vector_info, read_vectors
from datasources.sqlite.text_index import TEXT_INDEX
from datasources.sqlite.vector_index import vector_groups, vector_index_kind
from datasources.sqlite.visible_types import held_configs
from datasources.types import (
    Graph,
    GraphStats,
    GraphVersions,
    Mutation,
    NodeTypeConfig,
    Subgraph,
    parse_document,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqliteSource(ReadsOfOneMoment):
    """Implements MutableGraphDataSource. Documents are shared between reads: do not change them."""

    engine: Engine
    workspace: str

    @property
    def abilities(self) -> Abilities:
        return Abilities(index_builder=self)

    async def read_graph(self, graph_key: str, work: Callable[[GraphReads], T]) -> T:
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

    async def get_own_configs(self) -> list[NodeTypeConfig]:
        rows = await self.engine.pool.read(
            lambda c: c.execute(sql.OWN_CONFIGS, {"workspace": self.workspace}).fetchall()
        )
        return [parse_document(NodeTypeConfig, body, "node_configs") for (body,) in rows]

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
