"""What a change looks like to a person: documents added and removed, fields before and after, code as a diff.

Computed from the graph before and the mutation that would be applied, from nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from datasources.text import node_label
from datasources.types import Mutation, Node
from tools.references import Reference
from tools.write_tools.field_changes import json_document
from tools.write_tools.graph_reads import Snapshot

MISSING = object()
_DEPTH = 6
_DEPTH_WITH_LISTS = 16
"""Fields nested deeper are compared and shown as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field before and after; `MISSING` where it is not there. `diff` is set for code and long text."""

    path: tuple[str, ...]
    before: Any
    after: Any
    diff: str | None = None

    def to_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"path": list(self.path)}
        if self.before is not MISSING:
            document["before"] = self.before
        if self.after is not MISSING:
            document["after"] = self.after
        if self.diff is not None:
            document["diff"] = self.diff
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """A node, edge or type that changes. `name` is what a person calls it."""

    key: str
    name: str
    fields: tuple[FieldChange, ...]

    def to_document(self) -> dict[str, Any]:
        return {"key": self.key, "name": self.name, "fields": [field.to_document() for field in self.fields]}


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
    references_broken: tuple[dict[str, Any], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(getattr(self, name) for name in self.__dataclass_fields__)

    def to_document(self) -> dict[str, Any]:
        """Return it as stored and sent, without the lists that are empty."""
        return {
            _camel(name): [item.to_document() if isinstance(item, DocumentChange) else item for item in items]
            for name in self.__dataclass_fields__
            if (items := getattr(self, name))
        }

    def code_diffs(self) -> list[dict[str, Any]]:
        """Return changed code in the form of Nodius's chat client."""
        changes = [*self.nodes_changed, *self.types_changed]
        return [
            {
                "field": ".".join(field.path),
                "original": field.before,
                "modified": field.after,
                "key": change.key,
            }
            for change in changes
            for field in change.fields
            if field.path[-1] == "process" and isinstance(field.before, str) and isinstance(field.after, str)
        ]


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


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


def field_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], *, in_lists: bool = False
) -> tuple[FieldChange, ...]:
    """Return every field in which two documents differ, in the order of their fields.

    With `in_lists` also lists of one length are compared item by item, each under its number.
    """
    return tuple(_differences(before, after, (), in_lists=in_lists))


def _differences(before: Any, after: Any, path: tuple[str, ...], *, in_lists: bool) -> Iterator[FieldChange]:
    pairs: Iterable[tuple[str, Any, Any]] | None = None
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        old, new = cast(Mapping[str, Any], before), cast(Mapping[str, Any], after)
        pairs = [(key, old.get(key, MISSING), new.get(key, MISSING)) for key in dict.fromkeys([*old, *new])]
    elif in_lists and isinstance(before, list) and isinstance(after, list):
        items = cast(list[Any], before), cast(list[Any], after)
        if len(items[0]) == len(items[1]):
            pairs = [(str(number), *pair) for number, pair in enumerate(zip(*items, strict=True))]
    if pairs is not None and len(path) < (_DEPTH_WITH_LISTS if in_lists else _DEPTH):
        for key, one, other in pairs:
            yield from _differences(one, other, (*path, key), in_lists=in_lists)
    elif not same(before, after):
        yield FieldChange(path=path, before=before, after=after, diff=_text_diff(before, after, path))


def same(one: Any, other: Any) -> bool:
    """Say whether two JSON values are equal; unlike Python, true is not 1."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        left, right = cast(Mapping[str, Any], one), cast(Mapping[str, Any], other)
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        mine, theirs = cast(Sequence[Any], one), cast(Sequence[Any], other)
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


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
