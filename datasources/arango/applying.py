"""Applies a mutation: graph, nodes, edges, types, vectors and the records that join it, all or nothing.

One stream transaction looks first at what is there, refuses what must not be, and then sends one
statement for each kind of change, several for thousands of documents. Of two that change a graph
at once the server lets one through; the other begins again and sees what the first one did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from datasources.arango import graph_documents as documents
from datasources.arango import statements_write as aql
from datasources.arango.connection import ArangoConnection
from datasources.arango.layout import CONFIGS, EDGES, GRAPHS, NODES, collection_of
from datasources.arango.records import PreparedWrite, write_records
from datasources.arango.statements_read import ALL_NODES
from datasources.arango.transactions import Mark, Rows, in_transaction
from datasources.errors import BadDocument, GraphNotFound, InvalidMutation, RevisionConflict
from datasources.mutations import Existing, check_mutation, dropped_sheets, graph_after, keys_to_look_up
from datasources.types import Graph, Mutation

T = TypeVar("T")

PART = 2_000
"""Documents that one statement writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChange:
    """A mutation and the record writes that join it. `create` is the document of a graph that is new.

    `indexed_dim` is the length of vectors that the server's vector index takes, None without one.
    """

    workspace: str
    mutation: Mutation
    expected_revision: int | None = None
    records: Sequence[PreparedWrite] = ()
    indexed_dim: int | None = None
    create: Mapping[str, Any] | None = None

    async def apply(self, connection: ArangoConnection) -> int:
        """Apply it in one transaction; return the new revision. Raises: as MutableGraphDataSource.apply."""
        of_records = {collection_of(prepared.kind) for prepared in self.records}
        written = [GRAPHS, NODES, EDGES, CONFIGS, *sorted(of_records)]
        return await in_transaction(connection, written, self._carry_out)

    def _carry_out(self, rows: Rows, mark: Mark) -> int:
        """Look, check and write, within a transaction."""
        m = self.mutation
        if self.create is not None:
            rows(aql.CREATE_GRAPH, document=self.create)
        graph, existing, taken = self._look(rows)
        if self.expected_revision not in (None, graph.revision):
            expected = self.expected_revision
            raise RevisionConflict(graph_key=m.graph_key, expected=expected, actual=graph.revision)
        check_mutation(m, graph=graph, existing=self._with_dropped(rows, graph, existing))
        if taken:
            reason = "keys that a graph of a similar name uses in the database; choose other keys"
            raise InvalidMutation(graph_key=m.graph_key, reason=reason, keys=taken)
        self._delete(rows)
        new = graph_after(m, graph)
        if new.language != graph.language:
            self._put_words(rows, new.language)
        self._put(rows, new.language)
        rows(
            aql.APPLY_GRAPH,
            graph=documents.encoded(new.key),
            workspace=self.workspace,
            document=documents.graph_document(new),
            mark=mark(new.revision),
        )
        write_records(rows, self.workspace, self.records)
        return new.revision

    def _look(self, rows: Rows) -> tuple[Graph, Existing, list[str]]:
        """Ask the one question that a transaction begins with.

        Return the graph, what of the mutation is stored, and those of its keys that another graph's documents
        have in the database. Raises: GraphNotFound, BadDocument.
        """
        m, needed = self.mutation, keys_to_look_up(self.mutation)
        put_nodes, put_edges = {n.key for n in m.put_nodes}, {e.key for e in m.put_edges}
        nodes = {documents.document_key(m.graph_key, key): key for key in needed.nodes | put_nodes}
        edges = {documents.document_key(m.graph_key, key): key for key in needed.edges | put_edges}
        configs = {name: key for key in needed.configs for name in documents.config_keys(self.workspace, key)}
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
        """Add what stands on sheets that the mutation takes away."""
        key, sheets = graph.key, sorted(dropped_sheets(self.mutation, graph))
        if not sheets:
            return existing
        (found,) = rows(aql.APPLY_ON_SHEETS, graphKey=key, sheets=sheets)
        edges = {documents.local_key(row, key): documents.read_link(row, key) for row in found["edges"]}
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
                    name for key in m.delete_configs for name in documents.config_keys(self.workspace, key)
                ],
            )

    def _put_words(self, rows: Rows, language: str | None) -> None:
        """Put the words of all nodes by the rules of another language."""
        after = ""
        while page := rows(ALL_NODES, graphKey=self.mutation.graph_key, after=after, limit=PART):
            docs: list[dict[str, Any]] = []
            for stored in page:
                with suppress(BadDocument):  # `db check` names it
                    docs.append(documents.word_update(stored, language))
            rows(aql.PUT_WORDS, docs=docs)
            after = page[-1]["_key"]

    def _put(self, rows: Rows, language: str | None) -> None:
        m = self.mutation
        if m.put_configs:
            configs = [documents.config_row(self.workspace, config) for config in m.put_configs]
            rows(aql.PUT_CONFIGS, docs=configs, workspace=self.workspace)
        for nodes in _parts(m.put_nodes):
            stored = [documents.node_document(node, language) for node in nodes]
            rows(aql.APPLY_PUT_NODES, documents=stored)
        for edges in _parts(m.put_edges):
            rows(aql.APPLY_PUT_EDGES, documents=list(map(documents.edge_document, edges)))
        for vectors in _parts(m.put_vectors):
            fields = [documents.vector_fields(m.graph_key, vector, self.indexed_dim) for vector in vectors]
            rows(aql.APPLY_PUT_VECTORS, vectors=fields)


def _parts(all_of_them: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut what is written into statements that each stay far from the server's limits of time and size."""
    for start in range(0, len(all_of_them), PART):
        yield all_of_them[start : start + PART]
