"""Merges unsaved edits with what others stored meanwhile, field by field; knows no store.

Decision: where both changed one field the unsaved edit wins, for it was acknowledged last. What was
deleted elsewhere stays deleted, unless it was made here; what was deleted here is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from datasources.types import Document, Edge, Graph, Mutation, Node, parse_document
from graphrag.changes.draft import (
    Changes,
    GraphDraft,
    LiveState,
    Readable,
    changed_documents,
    same_document,
)
from graphrag.changes.field_diff import merge
from tools.write_tools.field_changes import json_document

D = TypeVar("D", bound=Document)


class PendingBase(Changes):
    """The stored versions of the documents that have unsaved changes; None where
    nothing is stored.
    """

    def copied(self) -> PendingBase:
        return PendingBase(nodes=dict(self.nodes), edges=dict(self.edges), graph=self.graph)

    def note(self, changes: Changes, before: Readable) -> PendingBase:
        """Add what the changes touch; return what was added."""
        added = PendingBase(
            nodes={key: before.node(key) for key in changes.nodes if key not in self.nodes},
            edges={key: before.edge(key) for key in changes.edges if key not in self.edges},
            graph=before.graph if changes.graph is not None and self.graph is None else None,
        )
        self.add(added)
        return added

    def add(self, older: PendingBase) -> None:
        """Take in documents as they are stored; those that are known already stay."""
        self.nodes = {**older.nodes, **self.nodes}
        self.edges = {**older.edges, **self.edges}
        self.graph = self.graph or older.graph

    def mutation_to(self, live: LiveState, last_updated_time: int) -> Mutation:
        """Return what brings the store to the live state."""
        return Changes(
            nodes=changed_documents(self.nodes, self.nodes.get, live.node),
            edges=changed_documents(self.edges, self.edges.get, live.edge),
            graph=live.graph.replace(last_updated_time=last_updated_time),
        ).mutation(live.graph.key)

    def meets(self, mutation: Mutation, live: LiveState) -> bool:
        """Say whether a mutation names, or hangs on, something that is not saved."""
        if self.graph is not None and (mutation.graph or mutation.put_nodes or mutation.put_edges):
            return True
        cut = [live.edge(key) for key in mutation.delete_edges]
        joined = [*mutation.put_edges, *(edge for edge in cut if edge is not None)]
        named = (
            {node.key for node in mutation.put_nodes} | set(mutation.delete_nodes) | _ends(joined)
        )
        if named & self.nodes.keys():
            return True
        edge_keys = {edge.key for edge in mutation.put_edges} | set(mutation.delete_edges)
        if edge_keys & self.edges.keys():
            return True
        own = [*self.edges.values(), *(live.edge(key) for key in self.edges)]
        return bool(_ends(edge for edge in own if edge is not None) & named)


def _ends(edges: Iterable[Edge]) -> set[str]:
    return {end for edge in edges for end in (edge.source, edge.target)}


def rebased(live: Readable, base: PendingBase, stored: LiveState) -> PendingBase:
    """Apply the unsaved edits of `live` to the stored graph, which becomes the live one.

    `base` are the documents that the edits were made on. Returns the base of what is unsaved now.
    """
    draft = GraphDraft(stored)
    if base.graph is not None:
        draft.set_graph(_merged_document(Graph, base.graph, live.graph, stored.graph))
    for key, before in base.nodes.items():
        ours = live.node(key)
        theirs = stored.node(key)
        if ours is None:
            if theirs is not None:
                draft.delete_node(key)
        elif theirs is not None or before is None:
            draft.put_node(_merged_document(Node, before, ours, theirs))
    for key, before in base.edges.items():
        ours = live.edge(key)
        theirs = stored.edge(key)
        if ours is None:
            draft.delete_edge(key)
        elif theirs is not None or before is None:
            draft.put_edge(_merged_document(Edge, before, ours, theirs))
    for edge in list(draft.iter_edges()):
        if draft.node(edge.source) is None or draft.node(edge.target) is None:
            draft.delete_edge(edge.key)
    _keep_used_sheets(draft, live.graph, stored.graph)
    changes = draft.changes()
    now = PendingBase()
    now.note(changes, stored)
    stored.commit(changes)
    return now


def _keep_used_sheets(draft: GraphDraft, *graphs: Graph) -> None:
    """A sheet that one deleted while another put something on it stays."""
    changes = draft.changes()
    ours = {d.sheet for d in (*changes.nodes.values(), *changes.edges.values()) if d is not None}
    names = {key: name for graph in graphs for key, name in graph.sheets_list.items()}
    all_used = {node.sheet for node in draft.iter_nodes()} | {
        edge.sheet for edge in draft.iter_edges()
    }
    lost = sorted((ours | (all_used & names.keys())) - draft.graph.sheets_list.keys())
    if lost:
        kept = {key: names.get(key, key) for key in lost}
        draft.set_graph(draft.graph.replace(sheets_list={**draft.graph.sheets_list, **kept}))


def _merged_document(model: type[D], base: D | None, ours: D, theirs: D | None) -> D:
    if theirs is None or base is None or same_document(theirs, base):
        return ours
    if same_document(ours, base):
        return theirs
    merged = merge(json_document(base), json_document(ours), json_document(theirs))
    return parse_document(model, merged, "elements")


def difference(old: LiveState, new: LiveState) -> Changes:
    """Return what leads from one state to another."""
    is_same = (old.graph.name, old.graph.sheets_list) == (new.graph.name, new.graph.sheets_list)
    return Changes(
        nodes=changed_documents(dict.fromkeys([*old.nodes, *new.nodes]), old.node, new.node),
        edges=changed_documents(dict.fromkeys([*old.edges, *new.edges]), old.edge, new.edge),
        graph=None if is_same else new.graph,
    )
