"""What a change looks like to a person: documents added and removed, fields before and after, code as a diff.

Computed from the graph before and the mutation that would be applied, from nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from datasources.text import node_label
from datasources.types import Graph, Mutation, Node
from graphrag.changes.field_diff import MISSING, FieldChange, field_changes
from tools.proposal_parts import FIXED_GRAPH_FIELDS
from tools.references import Reference
from tools.write_tools.field_changes import json_document
from tools.write_tools.graph_reads import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """A node, edge or type that changes. `name` is what a person calls it."""

    key: str
    name: str
    fields: tuple[FieldChange, ...]

    def to_document(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "name": self.name,
            "fields": [_field_document(field) for field in self.fields],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """All that would change. A node that is moved and changed stands under both.

    `references_broken` are not changes: fields of nodes that stay and refer to one that goes, by its name.
    """

    nodes_added: tuple[dict[str, Any], ...] = ()
    nodes_removed: tuple[dict[str, Any], ...] = ()
    nodes_changed: tuple[DocumentChange, ...] = ()
    nodes_moved: tuple[DocumentChange, ...] = ()
    edges_added: tuple[dict[str, Any], ...] = ()
    edges_removed: tuple[dict[str, Any], ...] = ()
    edges_changed: tuple[DocumentChange, ...] = ()
    types_added: tuple[dict[str, Any], ...] = ()
    types_changed: tuple[DocumentChange, ...] = ()
    graph_changed: tuple[DocumentChange, ...] = ()
    references_broken: tuple[dict[str, Any], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(getattr(self, name) for name in self.__dataclass_fields__)

    def to_document(self) -> dict[str, Any]:
        """Return it as stored and sent, without the lists that are empty."""
        return {
            to_camel(name): [
                item.to_document() if isinstance(item, DocumentChange) else item for item in items
            ]
            for name in self.__dataclass_fields__
            if (items := getattr(self, name))
        }


_POSITION = ("posX", "posY")


def preview_of(before: Snapshot, mutation: Mutation, broken: Sequence[Reference] = ()) -> Preview:
    """Return what the mutation changes on this graph, and which references it breaks."""
    gone = set(mutation.delete_nodes)
    cut = {*mutation.delete_edges, *before.edges_of(gone)}
    own = {c.key: c for c in before.types.values() if c.workspace == before.graph.workspace}
    changed, moved = _changed_nodes(before, mutation.put_nodes)
    edges = [(before.edges.get(edge.key), edge) for edge in mutation.put_edges]
    types = [(own.get(config.key), config) for config in mutation.put_configs]
    return Preview(
        nodes_added=tuple(json_document(node) for node in mutation.put_nodes if node.key not in before.nodes),
        nodes_removed=tuple(json_document(before.nodes[key]) for key in sorted(gone) if key in before.nodes),
        nodes_changed=tuple(changed),
        nodes_moved=tuple(moved),
        edges_added=tuple(edge.to_document() for old, edge in edges if old is None),
        edges_removed=tuple(before.edges[key].to_document() for key in sorted(cut) if key in before.edges),
        edges_changed=tuple(
            DocumentChange(key=edge.key, name=edge.label or edge.key, fields=fields)
            for old, edge in edges
            if old is not None and (fields := field_changes(old.to_document(), edge.to_document()))
        ),
        types_added=tuple(json_document(config) for old, config in types if old is None),
        types_changed=tuple(
            DocumentChange(key=config.key, name=config.display_name, fields=fields)
            for old, config in types
            if old is not None and (fields := field_changes(json_document(old), json_document(config)))
        ),
        graph_changed=_changed_graph(before.graph, mutation.graph),
        references_broken=tuple(
            {
                "key": reference.node_key,
                "name": node_label(before.nodes[reference.node_key]),
                "path": list(reference.path),
                "to": reference.mention.name,
            }
            for reference in dict.fromkeys(broken)
        ),
    )


def _changed_graph(before: Graph, after: Graph | None) -> tuple[DocumentChange, ...]:
    if after is None:
        return ()
    found = field_changes(before.to_document(), after.to_document())
    fields = tuple(change for change in found if change.path[0] not in FIXED_GRAPH_FIELDS)
    return (DocumentChange(key=before.key, name=before.name, fields=fields),) if fields else ()


def _changed_nodes(
    before: Snapshot, nodes: Sequence[Node]
) -> tuple[list[DocumentChange], list[DocumentChange]]:
    changed: list[DocumentChange] = []
    moved: list[DocumentChange] = []
    for node in nodes:
        old = before.nodes.get(node.key)
        if old is None:
            continue
        name = node_label(old, before.type_of(old.type))
        fields = field_changes(json_document(old), json_document(node), in_lists=True)
        for wanted, found in ((False, changed), (True, moved)):
            kept = tuple(field for field in fields if (field.path[0] in _POSITION) is wanted)
            if kept:
                found.append(DocumentChange(key=node.key, name=name, fields=kept))
    return changed, moved


def _field_document(field: FieldChange) -> dict[str, Any]:
    """Return one changed field as JSON; code and text of several lines also as a diff."""
    document: dict[str, Any] = {"path": list(field.path)}
    if field.before is not MISSING:
        document["before"] = field.before
    if field.after is not MISSING:
        document["after"] = field.after
    diff = _text_diff(field.before, field.after, field.path)
    return document if diff is None else {**document, "diff": diff}


def _text_diff(before: Any, after: Any, path: tuple[str, ...]) -> str | None:
    old, new = ("" if text is MISSING or text is None else text for text in (before, after))
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    if path[-1] != "process" and "\n" not in old + new:
        return None
    name = ".".join(path)
    lines = difflib.unified_diff(_lines(old), _lines(new), f"{name} before", f"{name} after", lineterm="")
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    """Part a text at line feeds alone.

    At other marks (a vertical tab, say) languages do not end a line: were one put in the place of a
    line feed, a comment would swallow the line after it, and the lines would be the same as before.
    """
    return text.split("\n") if text else []
