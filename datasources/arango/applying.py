"""Applies a mutation: graph, nodes, edges, types, vectors and the records that join it, all or nothing.

One stream transaction looks first at what is there, refuses what must not be, and then sends one
statement for each kind of change, several for thousands of documents. Of two that change a graph
at once the server lets one through; the other begins again and sees what the first one did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from datasources.arango import statements_write as aql
from datasources.arango.documents import (
    config_document,
    config_keys,
    edge_document,
    graph_document,
    node_document,
    read_graph,
    vector_fields,
)
from datasources.arango.keys import document_key, encoded, end_key, local_key, node_id
from datasources.arango.names import CONFIGS, EDGES, GRAPHS, HIDDEN, LOCAL_KEY, NODES, TEXT
from datasources.arango.records import PreparedWrite, write_records
from datasources.arango.statements import collection_of
from datasources.arango.transactions import Mark, Statements
from datasources.errors import GraphNotFound, InvalidMutation, RevisionConflict
from datasources.mutations import Existing, check_mutation, dropped_sheets, graph_after, keys_to_look_up
from datasources.types import Graph, Link, Mutation, NodeTypeConfig

T = TypeVar("T")

PART = 2_000
"""Documents that one statement writes."""

KEPT = [name for name in HIDDEN if name != TEXT]
"""What a node keeps when its document is replaced: its vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredParts:
    """What is stored of what a mutation concerns.

    `taken` are keys of the mutation that another graph's documents have in the database. `configs` maps this
    workspace's types to their document keys; `foreign_configs` are document keys of other workspaces.
    """

    graph: Graph
    existing: Existing
    taken: Sequence[str]
    configs: Mapping[str, str]
    foreign_configs: frozenset[str]


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

    def collections(self) -> list[str]:
        """Return the collections that it may change."""
        of_records = {collection_of(prepared.write.kind) for prepared in self.records}
        return [GRAPHS, NODES, EDGES, CONFIGS, *sorted(of_records)]

    def carry_out(self, at: Statements, mark: Mark) -> int:
        """Look, check and write, within a transaction; return the new revision.

        Raises: as MutableGraphDataSource.apply.
        """
        m = self.mutation
        if self.create is not None:
            at.rows(aql.CREATE_GRAPH, document=self.create)
        stored = self._look(at)
        actual = stored.graph.revision
        if self.expected_revision not in (None, actual):
            raise RevisionConflict(graph_key=m.graph_key, expected=self.expected_revision, actual=actual)
        check_mutation(m, graph=stored.graph, existing=self._with_dropped(at, stored))
        if stored.taken:
            reason = "keys that a graph of a similar name uses in the database; choose other keys"
            raise InvalidMutation(graph_key=m.graph_key, reason=reason, keys=stored.taken)
        self._delete(at, stored)
        self._put(at, stored)
        new = graph_after(m, stored.graph)
        at.rows(
            aql.APPLY_GRAPH,
            graph=encoded(new.key),
            workspace=self.workspace,
            document=graph_document(new),
            mark=mark(new.revision),
        )
        write_records(at, self.workspace, self.records)
        return new.revision

    def _look(self, at: Statements) -> _StoredParts:
        """Ask the one question that a transaction begins with. Raises: GraphNotFound, BadDocument."""
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
        our_nodes, foreign_nodes = _apart(found["nodes"], nodes, "graphKey", m.graph_key)
        our_edges, foreign_edges = _apart(found["edges"], edges, "graphKey", m.graph_key)
        our_configs, foreign_configs = _apart(found["configs"], configs, "workspace", self.workspace)
        foreign = set(foreign_nodes.values()), set(foreign_edges.values())
        taken = [node.key for node in m.put_nodes if node.key in foreign[0]]
        taken += [edge.key for edge in m.put_edges if edge.key in foreign[1]]
        return _StoredParts(
            graph=read_graph(found["stored"]),
            existing=Existing(
                nodes=set(our_nodes.values()),
                edges=set(our_edges.values()),
                configs=set(our_configs.values()),
            ),
            taken=taken,
            configs={key: name for name, key in our_configs.items()},
            foreign_configs=frozenset(foreign_configs),
        )

    def _with_dropped(self, at: Statements, stored: _StoredParts) -> Existing:
        """Add what stands on sheets that the mutation takes away."""
        key, sheets = stored.graph.key, sorted(dropped_sheets(self.mutation, stored.graph))
        if not sheets:
            return stored.existing
        (found,) = at.rows(aql.APPLY_ON_SHEETS, graphKey=key, sheets=sheets)
        edges = {
            local_key(row, key): Link(end_key(row, "_from", key), end_key(row, "_to", key))
            for row in found["edges"]
        }
        nodes = {local_key(row, key) for row in found["nodes"]}
        return replace(stored.existing, on_dropped=nodes, edges_on_dropped=edges)

    def _delete(self, at: Statements, stored: _StoredParts) -> None:
        m = self.mutation
        gone = [document_key(m.graph_key, key) for key in m.delete_nodes]
        cut = [document_key(m.graph_key, key) for key in m.delete_edges]
        if gone or cut:
            ids = [node_id(m.graph_key, key) for key in m.delete_nodes]
            at.rows(aql.APPLY_CUT, edgeKeys=cut, nodeIds=ids, graphKey=m.graph_key)
        if gone:
            at.rows(aql.APPLY_DELETE_NODES, nodeKeys=gone, graphKey=m.graph_key)
        if m.delete_configs:
            keys = [stored.configs[key] for key in m.delete_configs]
            at.rows(aql.APPLY_DELETE_CONFIGS, configKeys=keys, workspace=self.workspace)

    def _put(self, at: Statements, stored: _StoredParts) -> None:
        m = self.mutation
        if m.put_configs:
            at.rows(aql.APPLY_PUT_CONFIGS, documents=[self._config(c, stored) for c in m.put_configs])
        for nodes in _parts(m.put_nodes):
            at.rows(aql.APPLY_PUT_NODES, documents=[node_document(node) for node in nodes], kept=KEPT)
        for edges in _parts(m.put_edges):
            at.rows(aql.APPLY_PUT_EDGES, documents=[edge_document(edge) for edge in edges])
        for some in _parts(m.put_vectors):
            vectors = [
                {"_key": document_key(m.graph_key, v.key), **vector_fields(v, self.indexed_dim)} for v in some
            ]
            at.rows(aql.APPLY_PUT_VECTORS, vectors=vectors)

    def _config(self, config: NodeTypeConfig, stored: _StoredParts) -> dict[str, Any]:
        plain, scoped = config_keys(self.workspace, config.key)
        key = stored.configs.get(config.key) or (scoped if plain in stored.foreign_configs else plain)
        named = {LOCAL_KEY: config.key} if key == scoped else {}
        return {**config_document(config), "_key": key, **named}


def _apart(
    rows: Sequence[Mapping[str, Any]], wanted: Mapping[str, str], owner: str, name: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the wanted keys by document key: where the document is of our graph or workspace, and others."""
    ours = {row["key"]: wanted[row["key"]] for row in rows if row[owner] == name}
    return ours, {row["key"]: wanted[row["key"]] for row in rows if row[owner] != name}


def _parts(all_of_them: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut what is written into statements that each stay far from the server's limits of time and size."""
    for start in range(0, len(all_of_them), PART):
        yield all_of_them[start : start + PART]
