"""Undoes a change: restores the earlier values of documents on top of their later changes.

Fields that the change did not touch keep their values. A later change that depends on the undone
one is a conflict; then nothing is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from datasources.errors import BadDocument
from datasources.types import Document, Edge, Graph, Mutation, Node, NodeTypeConfig, parse_document
from graphrag.changes.draft import GraphDraft
from graphrag.changes.field_diff import field_changes, same
from tools.actions.field_changes import json_document

Kind = Literal["node", "edge", "type", "graph"]
_MODELS: Mapping[Kind, type[Document]] = {
    "node": Node,
    "edge": Edge,
    "type": NodeTypeConfig,
    "graph": Graph,
}
_POSITION = ("posX", "posY")
# Fields of a graph that every save writes.
_OF_THE_STORE = ("revision", "lastUpdatedTime")


class FieldEdit(Protocol):
    """A change in one document."""

    @property
    def name(self) -> str:
        """The path of the changed field, as `data.name`."""
        ...

    def undone(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the document without the change, None if the field was changed since."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEdit:
    """One document before and after a change, None if it did not exist; or only the changed
    `fields`.
    """

    kind: Kind
    key: str
    before: Document | None = None
    after: Document | None = None
    fields: Sequence[FieldEdit] = ()

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.key}"


def edits_of(applied: Mutation, inverse: Mutation) -> list[DocumentEdit]:
    """Returns the changes of a mutation, given the inverse mutation made with it."""
    parts: list[tuple[Kind, Sequence[Any], Sequence[Any], Sequence[str]]] = [
        ("node", inverse.put_nodes, applied.put_nodes, inverse.delete_nodes),
        ("edge", inverse.put_edges, applied.put_edges, inverse.delete_edges),
        ("type", inverse.put_configs, applied.put_configs, inverse.delete_configs),
    ]
    edits: list[DocumentEdit] = []
    for kind, before, after, created in parts:
        documents_after = {document.key: document for document in after}
        edits += [
            DocumentEdit(kind=kind, key=d.key, before=d, after=documents_after.get(d.key))
            for d in before
        ]
        edits += [
            DocumentEdit(kind=kind, key=key, after=documents_after[key])
            for key in created
            if key in documents_after
        ]
    if inverse.graph is not None and applied.graph is not None:
        key = applied.graph.key
        edits.append(DocumentEdit(kind="graph", key=key, before=inverse.graph, after=applied.graph))
    return edits


def invert(
    edits: Sequence[DocumentEdit],
    draft: GraphDraft,
    types: MutableMapping[str, NodeTypeConfig] | None = None,
    *,
    allow_moved: bool = False,
) -> list[str]:
    """Undoes a change on a draft; returns the conflicts, as `node/KEY: data.name`.

    After a conflict the draft must be discarded. `types` are the workspace's own node types by key,
    which are changed too. With `allow_moved` a created node is deleted even if it was moved since.
    The draft must contain every document of the change, with all edges of its nodes.
    """
    documents = _Trial(draft, {} if types is None else types)
    sheets = draft.graph.sheets_list.keys()
    conflicts: list[str] = []
    for edit in reversed(edits):
        conflicts += _undo(edit, documents, allow_moved=allow_moved)
    return list(dict.fromkeys([*conflicts, *_misfits(draft, sheets)]))


class _Trial:
    """Functions that read, store and delete documents of each kind by key."""

    def __init__(self, draft: GraphDraft, types: MutableMapping[str, NodeTypeConfig]) -> None:
        self.edges_of = draft.edges_of
        self.get: Mapping[Kind, Callable[[str], Document | None]] = {
            "node": draft.node,
            "edge": draft.edge,
            "type": types.get,
            "graph": lambda _: draft.graph,
        }
        self.put: Mapping[Kind, Callable[[Any], object]] = {
            "node": draft.put_node,
            "edge": draft.put_edge,
            "type": lambda config: types.update({config.key: config}),
            "graph": draft.set_graph,
        }
        self.delete: Mapping[Kind, Callable[[str], object]] = {
            "node": draft.delete_node,
            "edge": draft.delete_edge,
            "type": types.pop,
        }


def _undo(edit: DocumentEdit, documents: _Trial, *, allow_moved: bool) -> Iterator[str]:
    """Undoes the change of one document; yields conflicts."""
    now = documents.get[edit.kind](edit.key)
    before = edit.before
    after = edit.after
    if before is not None and after is None:
        if now is not None:
            yield f"{edit.name}: is there again"
        documents.put[edit.kind](before)
    elif now is None:
        yield f"{edit.name}: was deleted"
    elif before is None and after is not None:
        for change in field_changes(after.to_document(), now.to_document()):
            if not (allow_moved and edit.kind == "node" and change.path[0] in _POSITION):
                yield f"{edit.name}: {change.name}"
        for edge in documents.edges_of(edit.key) if edit.kind == "node" else ():
            yield f"edge/{edge.key}: was added at node {edit.key}"
        documents.delete[edit.kind](edit.key)
    elif before is not None and after is not None and same(after.to_document(), now.to_document()):
        documents.put[edit.kind](before)
    else:
        yield from _undo_fields(edit, now, documents)


def _undo_fields(edit: DocumentEdit, now: Document, documents: _Trial) -> Iterator[str]:
    changes = edit.fields
    document = json_document(now)
    if edit.before is not None and edit.after is not None:
        differences = field_changes(json_document(edit.before), json_document(edit.after))
        changes = [
            change
            for change in differences
            if edit.kind != "graph" or change.path[0] not in _OF_THE_STORE
        ]
    for change in changes:
        undone = change.undone(document)
        if undone is None:
            yield f"{edit.name}: {change.name}"
        else:
            document = undone
    try:
        documents.put[edit.kind](parse_document(_MODELS[edit.kind], document, edit.name))
    except BadDocument as exc:
        yield f"{edit.name}: {exc.field}"


def _misfits(draft: GraphDraft, sheets_before: Set[str]) -> Iterator[str]:
    """Yields the documents that are inconsistent with the changed graph."""
    changes = draft.changes()
    sheets = draft.graph.sheets_list
    for kind, documents in (("node", changes.nodes), ("edge", changes.edges)):
        for key, document in documents.items():
            if document is not None and document.sheet not in sheets:
                yield f"{kind}/{key}: sheet {document.sheet} is gone"
    for key, edge in changes.edges.items():
        for end in (edge.source, edge.target) if edge is not None else ():
            if draft.node(end) is None:
                yield f"edge/{key}: node {end} is gone"
    gone = sheets_before - sheets.keys()
    if gone:
        used = gone & {node.sheet for node in draft.iter_nodes()}
        yield from (f"graph/{draft.graph.key}: sheet {sheet} is in use" for sheet in sorted(used))
        if not sheets:
            yield f"graph/{draft.graph.key}: it would have no sheet"
