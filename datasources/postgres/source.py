"""The graphs of one workspace in PostgreSQL.

The version in a graph's row tells whether what is held in memory is current, so another server's
write is seen at once. A read of a held graph that did not change takes one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

from datasources.base import Abilities, RecordWrite
from datasources.cache import Cache
from datasources.errors import GraphNotFound
from datasources.everywhere import FoundNode, WideHits, with_nodes
from datasources.held_elements import HeldGraphReads
from datasources.hits import NodeVector, VectorInfo, VectorQuery
from datasources.links import Direction
from datasources.moment_reads import GraphReads, ReadsOfOneMoment, search_graph
from datasources.postgres import statements as sql
from datasources.postgres import writes
from datasources.postgres.cached_graph import CachedGraph, Version
from datasources.postgres.graph_header import GraphHeader, graph_header
from datasources.postgres.graph_in_tables import (
    GraphInTables,
    read_stats,
    read_vector_info,
    read_vectors,
)
from datasources.postgres.server_pool import ServerPool, Session
from datasources.postgres.visible_configs import held_configs, types_version
from datasources.postgres.wide_reads import WideReads
from datasources.search import SearchHits, SearchRequest
from datasources.types import (
    ROOT_WORKSPACE,
    Graph,
    GraphStats,
    GraphVersions,
    Mutation,
    NodeTypeConfig,
    Subgraph,
    parse_document,
)

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingLimits:
    """Limits for graphs in memory.

    A graph of up to `held` nodes and edges together is held whole, a larger one is searched by the
    database. `memory` is the maximum number of bytes for all held graphs.
    """

    held: int = 100_000
    memory: int = 512 << 20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresParts:
    """What the sources of one database have in common."""

    pool: ServerPool
    cache: Cache
    limits: HoldingLimits

    def graph(self, session: Session, workspace: str, row: GraphHeader) -> GraphReads:
        """Returns the reads of a graph."""
        held = CachedGraph(session, workspace, row, self.cache, self.pool.losses)
        if row.size <= self.limits.held:
            return HeldGraphReads(held)
        return GraphInTables(
            session=session,
            row=row,
            workspace=workspace,
            held=held,
            held_bytes=self.limits.memory // 2,
        )


@final
@dataclass(frozen=True, slots=True)
class PostgresSource(ReadsOfOneMoment):
    """Implements MutableGraphDataSource. Documents are shared between reads: do not change them."""

    parts: PostgresParts
    workspace: str

    @property
    def abilities(self) -> Abilities:
        return Abilities()

    async def read_graph(self, graph_key: str, work: Callable[[GraphReads], T]) -> T:
        return await self._read_row(
            graph_key, lambda s, row: work(self.parts.graph(s, self.workspace, row))
        )

    async def _read_row(self, graph_key: str, work: Callable[[Session, GraphHeader], T]) -> T:
        """Runs `work` with a graph's row. Raises: GraphNotFound."""
        return await self._read(lambda s: work(s, graph_header(s, self.workspace, graph_key)))

    async def _read(self, work: Callable[[Session], T]) -> T:
        return await self.parts.pool.read(self.workspace, work)

    def _types(self, version: int | None) -> Version:
        return Version(self.parts.pool.losses, version or 0)

    async def list_graphs(self) -> list[Graph]:
        values = {"workspace": self.workspace}
        rows = await self._read(lambda s: s.rows(sql.GRAPH_LIST, values))
        return [parse_document(Graph, body, "graphs") for (body,) in rows]

    async def get_graph(self, graph_key: str) -> Graph:
        return await self._read_row(graph_key, lambda _, row: row.graph)

    async def get_versions(self, graph_key: str) -> GraphVersions:
        return await self._read_row(
            graph_key,
            lambda _, row: GraphVersions(graph=row.graph, vectors=str(row.vectors_version)),
        )

    async def get_stats(self, graph_key: str) -> GraphStats:
        return await self._read_row(graph_key, read_stats)

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
        def read(session: Session, row: GraphHeader) -> Subgraph:
            graph = self.parts.graph(session, self.workspace, row)
            around = graph.neighborhood(keys, max_depth, direction, limit)
            if not with_types:
                return around
            types = {node.type for node in around.nodes}
            configs = held_configs(
                session, self.workspace, self._types(row.types_version), self.parts.cache
            )
            return replace(around, configs=tuple(c for c in configs if c.type in types))

        return await self._read_row(graph_key, read)

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        def read(session: Session) -> list[NodeTypeConfig]:
            version = self._types(types_version(session, self.workspace))
            return held_configs(session, self.workspace, version, self.parts.cache)

        configs = await self._read(read)
        wanted = None if types is None else set(types)
        return [config for config in configs if wanted is None or config.type in wanted]

    async def get_own_configs(self) -> list[NodeTypeConfig]:
        values = {"workspace": self.workspace}
        rows = await self._read(lambda s: s.rows(sql.OWN_CONFIGS, values))
        return [parse_document(NodeTypeConfig, body, "node_configs") for (body,) in rows]

    async def search(self, graph_key: str, request: SearchRequest) -> SearchHits:
        return await self._read_row(
            graph_key,
            lambda s, row: search_graph(
                self.parts.graph(s, self.workspace, row), row.nodes, request
            ),
        )

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        return await self._read_row(graph_key, lambda s, row: read_vector_info(s, row, keys))

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        return await self._read_row(graph_key, lambda s, row: read_vectors(s, row, keys))

    def _wide(self, session: Session, graphs: Sequence[str] | None) -> WideReads:
        return WideReads(
            session=session,
            cache=self.parts.cache,
            workspace=self.workspace,
            graphs=graphs,
            small=self.parts.limits.held,
            losses=self.parts.pool.losses,
        )

    async def find_users(
        self, entries: Sequence[str], *, limit: int, graphs: Sequence[str] | None = None
    ) -> list[FoundNode]:
        return await self._read(lambda s: self._wide(s, graphs).users(entries, limit))

    async def search_everywhere(
        self, asked: SearchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        def read(session: Session) -> WideHits:
            def search_large(graph_key: str, query: VectorQuery) -> list[tuple[str, float]]:
                try:
                    row = graph_header(session, self.workspace, graph_key)
                except GraphNotFound:  # deleted meanwhile
                    return []
                graph = self.parts.graph(session, self.workspace, row)
                return [(hit.key, hit.score) for hit in graph.search_vectors(query)]

            wide = self._wide(session, graphs)
            hits = wide.search(asked, search_large)
            return with_nodes(hits, wide.nodes(hits.names))

        return await self._read(read)

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        return await self._write(
            mutation, lambda s: writes.create_graph(s, self.workspace, graph, mutation, records)
        )

    async def delete_graph(self, graph_key: str) -> None:
        gone = await self._write(None, lambda s: writes.delete_graph(s, self.workspace, graph_key))
        self.parts.cache.forget(gone)

    async def apply(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None = None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        return await self._write(
            mutation,
            lambda s: writes.apply(s, self.workspace, mutation, expected_revision, records),
        )

    async def _write(self, mutation: Mutation | None, work: Callable[[Session], T]) -> T:
        """Runs `work` in one transaction."""
        changes_types = mutation is not None and (mutation.put_configs or mutation.delete_configs)
        # A type of `root` changes the words of nodes in all workspaces.
        is_for_all = self.workspace == ROOT_WORKSPACE and changes_types
        return await self.parts.pool.write(None if is_for_all else self.workspace, work)

    async def put_node_config(self, config: NodeTypeConfig) -> None:
        scope = None if self.workspace == ROOT_WORKSPACE else self.workspace
        await self.parts.pool.write(scope, lambda s: writes.put_config(s, self.workspace, config))

    async def put_embeddings(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        return await self._write(
            None, lambda s: writes.put_embeddings(s, self.workspace, graph_key, vectors)
        )
