"""The preview of a change: added and removed documents, fields before and after, code as a diff.

Computed only from the graph before the change and the mutation.
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
    """Returns the changes of a mutation on this graph and the references that it breaks, without
    empty lists.

    A node that is both moved and changed is listed twice. `referencesBroken` are not changes: they
    are fields of remaining nodes that refer to a deleted node by its name.

    Shapes: `…Added`, `…Removed`: documents; `…Changed`, `nodesMoved`: {key, name, fields: [{path,
    before, after, diff}]}.
    """
    gone = set(mutation.delete_nodes)
    graph = mutation.graph
    cut = {*mutation.delete_edges, *before.edges_of(gone)}
    own_types = {c.key: c for c in before.types.values() if c.workspace == before.graph.workspace}
    changed, moved = _changed_nodes(before, mutation.put_nodes)
    edges = [(before.edges.get(edge.key), edge) for edge in mutation.put_edges]
    types = [(own_types.get(config.key), config) for config in mutation.put_configs]
    parts: dict[str, list[dict[str, Any]]] = {
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
    return {name: items for name, items in parts.items() if items}


def document_change(key: str, name: str, fields: Iterable[FieldChange]) -> dict[str, Any]:
    """Returns a changed document in the form of previews. `name`: its display name."""
    return {"key": key, "name": name, "fields": [_field_document(field) for field in fields]}


def _changed(
    documents: Iterable[tuple[Document | None, Any, str]], fixed: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Returns the changes of existing documents, without `fixed` fields."""
    documents_changed: list[dict[str, Any]] = []
    for old, new, name in documents:
        changes = field_changes(json_document(old), json_document(new)) if old is not None else ()
        if fields := [change for change in changes if change.path[0] not in fixed]:
            documents_changed.append(document_change(new.key, name, fields))
    return documents_changed


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
        for of_position, part in ((False, changed), (True, moved)):
            selected = [field for field in fields if (field.path[0] in _POSITION) is of_position]
            if selected:
                part.append(document_change(node.key, name, selected))
    return changed, moved


def _field_document(field: FieldChange) -> dict[str, Any]:
    """Returns a changed field as JSON. Code and text of several lines also have a diff.

    Lines end at line feeds only. Other characters (such as vertical tabs) do not end a line in
    programming languages: if one replaced a line feed, a comment would extend to the next line,
    while the lines of the diff would look unchanged.
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
