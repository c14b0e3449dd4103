"""Writes a mutation, a type, embeddings, a new or deleted graph, in the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, final

from datasources import mutations
from datasources.base import RecordWrite
from datasources.builtin_types import reworded_types, types_by_name
from datasources.errors import GraphExists, RevisionConflict
from datasources.hits import NodeVector
from datasources.links import Link
from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import VECTOR_LOG
from datasources.sqlite.records import write_record
from datasources.sqlite.rows import GraphRow, array, graph_row
from datasources.sqlite.visible_types import read_configs
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
    """Stores a new graph with its content. See MutableGraphDataSource.create_graph."""
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
    """Deletes a graph with its content and returns its id."""
    row = graph_row(connection, workspace, graph_key)
    connection.execute(sql.WORDS_DELETE_RANGE, row.range)
    connection.execute(sql.GRAPH_DELETE, {"graph": row.id})
    return row.id


def put_config(connection: sqlite3.Connection, workspace: str, config: NodeTypeConfig) -> None:
    """Stores a node type and the words of the nodes whose text it changes, in every graph that sees
    it.
    """
    mutations.check_owner(config, workspace, "node_configs")
    before = _visible_everywhere(connection, workspace)
    _put_configs(connection, workspace, [config])
    _reindex_all(connection, workspace, before)


def put_embeddings(
    connection: sqlite3.Connection, workspace: str, graph_key: str, vectors: Sequence[NodeVector]
) -> int:
    """Stores the vectors of nodes that exist and returns their number."""
    row = graph_row(connection, workspace, graph_key)
    mutations.check_vectors(graph_key, vectors)
    rids = _rids(connection, sql.NODE_RIDS, row.id, [vector.key for vector in vectors])
    existing = [(rids[vector.key], vector) for vector in vectors if vector.key in rids]
    if existing:
        _put_vectors(connection, row, existing)
        connection.execute(sql.GRAPH_VECTORS_UPDATE, {"graph": row.id})
    return len(existing)


def apply(
    connection: sqlite3.Connection,
    workspace: str,
    mutation: Mutation,
    expected_revision: int | None,
    records: Sequence[RecordWrite],
) -> int:
    """Applies a mutation and record writes; returns the new revision."""
    row = graph_row(connection, workspace, mutation.graph_key)
    if expected_revision is not None and expected_revision != row.revision:
        raise RevisionConflict(
            graph_key=mutation.graph_key, expected=expected_revision, actual=row.revision
        )
    applying = _Apply(connection, workspace, mutation, row)
    applying.check()
    revision = applying.write()
    for record in records:
        write_record(connection, workspace, record)
    return revision


@final
@dataclass(slots=True)
class _Apply:
    """One mutation being applied. `nodes` and `edges` map the keys that it names to row ids."""

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
        """Looks up the documents that the mutation names and checks it. Raises: InvalidMutation."""
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
        """Yields the rows of a statement for each of the sheets."""
        for sheet in sheets:
            yield from self.connection.execute(statement, {"graph": self.row.id, "sheet": sheet})

    def write(self) -> int:
        """Writes the mutation and returns the new revision."""
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
        return new.revision

    def _write_configs(self) -> None:
        m = self.mutation
        workspace = self.workspace
        before = _visible_everywhere(self.connection, workspace)
        for key in m.delete_configs:
            self.connection.execute(sql.CONFIG_DELETE, {"workspace": workspace, "key": key})
        _put_configs(self.connection, workspace, m.put_configs)
        _reindex_all(self.connection, workspace, before)

    def _delete(self, words: WordChanges) -> bool:
        """Deletes edges, and nodes with their edges; returns True if vectors were deleted."""
        m = self.mutation
        connection = self.connection
        edges = [self.edges.pop(key) for key in dict.fromkeys(m.delete_edges)]
        connection.executemany(sql.EDGE_DELETE, ((rid,) for rid in edges))
        self.edge_count -= len(edges)
        nodes = [self.nodes.pop(key) for key in dict.fromkeys(m.delete_nodes)]
        if not nodes:
            return False
        for rid, old in stored_words(connection, nodes).items():
            words.replace(rid, old, None, None)
        had_vectors = _forget_vectors(connection, self.row, nodes)
        for rid in nodes:
            self.edge_count -= connection.execute(sql.EDGES_OF_NODE_DELETE, {"rid": rid}).rowcount
        connection.executemany(sql.NODE_DELETE, ((rid,) for rid in nodes))
        self.node_count -= len(nodes)
        # The mutation may insert an edge again that was deleted with its node.
        self.edges = _rids(
            connection, sql.EDGE_RIDS, self.row.id, [edge.key for edge in m.put_edges]
        )
        return had_vectors

    def _put_nodes(self, nodes: Sequence[Node], words: WordChanges, configs: Configs) -> None:
        inserted: list[tuple[int, int, str, str, str, bytes]] = []
        updated: list[tuple[str, str, bytes, int]] = []
        graph = self.row.id
        rids = self.nodes
        old = stored_words(self.connection, [rids[node.key] for node in nodes if node.key in rids])
        uses: dict[int, list[str]] = {}
        for node in nodes:
            key = node.key
            type_ = node.type
            body = mutations.encode_document(node, "nodes", key)
            rid = rids.get(key)
            if rid is None:
                rid = rids[key] = self._new_rid()
                inserted.append((rid, graph, key, node.sheet, type_, body))
            else:
                updated.append((node.sheet, type_, body, rid))
            words.replace(rid, old.get(rid), node, configs.get(type_))
            uses[rid] = entries_of(node)
        self.connection.executemany(sql.NODE_INSERT, inserted)
        self.connection.executemany(sql.NODE_UPDATE, updated)
        self.node_count += len(inserted)
        _put_uses(self.connection, uses, old)

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
            stored = self.edges.get(key)
            if stored is None:
                inserted.append((rid, graph, key, edge.sheet, source, target, body))
                rid += 1
            else:
                updated.append((edge.sheet, source, target, body, stored))
        self.next_number += len(inserted)
        self.connection.executemany(sql.EDGE_INSERT, inserted)
        self.connection.executemany(sql.EDGE_UPDATE, updated)
        self.edge_count += len(inserted)

    def _new_rid(self) -> int:
        rid = self.row.low + self.next_number
        self.next_number += 1
        return rid


def _put_uses(
    connection: sqlite3.Connection, uses: Mapping[int, Sequence[str]], stored: Collection[int]
) -> None:
    """Stores the changed entries of nodes; `stored` are the nodes that existed before."""
    old = defaultdict[int, set[str]](set)
    for rid, entry in connection.execute(sql.USES_OF, {"rids": array(stored)}) if stored else ():
        old[rid].add(entry)
    changed = [rid for rid, entries in uses.items() if old.get(rid, set()) != set(entries)]
    connection.executemany(sql.USES_DELETE, ((rid,) for rid in changed if rid in old))
    rows = [(entry, rid) for rid in changed for entry in uses[rid]]
    connection.executemany(sql.USES_INSERT, sorted(rows))


def _rids(
    connection: sqlite3.Connection, statement: str, graph: int, keys: Iterable[str]
) -> dict[str, int]:
    """Returns key → row id of the keys that are stored."""
    # In key order, so that neighbours in the index are read together.
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
    """Returns (graph id, its workspace) of the graphs that see the types of `workspace`."""
    if workspace == ROOT_WORKSPACE:
        return connection.execute(sql.GRAPH_IDS_OF_ALL).fetchall()
    rows = connection.execute(sql.GRAPH_IDS_OF_WORKSPACE, {"workspace": workspace})
    return [(graph, workspace) for (graph,) in rows]


def _visible_everywhere(connection: sqlite3.Connection, workspace: str) -> dict[str, Configs]:
    """Returns the types of each workspace that sees those of `workspace`."""
    workspaces = {owner for _, owner in _graphs_that_see(connection, workspace)}
    return {owner: _types(connection, owner) for owner in workspaces}


def _reindex_all(
    connection: sqlite3.Connection, workspace: str, before: Mapping[str, Configs]
) -> None:
    """Stores the words of nodes whose type has other words now, in every graph that sees it."""
    after = _visible_everywhere(connection, workspace)
    changed = {owner: reworded_types(before[owner], after[owner]) for owner in before}
    for graph, owner in _graphs_that_see(connection, workspace):
        if changed[owner]:
            reindex_types(connection, graph, changed[owner], after[owner])


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
    """Logs that vectors are deleted with their nodes; returns True if there were any."""
    if not _count_vectors(connection, row.id, rids, -1):
        return False
    VECTOR_LOG.note(connection, row.id, rids, row.vector_version + 1)
    return True


def _count_vectors(
    connection: sqlite3.Connection, graph: int, rids: Sequence[int], sign: int
) -> int:
    """Adds the vectors of nodes to the counts by model and length; `sign` -1 subtracts them.

    Returns their number.
    """
    counts: dict[tuple[str, int], int] = {}
    for _, model, dim in connection.execute(sql.VECTOR_MODELS, {"rids": array(rids)}):
        counts[model, dim] = counts.get((model, dim), 0) + 1
    for (model, dim), count in counts.items():
        connection.execute(sql.VECTOR_COUNT_ADD, (graph, model, dim, sign * count))
    if sign < 0 and counts:
        connection.execute(sql.VECTOR_COUNT_CLEAN, {"graph": graph})
    return sum(counts.values())
