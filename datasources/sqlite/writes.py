"""Writes: a mutation, a type, embeddings, a new or deleted graph. Each function
is one transaction's work.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from datasources import mutations
from datasources.base import RecordWrite
from datasources.builtin_types import types_by_name
from datasources.errors import GraphExists, RevisionConflict
from datasources.hits import NodeVector
from datasources.links import Link
from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import VECTOR_LOG
from datasources.sqlite.everywhere import put_uses
from datasources.sqlite.node_types import read_configs
from datasources.sqlite.records import write_record
from datasources.sqlite.rows import GraphRow, array, graph_row
from datasources.sqlite.words import CHUNK, WordChanges, reindex_types, stored_words
from datasources.types import (
    ROOT_WORKSPACE,
    Edge,
    Graph,
    Mutation,
    Node,
    NodeTypeConfig,
    parse_document,
)
from datasources.uses import entries_of

Configs = Mapping[str, NodeTypeConfig]


def create_graph(
    connection: sqlite3.Connection,
    workspace: str,
    graph: Graph,
    mutation: Mutation | None,
    records: Sequence[RecordWrite],
) -> Graph:
    """Store a new graph with its content. See MutableGraphDataSource.create_graph."""
    mutations.check_owner(graph, workspace, "graphs")
    if connection.execute(sql.GRAPH_EXISTS, {"key": graph.key}).fetchone():
        raise GraphExists(graph_key=graph.key)
    body = mutations.encode_document(graph.replace(revision=0), "graphs", graph.key)
    connection.execute(sql.GRAPH_INSERT, {"key": graph.key, "workspace": workspace, "body": body})
    if mutation is not None:
        apply(connection, workspace, mutation, None, records)
        return graph_row(connection, workspace, graph.key).graph
    return parse_document(Graph, body, "graphs")


def delete_graph(connection: sqlite3.Connection, workspace: str, graph_key: str) -> int:
    """Delete a graph with all that belongs to it; return the id it had."""
    row = graph_row(connection, workspace, graph_key)
    connection.execute(sql.WORDS_DELETE_RANGE, row.range)
    connection.execute(sql.GRAPH_DELETE, {"graph": row.id})
    return row.id


def put_config(connection: sqlite3.Connection, workspace: str, config: NodeTypeConfig) -> None:
    """Store a node type and index again the nodes whose text it changes, in every graph
    that sees it.
    """
    mutations.check_owner(config, workspace, "node_configs")
    before = _visible_everywhere(connection, workspace)
    _put_configs(connection, workspace, [config])
    _reindex_all(connection, workspace, before)


def put_embeddings(
    connection: sqlite3.Connection, workspace: str, graph_key: str, vectors: Sequence[NodeVector]
) -> int:
    """Store vectors of nodes that exist; return how many."""
    row = graph_row(connection, workspace, graph_key)
    mutations.check_vectors(graph_key, vectors)
    found = _rids(connection, sql.NODE_RIDS, row.id, [vector.key for vector in vectors])
    kept = [(found[vector.key], vector) for vector in vectors if vector.key in found]
    if kept:
        _put_vectors(connection, row, kept)
        connection.execute(sql.GRAPH_VECTORS_UPDATE, {"graph": row.id})
    return len(kept)


def only_adds(mutation: Mutation) -> bool:
    """Tell whether a mutation takes no row away: `apply` then knows all that its rows refer to."""
    return not (mutation.delete_nodes or mutation.delete_edges)


def apply(
    connection: sqlite3.Connection,
    workspace: str,
    mutation: Mutation,
    expected_revision: int | None,
    records: Sequence[RecordWrite],
) -> int:
    """Apply a mutation and record writes; return the new revision. See
    MutableGraphDataSource.apply.
    """
    row = graph_row(connection, workspace, mutation.graph_key)
    if expected_revision is not None and expected_revision != row.revision:
        raise RevisionConflict(
            graph_key=mutation.graph_key, expected=expected_revision, actual=row.revision
        )
    work = _Apply(connection, workspace, mutation, row)
    work.check()
    work.write()
    for record in records:
        write_record(connection, workspace, record)
    return row.revision + 1


@dataclass(slots=True)
class _Apply:
    """One mutation under way. `nodes` and `edges` map the keys it concerns to row ids."""

    connection: sqlite3.Connection
    workspace: str
    mutation: Mutation
    row: GraphRow
    nodes: dict[str, int] = field(default_factory=dict[str, int])
    edges: dict[str, int] = field(default_factory=dict[str, int])
    node_count: int = 0
    edge_count: int = 0
    next_number: int = 0

    def check(self) -> None:
        """Look up what the mutation concerns and refuse what must not
        be. Raises: InvalidMutation.
        """
        m = self.mutation
        needed = mutations.keys_to_look_up(self.mutation)
        graph = self.row.id
        self.nodes = _rids(
            self.connection, sql.NODE_RIDS, graph, needed.nodes | {node.key for node in m.put_nodes}
        )
        self.edges = _rids(
            self.connection, sql.EDGE_RIDS, graph, needed.edges | {edge.key for edge in m.put_edges}
        )
        configs = self.connection.execute(sql.CONFIG_KEYS, {"workspace": self.workspace}).fetchall()
        stored = self.row.graph
        dropped = mutations.dropped_sheets(m, stored)
        existing = mutations.Existing(
            nodes=self.nodes.keys(),
            edges=self.edges.keys(),
            configs={key for (key,) in configs},
            on_dropped={key for (key,) in self._on(dropped, sql.NODE_KEYS_ON_SHEET)},
            edges_on_dropped={
                key: Link(source, target)
                for key, source, target in self._on(dropped, sql.EDGES_ON_SHEET)
            },
        )
        mutations.check_mutation(m, graph=stored, existing=existing)

    def _on(self, sheets: Set[str], statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield what a statement finds on each of the sheets."""
        for sheet in sheets:
            yield from self.connection.execute(statement, {"graph": self.row.id, "sheet": sheet})

    def write(self) -> None:
        m = self.mutation
        (self.next_number,) = self.connection.execute(
            sql.GRAPH_NEXT_NUMBER, {"graph": self.row.id}
        ).fetchone()
        words = WordChanges(self.connection, self.row.id)
        if m.put_configs or m.delete_configs:
            self._write_configs()
        vectors_gone = self._delete(words)
        configs: Configs = _types(self.connection, self.workspace) if m.put_nodes else {}
        for start in range(0, len(m.put_nodes), CHUNK):
            self._put_nodes(m.put_nodes[start : start + CHUNK], words, configs)
        for start in range(0, len(m.put_edges), CHUNK):
            self._put_edges(m.put_edges[start : start + CHUNK])
        vectors = [(self.nodes[vector.key], vector) for vector in m.put_vectors]
        if vectors:
            _put_vectors(self.connection, self.row, vectors)
        words.store()
        stored = self.row.graph
        new = mutations.graph_after(m, stored)
        self.connection.execute(
            sql.GRAPH_UPDATE,
            {
                "graph": self.row.id,
                "revision": new.revision,
                "text_changed": words.changed,
                "vectors_changed": bool(vectors or vectors_gone),
                "next_number": self.next_number,
                "nodes": self.node_count,
                "edges": self.edge_count,
                "content_words": words.content_words,
                "name_words": words.name_words,
                "body": mutations.encode_document(new, "graphs", new.key),
            },
        )
        if new.language != stored.language:
            types = dict(
                self.connection.execute(sql.TYPE_COUNTS, {"graph": self.row.id}).fetchall()
            )
            reindex_types(
                self.connection, self.row.id, types, _types(self.connection, self.workspace)
            )

    def _write_configs(self) -> None:
        m = self.mutation
        workspace = self.workspace
        before = _visible_everywhere(self.connection, workspace)
        for key in m.delete_configs:
            self.connection.execute(sql.CONFIG_DELETE, {"workspace": workspace, "key": key})
        _put_configs(self.connection, workspace, m.put_configs)
        _reindex_all(self.connection, workspace, before)

    def _delete(self, words: WordChanges) -> bool:
        """Delete edges and nodes with what hangs on them; return whether vectors went."""
        m = self.mutation
        connection = self.connection
        cut = [self.edges.pop(key) for key in dict.fromkeys(m.delete_edges)]
        connection.executemany(sql.EDGE_DELETE, ((rid,) for rid in cut))
        self.edge_count -= len(cut)
        gone = [self.nodes.pop(key) for key in dict.fromkeys(m.delete_nodes)]
        if not gone:
            return False
        for rid, old in stored_words(connection, gone).items():
            words.replace(rid, old, None, None)
        had_vectors = _forget_vectors(connection, self.row, gone)
        for rid in gone:
            self.edge_count -= connection.execute(sql.EDGES_OF_NODE_DELETE, {"rid": rid}).rowcount
        connection.executemany(sql.NODE_DELETE, ((rid,) for rid in gone))
        self.node_count -= len(gone)
        # An edge that went with its node may be put again by the same mutation.
        self.edges = _rids(
            connection, sql.EDGE_RIDS, self.row.id, [edge.key for edge in m.put_edges]
        )
        return had_vectors

    def _put_nodes(self, nodes: Sequence[Node], words: WordChanges, configs: Configs) -> None:
        inserted: list[tuple[int, int, str, str, str, bytes]] = []
        updated: list[tuple[str, str, bytes, int]] = []
        graph = self.row.id
        known = self.nodes
        old = stored_words(
            self.connection, [known[node.key] for node in nodes if node.key in known]
        )
        uses: dict[int, list[str]] = {}
        for node in nodes:
            key = node.key
            type_ = node.type
            body = mutations.encode_document(node, "nodes", key)
            rid = known.get(key)
            if rid is None:
                rid = known[key] = self._new_rid()
                inserted.append((rid, graph, key, node.sheet, type_, body))
            else:
                updated.append((node.sheet, type_, body, rid))
            words.replace(rid, old.get(rid), node, configs.get(type_))
            uses[rid] = entries_of(node)
        self.connection.executemany(sql.NODE_INSERT, inserted)
        self.connection.executemany(sql.NODE_UPDATE, updated)
        self.node_count += len(inserted)
        put_uses(self.connection, uses, old)

    def _put_edges(self, edges: Sequence[Edge]) -> None:
        inserted: list[tuple[int, int, str, str, int, int, bytes]] = []
        updated: list[tuple[str, int, int, bytes, int]] = []
        graph = self.row.id
        nodes = self.nodes
        rid = self.row.low + self.next_number
        for edge in edges:
            key = edge.key
            body = mutations.encode_document(edge, "edges", key)
            source = nodes[edge.source]
            target = nodes[edge.target]
            known = self.edges.get(key)
            if known is None:
                inserted.append((rid, graph, key, edge.sheet, source, target, body))
                rid += 1
            else:
                updated.append((edge.sheet, source, target, body, known))
        self.next_number += len(inserted)
        self.connection.executemany(sql.EDGE_INSERT, inserted)
        self.connection.executemany(sql.EDGE_UPDATE, updated)
        self.edge_count += len(inserted)

    def _new_rid(self) -> int:
        rid = self.row.low + self.next_number
        self.next_number += 1
        return rid


def _rids(
    connection: sqlite3.Connection, statement: str, graph: int, keys: Iterable[str]
) -> dict[str, int]:
    """Return the row ids of those of these keys that are stored."""
    # In order, so that neighbours in the index are read together.
    values = {"graph": graph, "keys": array(sorted(keys))}
    return dict(connection.execute(statement, values).fetchall())


def _types(connection: sqlite3.Connection, workspace: str) -> Configs:
    return types_by_name(read_configs(connection, workspace))


def _put_configs(
    connection: sqlite3.Connection, workspace: str, configs: Sequence[NodeTypeConfig]
) -> None:
    for config in configs:
        body = mutations.encode_document(config, "node_configs", config.key)
        values = {"workspace": workspace, "key": config.key, "type": config.type, "body": body}
        connection.execute(sql.CONFIG_PUT, values)


def _graphs_that_see(connection: sqlite3.Connection, workspace: str) -> list[tuple[int, str]]:
    """Return (graph id, its workspace) of the graphs whose types a change in
    `workspace` may alter.
    """
    if workspace == ROOT_WORKSPACE:
        return connection.execute(sql.GRAPH_IDS_OF_ALL).fetchall()
    rows = connection.execute(sql.GRAPH_IDS_OF_WORKSPACE, {"workspace": workspace})
    return [(graph, workspace) for (graph,) in rows]


def _visible_everywhere(connection: sqlite3.Connection, workspace: str) -> dict[str, Configs]:
    workspaces = {of for _, of in _graphs_that_see(connection, workspace)}
    return {of: _types(connection, of) for of in workspaces}


def _reindex_all(
    connection: sqlite3.Connection, workspace: str, before: Mapping[str, Configs]
) -> None:
    """Index again the nodes whose type now reads differently, in every graph that
    sees these types.
    """
    after = _visible_everywhere(connection, workspace)
    changed = {of: _reworded(before[of], after[of]) for of in before}
    for graph, of in _graphs_that_see(connection, workspace):
        if changed[of]:
            reindex_types(connection, graph, changed[of], after[of])


def _reworded(before: Configs, after: Configs) -> set[str]:
    """Return the types whose own text changed."""
    names = before.keys() | after.keys()
    return {name for name in names if _type_text(before.get(name)) != _type_text(after.get(name))}


def _type_text(config: NodeTypeConfig | None) -> tuple[str, str, str | None] | None:
    return (config.display_name, config.description, config.node.process) if config else None


def _put_vectors(
    connection: sqlite3.Connection, row: GraphRow, vectors: Sequence[tuple[int, NodeVector]]
) -> None:
    _count_vectors(connection, row.id, [rid for rid, _ in vectors], -1)
    rows = [
        (
            rid,
            vector.model,
            vector.hash,
            len(vector.content),
            vector.content.tobytes(),
            None if vector.name is None else vector.name.tobytes(),
        )
        for rid, vector in vectors
    ]
    connection.executemany(sql.VECTOR_PUT, rows)
    _count_vectors(connection, row.id, [rid for rid, _ in vectors], 1)
    VECTOR_LOG.note(connection, row.id, [rid for rid, _ in vectors], row.vector_version + 1)


def _forget_vectors(connection: sqlite3.Connection, row: GraphRow, rids: Sequence[int]) -> bool:
    """Note that the vectors of nodes go (their rows go with the nodes); return whether
    there were any.
    """
    if not _count_vectors(connection, row.id, rids, -1):
        return False
    VECTOR_LOG.note(connection, row.id, rids, row.vector_version + 1)
    return True


def _count_vectors(
    connection: sqlite3.Connection, graph: int, rids: Sequence[int], sign: int
) -> int:
    counts: dict[tuple[str, int], int] = {}
    for _, model, dim in connection.execute(sql.VECTOR_MODELS, {"rids": array(rids)}):
        counts[model, dim] = counts.get((model, dim), 0) + 1
    for (model, dim), count in counts.items():
        connection.execute(sql.VECTOR_COUNT_ADD, (graph, model, dim, sign * count))
    if sign < 0 and counts:
        connection.execute(sql.VECTOR_COUNT_CLEAN, {"graph": graph})
    return sum(counts.values())
