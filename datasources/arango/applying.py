"""Applies a mutation atomically: graph, nodes, edges, types, vectors and the records written with
it.

One stream transaction first reads the affected documents and checks the mutation, then sends one
statement for each kind of change, several for thousands of documents. If two transactions change a
graph at once, the server rejects one of them, which then starts again and sees the other's changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from datasources.arango import graph_documents as documents
from datasources.arango import statements_write as aql
from datasources.arango.connection import ArangoConnection
from datasources.arango.large_changes import (
    STATEMENTS,
    Step,
    bounded,
    carry_out,
    marker,
    refuse_replaced,
    store_steps,
)
from datasources.arango.layout import CONFIGS, EDGES, GRAPHS, NODES, collection_of
from datasources.arango.records import PreparedWrite, write_records
from datasources.arango.statements_read import ALL_NODES, LARGE_CHANGES
from datasources.arango.transactions import CommitUnknown, Mark, Rows, Work, in_transaction
from datasources.errors import (
    BadDocument,
    GraphNotFound,
    InvalidMutation,
    RevisionConflict,
    SourceError,
)
from datasources.mutations import (
    Existing,
    check_mutation,
    dropped_sheets,
    graph_after,
    keys_to_look_up,
)
from datasources.types import Graph, Mutation

T = TypeVar("T")

MAX_TRANSACTION_BYTES = 48 << 20
"""What one transaction writes at most, about: a server before 3.12.4 takes 128 MiB."""

VECTORS_AT_ONCE = 200
"""Of a large change. To store a vector writes its whole node again, whatever its size."""

PART = 2_000
"""Documents that one statement writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChange:
    """A mutation and the record writes that belong to it. `create` is the document of a new graph.

    `indexed_dim` is the length of vectors in the server's vector index, None without one.
    """

    workspace: str
    mutation: Mutation
    expected_revision: int | None = None
    records: Sequence[PreparedWrite] = ()
    indexed_dim: int | None = None
    create: Mapping[str, Any] | None = None

    async def apply(self, connection: ArangoConnection) -> int:
        """Applies the change and returns the new revision.

        Raises: as MutableGraphDataSource.apply.
        """
        if self._is_large():
            return await self._apply_large(connection)
        return await self._in_one(connection, partial(self._carry_out, connection.source))

    async def _in_one(self, connection: ArangoConnection, work: Work) -> int:
        of_records = {collection_of(prepared.kind) for prepared in self.records}
        written = [GRAPHS, NODES, EDGES, CONFIGS, *sorted(of_records)]
        return await in_transaction(connection, written, work)

    def _carry_out(self, source: str, rows: Rows, mark: Mark) -> int:
        """Reads, checks and writes within a transaction. Returns the new revision."""
        graph, new = self._checked(source, rows)
        self._delete(rows)
        if new.language != graph.language:
            self._put_words(rows, new.language)
        self._put_configs(rows)
        for name, values in self._puts(new.language):
            rows(STATEMENTS[name], **values)
        rows(
            aql.APPLY_GRAPH,
            graph=documents.encoded(new.key),
            workspace=self.workspace,
            document=documents.graph_document(new),
            mark=mark(new.revision),
        )
        write_records(rows, self.workspace, self.records)
        return new.revision

    def _checked(self, source: str, rows: Rows) -> tuple[Graph, Graph]:
        """Returns the graph before and after the change.

        Raises: as MutableGraphDataSource.apply.
        """
        m = self.mutation
        if self.create is not None:
            rows(aql.CREATE_GRAPH, document=self.create)
        graph, existing, taken = self._look(source, rows)
        if self.expected_revision not in (None, graph.revision):
            expected = self.expected_revision
            raise RevisionConflict(graph_key=m.graph_key, expected=expected, actual=graph.revision)
        check_mutation(m, graph=graph, existing=self._with_dropped(rows, graph, existing))
        if taken:
            reason = "keys that a graph of a similar name uses in the database; choose other keys"
            raise InvalidMutation(graph_key=m.graph_key, reason=reason, keys=taken)
        return graph, graph_after(m, graph)

    def _is_large(self) -> bool:
        """Returns whether the change may be too large for one transaction. Estimates the size,
        most of which are the stored words.
        """
        m = self.mutation
        weight = 0
        try:
            weight += sum(3 * len(node.to_json()) for node in m.put_nodes)
            weight += sum(2 * len(edge.to_json()) for edge in m.put_edges)
        except (TypeError, ValueError):
            return False  # values that JSON cannot represent are rejected when they are written
        weight += sum(40 * vector.content.size for vector in m.put_vectors)
        weight += 400 * (len(m.delete_nodes) + len(m.delete_edges))
        return weight > MAX_TRANSACTION_BYTES

    async def _apply_large(self, connection: ArangoConnection) -> int:
        """Applies the change in many transactions. The graph is absent meanwhile, see
        `large_changes`.
        """
        m = self.mutation
        name = documents.encoded(self.mutation.graph_key)
        before = await self._before(connection)
        language = graph_after(m, before).language
        steps = [*self._deletes(), *self._puts(language, vectors_at_once=VECTORS_AT_ONCE)]
        change = await store_steps(connection, steps)
        markers: list[dict[str, Any]] = []

        def decide(rows: Rows, mark: Mark) -> int:
            graph, new = self._checked(connection.source, rows)
            if graph.revision != before.revision:
                raise RevisionConflict(
                    graph_key=m.graph_key, expected=before.revision, actual=graph.revision
                )
            self._put_configs(rows)
            document = documents.graph_document(new)
            replaces = self.create is None
            markers[:] = [marker(change, steps=len(steps), document=document, replaces=replaces)]
            rows(
                aql.HIDE_GRAPH,
                graph=name,
                graphKey=m.graph_key,
                workspace=self.workspace,
                change=markers[0],
                mark=mark(new.revision),
            )
            write_records(rows, self.workspace, self.records)
            return new.revision

        revision = await self._in_one(connection, decide)
        try:
            await carry_out(connection, name, markers[0])
        except SourceError as exc:  # it is certain, and done by whoever asks for the graph later
            raise CommitUnknown(source=connection.source) from exc
        return revision

    async def _before(self, connection: ArangoConnection) -> Graph:
        if self.create is not None:
            return documents.read_document(Graph, self.create)
        nothing: dict[str, Any] = {"nodeKeys": [], "edgeKeys": [], "configKeys": []}
        key = self.mutation.graph_key
        names = {"graph": documents.encoded(key), "graphKey": key, "workspace": self.workspace}
        (found,) = await connection.query(aql.APPLY_LOOK, **names, **nothing)
        if found["stored"] is None:
            raise GraphNotFound(graph_key=key)
        return documents.read_document(Graph, found["stored"])

    def _deletes(self) -> Iterator[Step]:
        m = self.mutation
        empty: dict[str, Any] = {"nodeKeys": [], "nodeIds": [], "edgeKeys": [], "configKeys": []}
        of_graph = empty | {"graphKey": m.graph_key, "workspace": self.workspace}
        for keys in _parts(list(m.delete_edges)):
            yield "delete", of_graph | {"edgeKeys": documents.document_keys(m.graph_key, keys)}
        for keys in _parts(list(m.delete_nodes)):
            names = documents.document_keys(m.graph_key, keys)
            yield (
                "delete",
                of_graph | {"nodeKeys": names, "nodeIds": documents.node_ids(m.graph_key, keys)},
            )

    def _look(self, source: str, rows: Rows) -> tuple[Graph, Existing, list[str]]:
        """Reads everything that the checks of the mutation need, in one statement.

        Returns the graph, the stored documents that the mutation affects, and the keys that
        documents of other graphs already use. Raises: GraphNotFound, BadDocument.
        """
        m = self.mutation
        needed = keys_to_look_up(self.mutation)
        put_nodes = {n.key for n in m.put_nodes}
        put_edges = {e.key for e in m.put_edges}
        nodes = {documents.document_key(m.graph_key, key): key for key in needed.nodes | put_nodes}
        edges = {documents.document_key(m.graph_key, key): key for key in needed.edges | put_edges}
        configs = {
            name: key
            for key in needed.configs
            for name in documents.config_keys(self.workspace, key)
        }
        (found,) = rows(
            aql.APPLY_LOOK,
            graph=documents.encoded(m.graph_key),
            graphKey=m.graph_key,
            workspace=self.workspace,
            nodeKeys=list(nodes),
            edgeKeys=list(edges),
            configKeys=list(configs),
        )
        if found["stored"] is None:
            changes = rows(LARGE_CHANGES, name=documents.encoded(m.graph_key))
            refuse_replaced(changes, self.workspace, source=source)
            raise GraphNotFound(graph_key=m.graph_key)
        existing = Existing(
            nodes={nodes[key] for key, is_ours in found["nodes"] if is_ours},
            edges={edges[key] for key, is_ours in found["edges"] if is_ours},
            configs={configs[key] for key in found["configs"]},
        )
        taken = sorted({nodes[key] for key, is_ours in found["nodes"] if not is_ours} & put_nodes)
        taken += sorted({edges[key] for key, is_ours in found["edges"] if not is_ours} & put_edges)
        return documents.read_document(Graph, found["stored"]), existing, taken

    def _with_dropped(self, rows: Rows, graph: Graph, existing: Existing) -> Existing:
        """Adds the nodes and edges on sheets that the mutation removes."""
        key = graph.key
        sheets = sorted(dropped_sheets(self.mutation, graph))
        if not sheets:
            return existing
        (found,) = rows(aql.APPLY_ON_SHEETS, graphKey=key, sheets=sheets)
        edges = {
            documents.local_key(row, key): documents.read_link(row, key) for row in found["edges"]
        }
        nodes = {documents.local_key(row, key) for row in found["nodes"]}
        return replace(existing, on_dropped=nodes, edges_on_dropped=edges)

    def _delete(self, rows: Rows) -> None:
        m = self.mutation
        if m.delete_nodes or m.delete_edges or m.delete_configs:
            rows(
                aql.APPLY_DELETE,
                graphKey=m.graph_key,
                workspace=self.workspace,
                nodeKeys=documents.document_keys(m.graph_key, m.delete_nodes),
                nodeIds=documents.node_ids(m.graph_key, m.delete_nodes),
                edgeKeys=documents.document_keys(m.graph_key, m.delete_edges),
                configKeys=[
                    name
                    for key in m.delete_configs
                    for name in documents.config_keys(self.workspace, key)
                ],
            )

    def _put_words(self, rows: Rows, language: str | None) -> None:
        """Stores the words of all nodes again, after the language of the graph has changed."""
        after = ""
        while page := rows(ALL_NODES, graphKey=self.mutation.graph_key, after=after, limit=PART):
            docs: list[dict[str, Any]] = []
            for stored in page:
                with suppress(BadDocument):  # `db check` reports it
                    docs.append(documents.word_update(stored, language))
            rows(aql.PUT_WORDS, docs=docs)
            after = page[-1]["_key"]

    def _put_configs(self, rows: Rows) -> None:
        if self.mutation.put_configs:
            configs = [
                documents.config_row(self.workspace, config) for config in self.mutation.put_configs
            ]
            rows(aql.PUT_CONFIGS, docs=configs, workspace=self.workspace)

    def _puts(self, language: str | None, vectors_at_once: int | None = None) -> Iterator[Step]:
        """Yields the writes as steps of limited size, nodes before their edges and vectors."""
        m = self.mutation
        for nodes in _parts(m.put_nodes):
            stored = [documents.node_document(node, language) for node in nodes]
            yield from bounded("nodes", "documents", stored)
        for edges in _parts(m.put_edges):
            yield from bounded("edges", "documents", list(map(documents.edge_document, edges)))
        for vectors in _parts(m.put_vectors, vectors_at_once):
            fields = [
                documents.vector_fields(m.graph_key, vector, self.indexed_dim) for vector in vectors
            ]
            yield from bounded("vectors", "vectors", fields)


def _parts(all_of_them: Sequence[T], most: int | None = None) -> Iterator[Sequence[T]]:
    """Splits a list into parts that one statement writes, far below the server's limits of time
    and size.
    """
    part = most or PART
    for start in range(0, len(all_of_them), part):
        yield all_of_them[start : start + part]
