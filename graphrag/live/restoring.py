"""Restores nodes, or a whole graph, to an earlier state: as an edit or as a proposal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasources.types import Edge, Node
from graphrag.changes.draft import Changes, GraphDraft, LiveState, Readable
from graphrag.live.broadcast import edit_of_changes
from graphrag.live.edits import EDIT_LIMITS, Edit
from graphrag.live.errors import EditRefused
from tools.actions.field_changes import json_document
from tools.proposal_parts import ImportFile
from tools.proposals import ImportFileAction

NOTHING = "it has not changed since then"


def restore(draft: GraphDraft, then: LiveState, nodes: Sequence[str] | None) -> Edit:
    """Restores nodes, or the whole graph with edges and sheets, on a draft. Raises: EditRefused."""
    changes = restore_changes(draft, then, nodes)
    edit = edit_of_changes(draft, changes)
    draft.add(changes)
    return edit


def restore_changes(now: Readable, then: LiveState, nodes: Sequence[str] | None) -> Changes:
    """Returns the changes that restore nodes, or all if `nodes` is None. Raises: EditRefused.

    A deleted node is restored with its edges to existing nodes.
    """
    draft = GraphDraft(now)
    wanted = (
        {n.key for n in (*now.iter_nodes(), *then.iter_nodes())} if nodes is None else set(nodes)
    )
    sheets = {**draft.graph.sheets_list} if nodes is not None else {}
    sheets |= {
        k: name for k, name in then.graph.sheets_list.items() if nodes is None or k not in sheets
    }
    restored: set[str] = set()
    for key in sorted(wanted):
        before = draft.node(key)
        after = then.node(key)
        if before is None and after is None:
            raise EditRefused(where="nodes", reason=f"there is and was no node {key[:80]!r}")
        if after is None:
            draft.delete_node(key)
            continue
        restored |= {key} if before is None or nodes is None else set()
        draft.put_node(after)
    _restore_edges(draft, then, restored, all_of_it=nodes is None)
    if nodes is not None:
        used = {then.nodes[key].sheet for key in wanted if key in then.nodes}
        sheets = {
            k: name for k, name in sheets.items() if k in draft.graph.sheets_list or k in used
        }
    if sheets != draft.graph.sheets_list:
        draft.set_graph(draft.graph.replace(sheets_list=sheets))
    changes = draft.changes()
    count = len(changes.nodes) + len(changes.edges)
    if not changes:
        raise EditRefused(where="revision", reason=NOTHING)
    if count > EDIT_LIMITS.elements:
        raise EditRefused(
            where="revision",
            reason=f"{count} nodes and edges differ, more than {EDIT_LIMITS.elements}",
        )
    return changes


def _restore_edges(
    draft: GraphDraft, then: LiveState, restored: set[str], *, all_of_it: bool
) -> None:
    if all_of_it:
        for edge in [edge for edge in draft.iter_edges() if then.edge(edge.key) is None]:
            draft.delete_edge(edge.key)
    for edge in then.iter_edges():
        ends = (edge.source, edge.target)
        is_wanted = all_of_it or not restored.isdisjoint(ends)
        if is_wanted and all(draft.node(end) is not None for end in ends):
            draft.put_edge(edge)


def as_action(
    now: Readable, then: LiveState, nodes: Sequence[str] | None, name: str
) -> ImportFileAction:
    """Returns the proposal that restores nodes, or all; `name` is its title. Raises:
    EditRefused.
    """
    changes = restore_changes(now, then, nodes)

    def parts(documents: dict[str, Node | None] | dict[str, Edge | None]) -> Any:
        put = [json_document(document) for document in documents.values() if document is not None]
        return put, sorted(key for key, document in documents.items() if document is None)

    (put_nodes, deleted_nodes), (put_edges, deleted_edges) = (
        parts({**changes.nodes}),
        parts({**changes.edges}),
    )
    sheets = changes.graph.sheets_list if changes.graph else None
    return ImportFileAction(
        payload=ImportFile(
            file=name,
            put_nodes=put_nodes,
            put_edges=put_edges,
            delete_nodes=deleted_nodes,
            delete_edges=deleted_edges,
            put_graph=None if sheets is None else {"sheetsList": sheets},
        )
    )
