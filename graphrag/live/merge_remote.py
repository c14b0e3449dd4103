"""Merges unsaved edits with changes that others stored, field by field. Independent of any store.

Decision: where both changed one field the unsaved edit wins, for it was acknowledged last. A
document deleted elsewhere stays deleted, unless it was created here; one deleted here is deleted.
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
from tools.actions.field_changes import json_document

D = TypeVar("D", bound=Document)


class PendingBase(Changes):
    """The stored versions of the documents with unsaved changes, None for those that are not
    stored.
    """

    def copied(self) -> PendingBase:
        return PendingBase(nodes=dict(self.nodes), edges=dict(self.edges), graph=self.graph)

    def note(self, changes: Changes, before: Readable) -> PendingBase:
        """Adds the documents touched by changes; returns the added part."""
        added = PendingBase(
            nodes={key: before.node(key) for key in changes.nodes if key not in self.nodes},
            edges={key: before.edge(key) for key in changes.edges if key not in self.edges},
            graph=before.graph if changes.graph is not None and self.graph is None else None,
        )
        self.add(added)
        return added

    def add(self, older: PendingBase) -> None:
        """Adds stored versions of documents; those present already stay."""
        self.nodes = {**older.nodes, **self.nodes}
        self.edges = {**older.edges, **self.edges}
        self.graph = self.graph or older.graph

    def mutation_to(self, live: LiveState, last_updated_time: int) -> Mutation:
        """Returns the mutation from the stored state to the live state."""
        return Changes(
            nodes=changed_documents(self.nodes, self.nodes.get, live.node),
            edges=changed_documents(self.edges, self.edges.get, live.edge),
            graph=live.graph.replace(last_updated_time=last_updated_time),
        ).mutation(live.graph.key)

    def meets(self, mutation: Mutation, live: LiveState) -> bool:
        """Returns whether a mutation touches or is connected with unsaved elements."""
        if self.graph is not None and (mutation.graph or mutation.put_nodes or mutation.put_edges):
            return True
        deleted = [live.edge(key) for key in mutation.delete_edges]
        edges = [*mutation.put_edges, *(edge for edge in deleted if edge is not None)]
        node_keys = (
            {node.key for node in mutation.put_nodes} | set(mutation.delete_nodes) | _ends(edges)
        )
        if node_keys & self.nodes.keys():
            return True
        edge_keys = {edge.key for edge in mutation.put_edges} | set(mutation.delete_edges)
        if edge_keys & self.edges.keys():
            return True
        unsaved_edges = [*self.edges.values(), *(live.edge(key) for key in self.edges)]
        return bool(_ends(edge for edge in unsaved_edges if edge is not None) & node_keys)


def _ends(edges: Iterable[Edge]) -> set[str]:
    return {end for edge in edges for end in (edge.source, edge.target)}


def rebased(live: Readable, base: PendingBase, stored: LiveState) -> PendingBase:
    """Applies the unsaved edits of `live` to the stored graph, which becomes the live graph.

    `base` are the stored documents that the edits started from. Returns the new base of the unsaved
    edits.
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
    new_base = PendingBase()
    new_base.note(changes, stored)
    stored.commit(changes)
    return new_base


def _keep_used_sheets(draft: GraphDraft, *graphs: Graph) -> None:
    """Keeps a sheet that one side deleted while the other added elements to it."""
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
    """Returns the changes from one state to another."""
    is_same = (old.graph.name, old.graph.sheets_list) == (new.graph.name, new.graph.sheets_list)
    return Changes(
        nodes=changed_documents(dict.fromkeys([*old.nodes, *new.nodes]), old.node, new.node),
        edges=changed_documents(dict.fromkeys([*old.edges, *new.edges]), old.edge, new.edge),
        graph=None if is_same else new.graph,
    )
