"""The graphs of one workspace in the embedded database.

Every read of the file runs in a reader's thread, on one moment, which says by its versions whether
what is held in memory is still true: another process's write is seen at once. A small graph is
answered from memory, a light one in the event loop itself, a large one by SQL and by the indexes
beside the file.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from datasources.base import NamedHits, RecordWrite
from datasources.batches import BatchHits, BatchRequest, Names, vector_queries
from datasources.errors import GraphNotFound
from datasources.everywhere import FoundNode, WideHit, WideHits, joined, with_nodes
from datasources.held_reads import walk_typed
from datasources.hits import FIELDS, Hit, NodeVector, SearchField, VectorInfo, VectorQuery
from datasources.links import Direction, Link, LinkWalk, NodeChoice, TypedLink
from datasources.sqlite import statements as sql
from datasources.sqlite import vector_index, writes
from datasources.sqlite.engine import LIGHT_NODES, Engine, Moment
from datasources.sqlite.everywhere import WorkspaceView
from datasources.sqlite.graph_moment import NotHeld, StoredGraph
from datasources.sqlite.index_manager import IndexKind
from datasources.sqlite.rows import GraphRow, graph_row
from datasources.sqlite.text_index import TEXT_INDEX, search_large
from datasources.sqlite.words import CachedWords
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
    is_storable,
    parse_document,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqliteSource:
    """Implements MutableGraphDataSource. Documents are shared between reads: their
    data is read-only.
    """

    engine: Engine
    workspace: str

    async def _read(
        self, graph_key: str, work: Callable[[Moment], T], *, light: int | None = None
    ) -> T:
        """Run `work` on one moment of a graph. Raises: GraphNotFound.

        That of a light graph (of up to `light` nodes and edges, where the work is lighter than
        others) is tried here first, as long as nobody has committed anything since the graph was
        looked at; whatever needs the file runs in a reader's thread.
        """
        current = self.engine.current()
        name = (self.workspace, graph_key)
        row: GraphRow | None = current.get(name)
        if row is not None and row.nodes + row.edges <= (light or self.engine.limits.light):
            with suppress(NotHeld):
                return work(Moment(self.engine, row))

        def read(connection: sqlite3.Connection) -> T:
            current[name] = row = graph_row(connection, self.workspace, graph_key)
            return work(Moment(self.engine, row, connection))

        return await self.engine.pool.read(read)

    async def list_graphs(self) -> list[Graph]:
        rows = await self.engine.pool.read(
            lambda c: c.execute(sql.GRAPH_LIST, {"workspace": self.workspace}).fetchall()
        )
        return [parse_document(Graph, body, "graphs") for (body,) in rows]

    def _noted(self, graph_key: str) -> GraphRow | None:
        """Return a graph's row, where it was read since anybody last changed a graph."""
        return self.engine.current().get((self.workspace, graph_key))

    async def get_graph(self, graph_key: str) -> Graph:
        row = self._noted(graph_key) or await self._read(graph_key, lambda at: at.row)
        return row.graph

    async def get_versions(self, graph_key: str) -> GraphVersions:
        row = self._noted(graph_key) or await self._read(graph_key, lambda at: at.row)
        return GraphVersions(graph=row.graph, vectors=str(row.vector_version))

    async def get_stats(self, graph_key: str) -> GraphStats:
        current = self.engine.current()
        name = ("stats", self.workspace, graph_key)
        if name not in current:
            current[name] = await self._read(
                graph_key, lambda at: StoredGraph(at.connection, at.row).stats()
            )
        stats: GraphStats = current[name]
        return stats

    async def get_nodes(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        return await self._read(
            graph_key, lambda at: at.pages(at.row.nodes).nodes(sheet, after, limit)
        )

    async def get_edges(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        return await self._read(
            graph_key, lambda at: at.pages(at.row.edges).edges(sheet, after, limit)
        )

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        return await self._read(graph_key, lambda at: at.documents(len(keys)).nodes_by_key(keys))

    async def get_edges_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return await self._read(
            graph_key, lambda at: StoredGraph(at.connection, at.row).edges_by_key(keys)
        )

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return await self._read(graph_key, lambda at: at.documents().edges_of(keys))

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        return await self._read(graph_key, lambda at: at.documents().links(keys, limit, max_degree))

    async def get_typed_links(self, graph_key: str, wanted: LinkWalk) -> list[TypedLink]:
        return await self._read(
            graph_key, lambda at: walk_typed(at.documents().typed_links, wanted)
        )

    async def get_chosen(self, graph_key: str, wanted: NodeChoice) -> Subgraph:
        """See LinkTables."""

        def work(at: Moment) -> Subgraph:
            chosen = wanted.choose(at.documents().link_table(wanted))
            return at.documents(len(chosen)).neighborhood(chosen, 0, "any", len(chosen))

        return await self._read(graph_key, work)

    async def get_neighborhood(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        max_depth: int,
        direction: Direction = "any",
        limit: int,
    ) -> Subgraph:
        def work(at: Moment) -> Subgraph:
            if at.reader is None and limit <= LIGHT_NODES:
                return at.cached().neighborhood(keys, max_depth, direction, limit, light=True)
            return at.documents(limit).neighborhood(keys, max_depth, direction, limit)

        return await self._read(graph_key, work, light=self.engine.limits.linked)

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        current = self.engine.current()
        name = ("types", self.workspace)
        if name not in current:
            read = await self.engine.pool.read(lambda c: writes.read_configs(c, self.workspace))
            current[name] = {config.type: (place, config) for place, config in enumerate(read)}
        configs: dict[str, tuple[int, NodeTypeConfig]] = current[name]
        if types is None:
            return [config for _, config in configs.values()]
        found = [configs[wanted] for wanted in set(types) if wanted in configs]
        return [config for _, config in sorted(found, key=itemgetter(0))]

    async def search_text(
        self, graph_key: str, query: str, *, limit: int, field: SearchField = "content"
    ) -> list[Hit]:
        terms = tokenize(query)
        return await self._read(graph_key, lambda at: self._find_words(at, terms, limit, field))

    async def search_hits(self, graph_key: str, asked: BatchRequest, named: NamedHits) -> BatchHits:
        """See LinkTables."""
        terms = tokenize(asked.query)
        queries = vector_queries(asked)

        def words(at: Moment) -> tuple[list[Hit], list[Hit], Names]:
            text, name = (self._find_words(at, terms, asked.limit, field) for field in FIELDS)
            keys = named(text, name)
            return text, name, at.documents(len(keys)).names(keys) if keys else {}

        row = self._noted(graph_key)
        if row is not None and row.nodes > self.engine.limits.at_once:
            near = (self.search_vectors(graph_key, query) for query in queries)
            said, found = await asyncio.gather(self._read(graph_key, words), asyncio.gather(*near))
        else:
            said, found = await self._read(
                graph_key, lambda at: (words(at), [self._find_near(at, query) for query in queries])
            )
        text, name, names = said
        vector, name_vector = found or ([], [])
        return BatchHits(text=text, name=name, vector=vector, name_vector=name_vector, names=names)

    def _find_words(
        self, at: Moment, terms: Sequence[str], limit: int, field: SearchField
    ) -> list[Hit]:
        row = at.row
        if at.size <= self.engine.limits.small:
            words = at.held(
                ("text", row.id, field),
                row.text_version,
                lambda connection, older: CachedWords.of(connection, row, field, older),
            )
            return words.index.search(terms, limit)
        usable = self.engine.indexes.usable(at.connection, row, TEXT_INDEX)
        return search_large(at.connection, row, terms, limit, field, usable)

    async def search_vectors(self, graph_key: str, wanted: VectorQuery) -> list[Hit]:
        # vectors that are held are searched in a millisecond or two
        light = self.engine.limits.walked
        return await self._read(graph_key, lambda at: self._find_near(at, wanted), light=light)

    def _find_near(self, at: Moment, wanted: VectorQuery) -> list[Hit]:
        row = at.row
        vector = wanted.vector
        group = vector_index.VectorGroup.of(wanted)
        fits = vector.ndim == 1 and bool(np.isfinite(vector).all()) and is_storable(wanted.model)
        if not fits or not vector.size or wanted.limit <= 0:
            return []
        limits = self.engine.limits
        is_small = at.size <= self.engine.limits.small
        if is_small or row.nodes * vector.size <= limits.components:
            vectors = at.held_if_frequent(
                ("vectors", row.id, group),
                row.vector_version,
                lambda connection: vector_index.load_vectors(connection, row, group),
                times=1 if is_small else limits.asked,
            )
            if vectors is not None:
                return vectors.search(wanted)
        usable = self.engine.indexes.usable(
            at.connection, row, vector_index.vector_index_kind(group)
        )
        if usable is None:
            return vector_index.search_exactly(at.connection, row, wanted)
        return vector_index.search_index(at.connection, wanted, *usable)

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        return await self._read(
            graph_key, lambda at: StoredGraph(at.connection, at.row).vector_info(keys)
        )

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        return await self._read(
            graph_key, lambda at: StoredGraph(at.connection, at.row).vectors(keys)
        )

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
        self, asked: BatchRequest, graphs: Sequence[str] | None = None
    ) -> WideHits:
        found, large = await self.engine.pool.read(
            lambda c: self._everything(c, graphs).search(asked, self.engine.limits.small)
        )
        parts = [found, *[await self._search_large(key, asked) for key in large]]
        hits = joined(parts, asked.limit)
        nodes = await self.engine.pool.read(lambda c: self._everything(c, graphs).nodes(hits.names))
        return with_nodes(hits, nodes)

    async def _search_large(self, graph_key: str, asked: BatchRequest) -> WideHits:
        """Search one graph by its own indexes; nothing where it was deleted meanwhile."""
        found: dict[str, list[WideHit]] = {}
        limit, (model, numbers) = asked.limit, asked.vector or ("", np.zeros(0, np.float32))
        searches: tuple[tuple[SearchField, str, str], ...] = (
            ("content", "text", "vector"),
            ("name", "name", "name_vector"),
        )
        with suppress(GraphNotFound):
            for field, text, near in searches:
                hits = await self.search_text(graph_key, asked.query, limit=limit, field=field)
                found[text] = [((graph_key, hit.key), hit.score) for hit in hits]
                if not asked.vector:
                    continue
                query = VectorQuery(vector=numbers, model=model, limit=limit, field=field)
                hits = await self.search_vectors(graph_key, query)
                found[near] = [((graph_key, hit.key), hit.score) for hit in hits]
        return replace(WideHits(), **found)

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        return await self.engine.pool.write(
            lambda c: writes.create_graph(c, self.workspace, graph, mutation, records),
            checked=mutation is not None and writes.only_adds(mutation),
        )

    async def delete_graph(self, graph_key: str) -> None:
        gone = await self.engine.pool.write(
            lambda c: writes.delete_graph(c, self.workspace, graph_key)
        )
        self.engine.cache.forget(gone)
        self.engine.indexes.forget(gone)

    async def apply(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None = None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        return await self.engine.pool.write(
            lambda c: writes.apply(c, self.workspace, mutation, expected_revision, records),
            checked=writes.only_adds(mutation),
        )

    async def put_node_config(self, config: NodeTypeConfig) -> None:
        await self.engine.pool.write(lambda c: writes.put_config(c, self.workspace, config))

    async def put_embeddings(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        return await self.engine.pool.write(
            lambda c: writes.put_embeddings(c, self.workspace, graph_key, vectors),
            durable=False,  # they can be computed again
        )

    async def build_indexes(self, graph_key: str) -> None:
        """Bring the indexes of a large graph up to date now; nothing to do for a small one."""

        def kinds_of(at: Moment) -> tuple[GraphRow, list[IndexKind[Any]]]:
            if at.size <= self.engine.limits.small:
                return at.row, []
            groups = vector_index.vector_groups(at.connection, at.row)
            return at.row, [TEXT_INDEX, *map(vector_index.vector_index_kind, groups)]

        row, kinds = await self._read(graph_key, kinds_of)
        for kind in kinds:
            await asyncio.shield(asyncio.wrap_future(self.engine.indexes.schedule(row, kind)))
