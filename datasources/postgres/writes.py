"""Writes a mutation, a type, embeddings, a new or deleted graph, in a transaction.

A mutation takes two round trips beside the commit: one locks the graph and reads what the mutation
names, the other writes everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

from datasources import mutations
from datasources.base import RecordWrite
from datasources.builtin_types import types_by_name
from datasources.errors import GraphExists, RevisionConflict
from datasources.hits import NodeVector
from datasources.links import Link
from datasources.notices import notice_payloads
from datasources.postgres import statements as sql
from datasources.postgres.graph_header import GraphHeader, check_text, is_text, named, row_of, texts
from datasources.postgres.node_words import StoredWords, WordTotals, words_of
from datasources.postgres.put_statements import count_puts, parts, term_puts, vector_puts
from datasources.postgres.records import RecordWrites
from datasources.postgres.server_pool import Bound, Session
from datasources.postgres.type_changes import Configs, change_configs, reindex
from datasources.stored_types import parsed_configs
from datasources.types import (
    Edge,
    Graph,
    Mutation,
    Node,
    NodeTypeConfig,
    parse_document,
)
from datasources.uses import entries_of

MAX_REMOVED = 1_000  # removed keys kept of one version; with more, held graphs are read again
KEPT_VERSIONS = 1_000  # latest versions whose removed keys are kept


def create_graph(
    session: Session,
    workspace: str,
    graph: Graph,
    mutation: Mutation | None,
    records: Sequence[RecordWrite],
) -> Graph:
    """Stores a new graph with its content. See MutableGraphDataSource.create_graph."""
    mutations.check_owner(graph, workspace, "graphs")
    body = mutations.encode_document(graph.replace(revision=0), "graphs", graph.key)
    values = {**named(workspace, graph.key), "body": body.decode()}
    if not session.rows(sql.GRAPH_INSERT, values):
        raise GraphExists(graph_key=graph.key)
    if mutation is None:
        return parse_document(Graph, body, "graphs")
    apply(session, workspace, mutation, None, records)
    rows = session.rows(sql.GRAPH_ROW, named(workspace, graph.key))
    return row_of(rows, graph.key).graph


def delete_graph(session: Session, workspace: str, graph_key: str) -> int:
    """Deletes a graph with its content and returns its id. Raises: GraphNotFound."""
    row = row_of(session.rows(sql.GRAPH_LOCK, named(workspace, graph_key)), graph_key)
    deletes = [Bound(sql.TAKES_LONG, {})]
    deletes += [Bound(statement, {"id": row.id}) for statement in sql.GRAPH_DELETES]
    session.batch(*deletes)
    session.tell(notice_payloads(workspace, (), graph_key))
    return row.id


def put_config(session: Session, workspace: str, config: NodeTypeConfig) -> None:
    """Stores a node type and the words of the nodes whose text it changes, in every graph that sees
    it.
    """
    mutations.check_owner(config, workspace, "node_configs")
    session.rows(sql.TYPES_LOCK, {})
    change_configs(session, workspace, [config], [])


def put_embeddings(
    session: Session, workspace: str, graph_key: str, vectors: Sequence[NodeVector]
) -> int:
    """Stores the vectors of nodes that exist and returns their number. Raises: GraphNotFound."""
    row = row_of(session.rows(sql.GRAPH_LOCK, named(workspace, graph_key)), graph_key)
    mutations.check_vectors(graph_key, vectors)
    fitting = [vector for vector in vectors if is_text(vector.key)]
    puts = list(vector_puts(workspace, row, fitting))
    if not puts:
        return 0
    stored = sum(map(len, session.batch(*puts)))
    if stored:
        session.rows(sql.GRAPH_VECTORS_CHANGED, {"id": row.id})
    return stored


def apply(
    session: Session,
    workspace: str,
    mutation: Mutation,
    expected_revision: int | None,
    records: Sequence[RecordWrite],
) -> int:
    """Applies a mutation and record writes; returns the new revision."""
    looked = _look_up(session, workspace, mutation)
    row = looked.row
    if expected_revision is not None and expected_revision != row.revision:
        raise RevisionConflict(
            graph_key=mutation.graph_key, expected=expected_revision, actual=row.revision
        )
    existing = _with_dropped(session, mutation, row, looked.existing)
    mutations.check_mutation(mutation, graph=row.graph, existing=existing)
    configs = looked.configs
    if mutation.put_configs or mutation.delete_configs:
        configs = change_configs(session, workspace, mutation.put_configs, mutation.delete_configs)
        # The words of nodes of a changed type were stored again.
        looked = _look_up(session, workspace, mutation)
        row = looked.row
    writing = _Writing(
        workspace, mutation, row, looked.words, existing.edges, types_by_name(configs)
    )
    joined = RecordWrites(workspace, records)
    statements = writing.statements()
    if not writing.deletes:
        statements += writing.ending(set())
    session.tell(notice_payloads(workspace, records, mutation.graph_key))
    found = session.batch(*statements, *joined.statements())
    joined.versions(found[len(statements) :])
    if writing.deletes:
        removed_edges = {key for place in writing.deletes for (key,) in found[place]}
        session.batch(*writing.ending(removed_edges))
    return _finish(session, writing)


def _finish(session: Session, writing: _Writing) -> int:
    """Stores the words of all nodes again if the language changed; returns the new revision."""
    new = mutations.graph_after(writing.mutation, writing.row.graph)
    if new.language != writing.row.graph.language:
        graph = writing.row.id
        types = [name for name, _ in session.rows(sql.TYPE_COUNTS, {"id": graph})]
        reindex(session, writing.workspace, graph, types, writing.configs)
    return new.revision


@final
@dataclass(frozen=True, slots=True)
class _LookedUp:
    """What is stored of the documents that a mutation names. `words` are those of its nodes."""

    row: GraphHeader
    words: Mapping[str, StoredWords]
    existing: mutations.Existing
    configs: list[NodeTypeConfig]


def _look_up(session: Session, workspace: str, mutation: Mutation) -> _LookedUp:
    """Locks the graph and reads what the mutation names. Raises: GraphNotFound."""
    needed = mutations.keys_to_look_up(mutation)
    scope = named(workspace, mutation.graph_key)
    nodes = texts([*needed.nodes, *(node.key for node in mutation.put_nodes)])
    edges = texts([*needed.edges, *(edge.key for edge in mutation.put_edges)])
    changes_types = bool(mutation.put_configs or mutation.delete_configs)
    _, rows, found_nodes, found_edges, own_configs, configs = session.batch(
        Bound(sql.TYPES_LOCK if changes_types else sql.TYPES_SHARE, {}),
        Bound(sql.GRAPH_LOCK, scope),
        Bound(sql.NODES_NAMED, {**scope, "keys": nodes}),
        Bound(sql.EDGES_NAMED, {**scope, "keys": edges}),
        Bound(sql.CONFIG_KEYS, scope),
        Bound(sql.CONFIGS, scope),
    )
    words = {key: StoredWords(names, others) for key, _, names, others in found_nodes}
    return _LookedUp(
        row=row_of(rows, mutation.graph_key),
        words=words,
        existing=mutations.Existing(
            nodes=words.keys(),
            edges={key for (key,) in found_edges},
            configs={key for (key,) in own_configs},
        ),
        configs=parsed_configs(configs, workspace),
    )


def _with_dropped(
    session: Session, mutation: Mutation, row: GraphHeader, existing: mutations.Existing
) -> mutations.Existing:
    """Adds the nodes and edges on sheets that the mutation removes."""
    sheets = texts(mutations.dropped_sheets(mutation, row.graph))
    if not sheets:
        return existing
    values = {"id": row.id, "sheets": sheets}
    nodes, edges = session.batch(
        Bound(sql.NODES_ON_SHEETS, values), Bound(sql.EDGES_ON_SHEETS, values)
    )
    return mutations.Existing(
        nodes=existing.nodes,
        edges=existing.edges,
        configs=existing.configs,
        on_dropped={key for (key,) in nodes},
        edges_on_dropped={key: Link(source, target) for key, source, target in edges},
    )


@final
@dataclass(slots=True)
class _Writing:
    """The statements of one mutation. `words` are the stored words of nodes that it names, `edges`
    the stored edges that it names.
    """

    workspace: str
    mutation: Mutation
    row: GraphHeader
    words: Mapping[str, StoredWords]
    edges: Iterable[str]
    configs: Configs
    totals: WordTotals = field(default_factory=WordTotals)
    deletes: list[int] = field(default_factory=list[int])
    """Places of the statements that return the keys of deleted edges."""

    @property
    def _scope(self) -> dict[str, Any]:
        return {
            "workspace": self.workspace,
            "id": self.row.id,
            "version": self.row.version + 1,
        }

    def statements(self) -> list[Bound]:
        """Returns the statements that delete and put nodes, edges, vectors and words."""
        statements = [*self._delete()]
        for nodes in parts(self.mutation.put_nodes):
            statements += self._put_nodes(nodes)
        statements += map(self._put_edges, parts(self.mutation.put_edges))
        statements += vector_puts(self.workspace, self.row, self.mutation.put_vectors)
        return statements

    def _delete(self) -> Iterator[Bound]:
        m = self.mutation
        scope = self._scope
        if m.delete_edges:
            self.deletes.append(0)
            yield Bound(sql.EDGES_DELETE, {**scope, "keys": list(m.delete_edges)})
        keys = list(dict.fromkeys(m.delete_nodes))
        if not keys:
            return
        for key in keys:
            self.totals.replace(self.words[key], None)
        self.deletes.append(len(self.deletes))
        yield Bound(sql.EDGES_OF_DELETE, {**scope, "keys": keys})
        yield Bound(sql.VECTORS_DELETE, {**scope, "keys": keys})
        yield Bound(sql.NODES_DELETE, {**scope, "keys": keys})

    def _put_nodes(self, nodes: Sequence[Node]) -> list[Bound]:
        language = mutations.graph_after(self.mutation, self.row.graph).language
        deleted = set(self.mutation.delete_nodes)
        keys = [node.key for node in nodes]
        words = [words_of(node, self.configs.get(node.type), language) for node in nodes]
        reworded = {
            node.key: new
            for node, new in zip(nodes, words, strict=True)
            if self.totals.replace(None if node.key in deleted else self.words.get(node.key), new)
        }
        entries = [(node.key, entry) for node in nodes for entry in entries_of(node)]
        put = Bound(
            sql.NODES_PUT,
            {
                **self._scope,
                "keys": keys,
                "sheets": [_text(node, "sheet") for node in nodes],
                "types": [_text(node, "type") for node in nodes],
                "name_words": [one.names for one in words],
                "other_words": [one.others for one in words],
                "bodies": [_body(node, "nodes") for node in nodes],
            },
        )
        return [
            put,
            *term_puts(self._scope, reworded),
            Bound(sql.USES_DELETE, {**self._scope, "keys": keys}),
            Bound(
                sql.USES_PUT,
                {
                    **self._scope,
                    "keys": [key for key, _ in entries],
                    "entries": [entry for _, entry in entries],
                },
            ),
        ]

    def _put_edges(self, edges: Sequence[Edge]) -> Bound:
        return Bound(
            sql.EDGES_PUT,
            {
                **self._scope,
                "keys": [edge.key for edge in edges],
                "sheets": [_text(edge, "sheet") for edge in edges],
                "sources": [edge.source for edge in edges],
                "targets": [edge.target for edge in edges],
                "bodies": [_body(edge, "edges") for edge in edges],
            },
        )

    def ending(self, removed_edges: set[str]) -> Iterator[Bound]:
        """Yields the statements that store what was removed, the totals, and the graph.

        `removed_edges` are all edges that were deleted, with their nodes or by name.
        """
        m = self.mutation
        scope = self._scope
        gone = {"node": set(m.delete_nodes), "edge": removed_edges}
        is_told = sum(map(len, gone.values())) <= MAX_REMOVED
        if is_told:
            for kind, keys in gone.items():
                if keys:
                    yield Bound(sql.REMOVED_PUT, {**scope, "kind": kind, "keys": sorted(keys)})
        version = self.row.version + 1
        removed_from = max(0, version - KEPT_VERSIONS) if is_told else version
        if any(gone.values()):
            yield Bound(sql.REMOVED_FORGET, {"id": self.row.id, "version": removed_from})
        yield from count_puts(scope, self.totals)
        new = mutations.graph_after(m, self.row.graph)
        stored_edges = set(self.edges) - removed_edges
        new_edges = sum(edge.key not in stored_edges for edge in m.put_edges)
        new_nodes = sum(node.key not in self.words for node in m.put_nodes)
        yield Bound(
            sql.GRAPH_UPDATE,
            {
                "id": self.row.id,
                "revision": new.revision,
                "vectors": bool(m.put_vectors or m.delete_nodes),
                "nodes": new_nodes - len(gone["node"]),
                "edges": new_edges - len(removed_edges),
                "content_words": self.totals.content_words,
                "name_words": self.totals.name_words,
                "removed_from": removed_from if any(gone.values()) else 0,
                "body": mutations.encode_document(new, "graphs", new.key).decode(),
            },
        )


def _text(document: Node | Edge, field: Literal["sheet", "type"]) -> str:
    text: str = getattr(document, field)
    collection = "nodes" if isinstance(document, Node) else "edges"
    return check_text(text, collection=collection, key=document.key, field=field)


def _body(document: Node | Edge, collection: str) -> str:
    return mutations.encode_document(document, collection, document.key).decode()
