"""The graphs of one workspace in the embedded database.

A small graph is answered from memory, in the event loop itself: what is held is checked against
the graph's versions with one look-up of some microseconds, so another process's write is seen at
once. A large graph is answered by SQL in a reader's thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from datasources.base import RecordWrite
from datasources.sqlite import large, writes
from datasources.sqlite import statements as sql
from datasources.sqlite.cached_vectors import HeldVectors
from datasources.sqlite.cached_words import HeldWords
from datasources.sqlite.engine import Engine
from datasources.sqlite.index_manager import IndexKind
from datasources.sqlite.rows import GraphRow, array, graph_row, graph_versions, storable, vector_of
from datasources.sqlite.snapshot import GraphDocuments
from datasources.sqlite.text_index import TEXT_INDEX
from datasources.sqlite.text_search import search_large
from datasources.sqlite.vector_build import vector_index_kind
from datasources.sqlite.vector_index import VectorGroup
from datasources.sqlite.vector_search import (
    VectorQuery,
    count_vectors,
    load_matrix,
    score_nodes,
    search_exactly,
    search_index,
    vector_groups,
)
from datasources.text import tokenize
from datasources.types import (
    Direction,
    Edge,
    Graph,
    GraphStats,
    GraphVersions,
    Hit,
    Link,
    LinkTable,
    Mutation,
    Node,
    NodeTypeConfig,
    NodeVector,
    SearchField,
    Subgraph,
    Vector,
    VectorInfo,
    parse_document,
)

T = TypeVar("T")

FEW = 100
"""So many documents are read from the file when their graph is not in memory."""


@dataclass(frozen=True, slots=True)
class SqliteSource:
    """Implements MutableGraphDataSource. Documents are shared between reads: their data is read-only."""

    engine: Engine
    workspace: str
    _rows: dict[str, GraphRow] = field(default_factory=dict[str, GraphRow], repr=False, compare=False)

    def _here(self, statement: str, values: dict[str, object]) -> list[tuple[Any, ...]]:
        """Look something up in the event loop's own thread."""
        return self.engine.pool.look_up(lambda c: c.execute(statement, values).fetchall())

    def _row(self, graph_key: str) -> GraphRow:
        """Return where a graph stands, looked up once in a step of the event loop.

        What this step can know of was stored before it began, so nobody misses their own write.
        """
        row = self._rows.get(graph_key)
        if row is None:
            row = self.engine.pool.look_up(lambda c: graph_versions(c, self.workspace, graph_key))
            asyncio.get_running_loop().call_soon(self._rows.clear)
            self._rows[graph_key] = row
        return row

    async def _read(
        self, graph_key: str, work: Callable[[sqlite3.Connection, GraphRow], T], *, apart: bool = False
    ) -> T:
        """Run `work` on a graph in a reader's thread, on one moment of it."""
        return await self.engine.pool.read(
            lambda c: work(c, graph_row(c, self.workspace, graph_key)), apart=apart
        )

    async def _documents(self, graph_key: str, *, few: bool = False) -> GraphDocuments | None:
        """Return the graph as held in memory, or None when it is too large for that, or not held yet.

        For a `few` documents a graph that has just changed is not loaded: the file gives them sooner.
        """
        row, limits = self._row(graph_key), self.engine.limits
        size = row.nodes + row.edges
        if size > max(limits.held, limits.linked):
            return None

        def load(connection: sqlite3.Connection) -> tuple[object, GraphDocuments, int]:
            now = graph_row(connection, self.workspace, graph_key)
            documents = GraphDocuments.load(connection, now)
            return now.revision, documents, documents.nbytes

        name = ("documents", row.id)
        if few or size > limits.held:
            return self.engine.held_later(name, row.revision, load)
        return await self.engine.held(name, row.revision, load)

    def is_small(self, graph_key: str) -> bool:
        """See AnswersFromMemory."""
        row, limits = self._row(graph_key), self.engine.limits
        return row.nodes + row.edges <= limits.held and row.nodes <= limits.exact

    async def list_graphs(self) -> list[Graph]:
        rows = await self.engine.pool.read(
            lambda c: c.execute(sql.GRAPH_LIST, {"workspace": self.workspace}).fetchall()
        )
        return [parse_document(Graph, body, "graphs") for (body,) in rows]

    async def get_graph(self, graph_key: str) -> Graph:
        return (await self.get_versions(graph_key)).graph

    async def get_versions(self, graph_key: str) -> GraphVersions:
        row = self._row(graph_key)
        vectors = str(row.vector_version)
        body = self.engine.snapshots.get(("graph", row.id), row.revision)
        if isinstance(body, Graph):
            return GraphVersions(graph=body, vectors=vectors)
        graph = await self._read(graph_key, lambda _, now: parse_document(Graph, now.body, "graphs"))
        self.engine.snapshots.put(("graph", row.id), graph.revision, graph, 2_000)
        return GraphVersions(graph=graph, vectors=vectors)

    async def get_stats(self, graph_key: str) -> GraphStats:
        return await self._read(graph_key, large.stats)

    async def get_nodes(
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Node]:
        return await self._read(graph_key, lambda c, row: large.nodes(c, row, sheet, after, limit))

    async def get_edges(
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Edge]:
        return await self._read(graph_key, lambda c, row: large.edges(c, row, sheet, after, limit))

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        documents = await self._documents(graph_key, few=len(keys) <= FEW)
        if documents is not None:
            return documents.nodes_by_key(keys)
        return await self._read(graph_key, lambda c, row: large.nodes_by_key(c, row, keys))

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        documents = await self._documents(graph_key, few=len(keys) <= FEW)
        if documents is not None:
            return documents.edges_of(keys)
        return await self._read(graph_key, lambda c, row: large.edges_of(c, row, keys))

    async def get_links(
        self, graph_key: str, keys: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[Link]:
        documents = await self._documents(graph_key)
        if documents is not None:
            return documents.links(keys, limit)
        return await self._read(graph_key, lambda c, row: large.links(c, row, keys, limit))

    async def get_link_table(self, graph_key: str, keys: Sequence[str], *, limit: int) -> LinkTable:
        """Return the edges of these nodes as `get_links`, in any order: numbers instead of keys."""
        documents = await self._documents(graph_key)
        if documents is not None:
            return documents.link_table(keys, limit)

        return await self._read(graph_key, lambda c, row: self._link_table(c, row, keys, limit))

    def _link_table(
        self, connection: sqlite3.Connection, row: GraphRow, keys: Sequence[str], limit: int
    ) -> LinkTable:
        index = self.engine.indexes.opened(row, TEXT_INDEX)
        return large.link_table(connection, row, keys, limit, None if index is None else index.nodes)

    async def get_chosen(
        self, graph_key: str, keys: Sequence[str], choose: Callable[[LinkTable], Sequence[str]], *, limit: int
    ) -> Subgraph:
        """See LinkTables."""
        documents = await self._documents(graph_key)
        if documents is not None:
            chosen = choose(documents.link_table(keys, limit))
            return documents.neighborhood(chosen, 0, "any", len(chosen))

        def work(connection: sqlite3.Connection, row: GraphRow) -> Subgraph:
            chosen = choose(self._link_table(connection, row, keys, limit))
            return large.neighborhood(connection, row, chosen, 0, "any", len(chosen))

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
        documents = await self._documents(graph_key)
        if documents is not None:
            return documents.neighborhood(keys, max_depth, direction, limit)
        return await self._read(
            graph_key, lambda c, row: large.neighborhood(c, row, keys, max_depth, direction, limit)
        )

    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        self.engine.pool.check_open()
        rows = self._here(sql.TYPES_VERSION, {})
        version = rows[0][0] if rows else "0"

        def load(connection: sqlite3.Connection) -> tuple[object, list[NodeTypeConfig], int]:
            found = connection.execute(sql.TYPES_VERSION).fetchone()
            configs = writes.read_configs(connection, self.workspace)
            return (found[0] if found else "0"), configs, 4_000 * len(configs)

        configs = await self.engine.held(("types", self.workspace), version, load)
        if types is None:
            return list(configs)
        wanted = set(types)
        return [config for config in configs if config.type in wanted]

    async def search_text(
        self, graph_key: str, query: str, *, limit: int, field: SearchField = "content"
    ) -> list[Hit]:
        row, terms = self._row(graph_key), tokenize(query)
        if row.nodes + row.edges > self.engine.limits.held:
            return await self._search_index(graph_key, row, terms, limit, field)

        name = ("text", row.id, field)
        older = self.engine.snapshots.last(name)

        def load(connection: sqlite3.Connection) -> tuple[object, HeldWords, int]:
            now = graph_row(connection, self.workspace, graph_key)
            if isinstance(older, HeldWords):
                held = older.refreshed(connection, now, field)
            else:
                held = HeldWords.load(connection, now, field)
            return now.text_version, held, held.nbytes

        held = await self.engine.held(name, row.text_version, load)
        return held.index.search(terms, limit)

    async def _search_index(
        self, graph_key: str, row: GraphRow, terms: Sequence[str], limit: int, field: SearchField
    ) -> list[Hit]:
        def work(connection: sqlite3.Connection, now: GraphRow) -> tuple[list[Hit], bool]:
            usable = self.engine.indexes.usable(connection, now, TEXT_INDEX)
            due = usable is None or len(usable[1]) > TEXT_INDEX.repair_at
            return search_large(connection, now, terms, limit, field, usable), due

        hits, due = await self._read(graph_key, work)
        if due:
            self.engine.indexes.schedule(self.workspace, graph_key, row, TEXT_INDEX)
        return hits

    async def search_vectors(
        self,
        graph_key: str,
        vector: Vector,
        *,
        model: str,
        limit: int,
        min_score: float = 0.0,
        field: SearchField = "content",
    ) -> list[Hit]:
        row = self._row(graph_key)
        if vector.ndim != 1 or not vector.size or not np.isfinite(vector).all() or limit <= 0:
            return []
        if not storable(model):
            return []
        group = VectorGroup(model=model, dim=vector.size, field=field)
        if row.nodes <= self.engine.limits.exact:

            def load(connection: sqlite3.Connection) -> tuple[object, HeldVectors, int]:
                now = graph_row(connection, self.workspace, graph_key)
                held = HeldVectors.of(load_matrix(connection, now, group))
                return now.vector_version, held, held.nbytes

            held = await self.engine.held(("vectors", row.id, group), row.vector_version, load)
            return held.search(vector, limit, min_score)
        query = VectorQuery(group=group, vector=vector, limit=limit, min_score=min_score)
        return await self._search_vector_index(graph_key, row, query)

    def may_miss_vectors(self, graph_key: str) -> bool:
        """Tell whether a vector search of this graph may miss nodes: where not all vectors are compared."""
        limits = self.engine.limits
        return self._row(graph_key).nodes > max(limits.exact, limits.scanned)

    async def score_vectors(
        self,
        graph_key: str,
        vector: Vector,
        keys: Sequence[str],
        *,
        model: str,
        field: SearchField = "content",
    ) -> list[Hit]:
        """Return the exact cosines of nodes that an approximate search may have missed.

        Best first; none where all vectors are compared, for then nothing is missed.
        """
        if not self.may_miss_vectors(graph_key) or not keys or not storable(model):
            return []
        group = VectorGroup(model=model, dim=vector.size, field=field)
        query = VectorQuery(group=group, vector=vector, limit=len(keys), min_score=0.0)
        kind = vector_index_kind(group, self.engine.limits.scanned)

        def work(connection: sqlite3.Connection, now: GraphRow) -> list[Hit]:
            usable = self.engine.indexes.usable(connection, now, kind)
            return score_nodes(connection, now, query, keys, usable)

        return await self._read(graph_key, work)

    async def _search_vector_index(self, graph_key: str, row: GraphRow, query: VectorQuery) -> list[Hit]:
        kind = vector_index_kind(query.group, self.engine.limits.scanned)

        def work(connection: sqlite3.Connection, now: GraphRow) -> tuple[list[Hit], bool]:
            count = count_vectors(connection, now, query.group)
            if count <= self.engine.limits.exact:
                return search_exactly(connection, now, query) if count else [], False
            usable = self.engine.indexes.usable(connection, now, kind)
            if usable is None:
                return search_exactly(connection, now, query), True
            return search_index(connection, query, *usable), len(usable[1]) > kind.repair_at

        hits, due = await self._read(graph_key, work, apart=True)
        if due:
            self.engine.indexes.schedule(self.workspace, graph_key, row, kind)
        return hits

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        rows = await self._by_key(graph_key, sql.VECTOR_INFO, keys)
        return {key: VectorInfo(model, digest) for key, model, digest in rows}

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        rows = await self._by_key(graph_key, sql.VECTORS_BY_KEY, keys)
        return {
            key: NodeVector(
                key=key,
                model=model,
                hash=digest,
                content=vector_of(content),
                name=None if name is None else vector_of(name),
            )
            for key, model, digest, content, name in rows
        }

    async def _by_key(self, graph_key: str, statement: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        values = {"keys": array(dict.fromkeys(keys))}
        return await self._read(
            graph_key, lambda c, row: c.execute(statement, {**values, "graph": row.id}).fetchall()
        )

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        return await self.engine.pool.write(
            lambda c: writes.create_graph(c, self.workspace, graph, mutation, records),
            checked=mutation is not None and writes.only_adds(mutation),
        )

    async def delete_graph(self, graph_key: str) -> None:
        gone = await self.engine.pool.write(lambda c: writes.delete_graph(c, self.workspace, graph_key))
        self.engine.snapshots.drop(lambda name: len(name) > 1 and name[1] == gone)
        self.engine.indexes.forget(gone)

    async def apply(
        self, mutation: Mutation, *, expected_revision: int | None = None, records: Sequence[RecordWrite] = ()
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
        """Bring the index files of a large graph up to date now; nothing to do for a small one."""
        row, limits = self._row(graph_key), self.engine.limits
        kinds: list[IndexKind[Any]] = []
        if row.nodes + row.edges > limits.held:
            kinds.append(TEXT_INDEX)
        if row.nodes > limits.exact:
            groups = await self._read(graph_key, vector_groups)
            kinds.extend(
                vector_index_kind(group, limits.scanned) for group, count in groups if count > limits.exact
            )
        indexes = self.engine.indexes
        for kind in kinds:
            await asyncio.shield(indexes.schedule(self.workspace, graph_key, row, kind))
        await self.engine.pool.write(lambda c: indexes.trim_logs(c, row, kinds), durable=False)
