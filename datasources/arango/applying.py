"""Applies a mutation: graph, nodes, edges, types, vectors and the records that join it, all or nothing.

One stream transaction looks first at what is there, refuses what must not be, and then sends one
statement for each kind of change, several for thousands of documents. Of two that change a graph
at once the server lets one through; the other begins anew and sees what the first one did.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from arango.database import StandardDatabase

from datasources.arango import statements_applying as aql
from datasources.arango.connection import ArangoConnection
from datasources.arango.documents import (
    config_document,
    config_keys,
    edge_document,
    graph_document,
    node_document,
    read_graph,
    vector_fields,
)
from datasources.arango.intents import Intents, changes, is_sharded, revisions
from datasources.arango.keys import document_key, encoded, end_key, local_key, node_id
from datasources.arango.names import CONFIGS, EDGES, GRAPHS, HIDDEN, INTENTS, LOCAL_KEY, NODES, TEXT
from datasources.arango.records import Step, prepared, write_records
from datasources.arango.statements_intents import HANGING_EDGES
from datasources.arango.statements_records import collection_of
from datasources.arango.statements_writing import CREATE_GRAPH
from datasources.arango.transactions import Mark, Statements, Transactions
from datasources.base import RecordWrite
from datasources.errors import GraphNotFound, InvalidMutation, RevisionConflict
from datasources.mutations import Existing, check_mutation, dropped_sheets, graph_after, keys_to_look_up
from datasources.types import Graph, Link, Mutation

T = TypeVar("T")

PART = 2_000
"""Documents that one statement writes."""

KEPT = [name for name in HIDDEN if name != TEXT]
"""What a node keeps when its document is replaced: its vectors."""


async def apply(
    connection: ArangoConnection,
    workspace: str,
    mutation: Mutation,
    *,
    expected_revision: int | None = None,
    records: Sequence[RecordWrite] = (),
    indexed_dim: int | None = None,
    create: Mapping[str, Any] | None = None,
) -> int:
    """Apply a mutation and record writes in one transaction; return the new revision.

    `create` is the document of the mutation's graph where that is new: it is stored first.
    Raises: as MutableGraphDataSource.apply; what cannot be settled with the server as SourceError.
    """
    steps = [prepared(workspace, write) for write in records]
    change = Change(workspace, mutation, expected_revision, steps, indexed_dim, create)
    mark = uuid.uuid4().hex

    def work(database: StandardDatabase) -> int:
        if connection.is_sharded is None:
            connection.is_sharded = is_sharded(database)
        declared = Declared(change, Intents(connection, database), mark) if connection.is_sharded else None
        transactions = Transactions(
            connection=connection, database=database, write=change.collections(), mark=mark, guard=declared
        )
        return transactions.do(declared.carry_out if declared else change.carry_out)

    return await connection.run(work)


@dataclass(frozen=True, slots=True)
class Change:
    """A mutation with all that is known of it before a transaction begins."""

    workspace: str
    mutation: Mutation
    expected_revision: int | None
    records: Sequence[Step]
    indexed_dim: int | None = None
    create: Mapping[str, Any] | None = None

    def collections(self) -> list[str]:
        """Return the collections that it may change."""
        kinds = {collection_of(step.write.kind) for step in self.records}
        return [GRAPHS, NODES, EDGES, CONFIGS, *sorted(kinds)]

    def carry_out(self, at: Statements, mark: Mark) -> int:
        """Look, check and write, within a transaction; return the new revision."""
        if self.create is not None:
            at.rows(CREATE_GRAPH, document=self.create)
        state = _Look(self.workspace, self.mutation).look(at)
        if self.expected_revision not in (None, state.graph.revision):
            raise RevisionConflict(
                graph_key=self.mutation.graph_key,
                expected=self.expected_revision,
                actual=state.graph.revision,
            )
        check_mutation(self.mutation, graph=state.graph, existing=self._with_dropped(at, state))
        state.refuse_taken(self.mutation)
        self._delete(at, state)
        self._put(at, state)
        new = graph_after(self.mutation, state.graph)
        at.rows(
            aql.APPLY_GRAPH,
            graph=encoded(new.key),
            workspace=self.workspace,
            document=graph_document(new),
            mark=mark(new.revision),
        )
        write_records(at, self.workspace, self.records)
        return new.revision

    def _with_dropped(self, at: Statements, state: _State) -> Existing:
        """Add what stands on sheets that the mutation takes away."""
        key, sheets = state.graph.key, sorted(dropped_sheets(self.mutation, state.graph))
        if not sheets:
            return state.existing
        (found,) = at.rows(aql.APPLY_ON_SHEETS, graphKey=key, sheets=sheets)
        edges = {
            local_key(row, key): Link(end_key(row, "_from", key), end_key(row, "_to", key))
            for row in found["edges"]
        }
        nodes = {local_key(row, key) for row in found["nodes"]}
        return replace(state.existing, on_dropped=nodes, edges_on_dropped=edges)

    def touched(self, at: Statements) -> dict[str, list[str]]:
        """Return the keys of every document that it may change, by collection."""
        m = self.mutation
        nodes = [*(n.key for n in m.put_nodes), *m.delete_nodes, *(v.key for v in m.put_vectors)]
        edges = [*(e.key for e in m.put_edges), *m.delete_edges]
        configs = [*(c.key for c in m.put_configs), *m.delete_configs]
        ids = [node_id(m.graph_key, key) for key in m.delete_nodes]
        hanging = at.rows(HANGING_EDGES, ids=ids) if ids else []
        found = {
            GRAPHS: [encoded(m.graph_key)],
            NODES: [document_key(m.graph_key, key) for key in nodes],
            EDGES: [*(document_key(m.graph_key, key) for key in edges), *hanging],
            CONFIGS: [name for key in configs for name in config_keys(self.workspace, key)],
        }
        for step in self.records:
            found.setdefault(collection_of(step.write.kind), []).extend(step.names)
        return found

    def _delete(self, at: Statements, state: _State) -> None:
        m = self.mutation
        gone = [document_key(m.graph_key, key) for key in m.delete_nodes]
        cut = [document_key(m.graph_key, key) for key in m.delete_edges]
        if gone or cut:
            ids = [node_id(m.graph_key, key) for key in m.delete_nodes]
            at.rows(aql.APPLY_CUT, edgeKeys=cut, nodeIds=ids, graphKey=m.graph_key)
        if gone:
            at.rows(aql.APPLY_DELETE_NODES, nodeKeys=gone, graphKey=m.graph_key)
        if m.delete_configs:
            keys = [state.configs[key] for key in m.delete_configs]
            at.rows(aql.APPLY_DELETE_CONFIGS, configKeys=keys, workspace=self.workspace)

    def _put(self, at: Statements, state: _State) -> None:
        m = self.mutation
        if m.put_configs:
            documents = [self._config(config, state) for config in m.put_configs]
            at.rows(aql.APPLY_PUT_CONFIGS, documents=documents)
        for nodes in _parts(m.put_nodes):
            at.rows(aql.APPLY_PUT_NODES, documents=[node_document(node) for node in nodes], kept=KEPT)
        for edges in _parts(m.put_edges):
            at.rows(aql.APPLY_PUT_EDGES, documents=[edge_document(edge) for edge in edges])
        for some in _parts(m.put_vectors):
            vectors = [
                {"_key": document_key(m.graph_key, v.key), **vector_fields(v, self.indexed_dim)} for v in some
            ]
            at.rows(aql.APPLY_PUT_VECTORS, vectors=vectors)

    def _config(self, config: Any, state: _State) -> dict[str, Any]:
        document = config_document(config)
        key = state.configs.get(config.key) or state.free_config_key(self.workspace, config.key)
        if key != document["_key"]:
            document |= {"_key": key, LOCAL_KEY: config.key}
        return document


def _parts(all_of_them: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut what is written into statements that each stay far from the server's limits of time and size."""
    for start in range(0, len(all_of_them), PART):
        yield all_of_them[start : start + PART]


@dataclass(slots=True)
class Declared:
    """A change that is declared as an intent before it is committed. Implements Guard."""

    change: Change
    intents: Intents
    mark: str
    done_to: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def carry_out(self, at: Statements, mark: Mark) -> int:
        touched = {**self.change.touched(at), INTENTS: [self.mark]}
        before = revisions(at, touched)
        result = self.change.carry_out(at, mark)
        self.done_to = changes(at, touched, before)
        return result

    def before(self) -> None:
        self.intents.settle_open(self.change.workspace, self.change.mutation.graph_key)

    def ready(self, transaction: str) -> None:
        self.intents.declare(
            self.mark,
            workspace=self.change.workspace,
            graph_key=self.change.mutation.graph_key,
            transaction=transaction,
            done=self.done_to,
        )

    def settle(self) -> None:
        self.intents.settle(self.mark)

    def done(self) -> None:
        self.intents.withdraw(self.mark)


@dataclass(frozen=True, slots=True)
class _State:
    """What is stored of what a mutation concerns. `configs` maps this workspace's to their document keys."""

    graph: Graph
    existing: Existing
    foreign_nodes: frozenset[str] = frozenset()
    foreign_edges: frozenset[str] = frozenset()
    configs: dict[str, str] = field(default_factory=dict[str, str])
    foreign_configs: frozenset[str] = frozenset()

    def refuse_taken(self, mutation: Mutation) -> None:
        """Refuse documents whose key is that of another graph's document. Raises: InvalidMutation."""
        of = mutation.graph_key
        taken = [n.key for n in mutation.put_nodes if document_key(of, n.key) in self.foreign_nodes]
        taken += [e.key for e in mutation.put_edges if document_key(of, e.key) in self.foreign_edges]
        if taken:
            reason = "keys that a graph of a similar name uses in the database; choose other keys"
            raise InvalidMutation(graph_key=mutation.graph_key, reason=reason, keys=taken)

    def free_config_key(self, workspace: str, key: str) -> str:
        plain, scoped = config_keys(workspace, key)
        return scoped if plain in self.foreign_configs else plain


@dataclass(frozen=True, slots=True)
class _Look:
    """The one question that a transaction begins with."""

    workspace: str
    mutation: Mutation

    def look(self, at: Statements) -> _State:
        """Raises: GraphNotFound, BadDocument."""
        m, needed = self.mutation, keys_to_look_up(self.mutation)
        nodes = {document_key(m.graph_key, key): key for key in needed.nodes | {n.key for n in m.put_nodes}}
        edges = {document_key(m.graph_key, key): key for key in needed.edges | {e.key for e in m.put_edges}}
        configs = {
            name: key
            for key in needed.configs | {config.key for config in m.put_configs}
            for name in config_keys(self.workspace, key)
        }
        (found,) = at.rows(
            aql.APPLY_LOOK,
            graph=encoded(m.graph_key),
            workspace=self.workspace,
            nodeKeys=list(nodes),
            edgeKeys=list(edges),
            configKeys=list(configs),
        )
        if found["stored"] is None:
            raise GraphNotFound(graph_key=m.graph_key)
        foreign_nodes, foreign_edges = (
            frozenset(row["key"] for row in found[name] if row["graphKey"] != m.graph_key)
            for name in ("nodes", "edges")
        )
        ours = {configs[c["key"]]: c["key"] for c in found["configs"] if c["workspace"] == self.workspace}
        return _State(
            graph=read_graph(found["stored"]),
            existing=Existing(
                nodes={nodes[row["key"]] for row in found["nodes"]} - {nodes[key] for key in foreign_nodes},
                edges={edges[row["key"]] for row in found["edges"]} - {edges[key] for key in foreign_edges},
                configs=ours.keys(),
            ),
            foreign_nodes=foreign_nodes,
            foreign_edges=foreign_edges,
            configs=ours,
            foreign_configs=frozenset(c["key"] for c in found["configs"] if c["workspace"] != self.workspace),
        )
