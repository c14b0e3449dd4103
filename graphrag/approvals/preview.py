"""What a change looks like to a person: documents added and removed, fields before and after, code
as a diff.

Computed from the graph before and the mutation that would be applied, from nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from datasources.text import node_label
from datasources.types import Document, Mutation, Node
from graphrag.changes.field_diff import MISSING, FieldChange, field_changes
from tools.actions.field_changes import json_document
from tools.actions.snapshot import Snapshot
from tools.proposal_parts import FIXED_GRAPH_FIELDS
from tools.references import Reference

_POSITION = ("posX", "posY")


def preview_of(
    before: Snapshot, mutation: Mutation, broken: Sequence[Reference] = ()
) -> dict[str, Any]:
    """Return what the mutation changes on this graph, and which references it breaks; lists that
    are empty are left out. A node that is moved and changed stands under both.

    `referencesBroken` are not changes: fields of nodes that stay and refer to one that goes,
    by its name.
    Shapes: `…Added`, `…Removed`: documents; `…Changed`, `nodesMoved`: {key, name, fields: [{path,
    before, after, diff}]}.
    """
    gone = set(mutation.delete_nodes)
    graph = mutation.graph
    cut = {*mutation.delete_edges, *before.edges_of(gone)}
    own = {c.key: c for c in before.types.values() if c.workspace == before.graph.workspace}
    changed, moved = _changed_nodes(before, mutation.put_nodes)
    edges = [(before.edges.get(edge.key), edge) for edge in mutation.put_edges]
    types = [(own.get(config.key), config) for config in mutation.put_configs]
    found: dict[str, list[dict[str, Any]]] = {
        "nodesAdded": [
            json_document(node) for node in mutation.put_nodes if node.key not in before.nodes
        ],
        "nodesRemoved": [
            json_document(before.nodes[key]) for key in sorted(gone) if key in before.nodes
        ],
        "nodesChanged": changed,
        "nodesMoved": moved,
        "edgesAdded": [edge.to_document() for old, edge in edges if old is None],
        "edgesRemoved": [
            before.edges[key].to_document() for key in sorted(cut) if key in before.edges
        ],
        "edgesChanged": _changed((old, edge, edge.label or edge.key) for old, edge in edges),
        "typesAdded": [json_document(config) for old, config in types if old is None],
        "typesChanged": _changed((old, config, config.display_name) for old, config in types),
        "graphChanged": _changed(
            [(before.graph, graph, before.graph.name)] if graph is not None else [],
            FIXED_GRAPH_FIELDS,
        ),
        "referencesBroken": [
            {
                "key": reference.node_key,
                "name": node_label(before.nodes[reference.node_key]),
                "path": list(reference.path),
                "to": reference.mention.name,
            }
            for reference in dict.fromkeys(broken)
        ],
    }
    return {name: items for name, items in found.items() if items}


def document_change(key: str, name: str, fields: Iterable[FieldChange]) -> dict[str, Any]:
    """Return a document that changes as previews show it. `name` is what a person calls it."""
    return {"key": key, "name": name, "fields": [_field_document(field) for field in fields]}


def _changed(
    documents: Iterable[tuple[Document | None, Any, str]], fixed: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return what changes of documents that were there, `fixed` fields left out."""
    found: list[dict[str, Any]] = []
    for old, new, name in documents:
        changes = field_changes(json_document(old), json_document(new)) if old is not None else ()
        if fields := [change for change in changes if change.path[0] not in fixed]:
            found.append(document_change(new.key, name, fields))
    return found


def _changed_nodes(
    before: Snapshot, nodes: Sequence[Node]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    changed: list[dict[str, Any]] = []
    moved: list[dict[str, Any]] = []
    for node in nodes:
        old = before.nodes.get(node.key)
        if old is None:
            continue
        name = node_label(old, before.type_of(old.type))
        fields = field_changes(json_document(old), json_document(node), in_lists=True)
        for wanted, found in ((False, changed), (True, moved)):
            kept = [field for field in fields if (field.path[0] in _POSITION) is wanted]
            if kept:
                found.append(document_change(node.key, name, kept))
    return changed, moved


def _field_document(field: FieldChange) -> dict[str, Any]:
    """Return one changed field as JSON; code and text of several lines also as a diff.

    Lines end at line feeds alone. At other marks (a vertical tab, say) languages do not end a line:
    were one put in the place of a line feed, a comment would swallow the line after it, and the
    lines would be the same as before.
    """
    values = {"before": field.before, "after": field.after}
    document: dict[str, Any] = {"path": list(field.path)}
    document |= {name: value for name, value in values.items() if value is not MISSING}
    old, new = ("" if text is MISSING or text is None else text for text in values.values())
    if not isinstance(old, str) or not isinstance(new, str):
        return document
    if field.path[-1] != "process" and "\n" not in old + new:
        return document
    lines, later = (text.split("\n") if text else list[str]() for text in (old, new))
    diff = difflib.unified_diff(
        lines, later, f"{field.name} before", f"{field.name} after", lineterm=""
    )
    return {**document, "diff": "\n".join(diff)}
