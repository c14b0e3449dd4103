"""The edits of a live graph, checked and applied to a draft, each completely or not at all.

Each function changes the given draft, or raises an error, after which the draft is discarded.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from datasources.errors import BadDocument
from datasources.instructions import json_fault
from datasources.mutations import encode_document
from datasources.types import Document, Edge, Node, parse_document
from graphrag.changes.draft import GraphDraft
from graphrag.live.errors import EditRefused
from tools.actions.field_changes import json_document

D = TypeVar("D", bound=Document)
E = TypeVar("E", Node, Edge)
Message = dict[str, Any]
# The sheets that a message concerns, None for all.
Sheets = frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditLimits:
    """Limits of the edits of one request. Units: bytes, characters."""

    # Nodes and edges that are created or deleted.
    elements: int = 5_000
    element_bytes: int = 2_000_000
    sheets: int = 200
    # Length of the name of a sheet.
    name_chars: int = 200
    instructions: int = 4_000
    # Instructions in one message to an editor, as the protocol allows.
    sent_at_once: int = 20
    # Requests written to the journal together.
    batch: int = 200
    # Size after which no further request is added to a write.
    batch_bytes: int = 8_000_000


EDIT_LIMITS: Final = EditLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An edit: the message to the other editors, the sheets that it concerns (None: all), and the
    history entries.

    `others` are the messages to other editors if one message cannot describe the edit.
    """

    message: Message
    sheets: Sheets
    history: tuple[Message, ...]
    others: tuple[tuple[Message, Sheets], ...] | None = None

    @property
    def broadcasts(self) -> tuple[tuple[Message, Sheets], ...]:
        return ((self.message, self.sheets),) if self.others is None else self.others


def new_key() -> str:
    """Returns a new random key: 60 bits, as letters and digits."""
    return f"n{secrets.token_hex(8)[:15]}"


def created(sheet_id: str, nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, Any]:
    """Returns the message about nodes and edges added to a sheet."""
    documents = {"nodes": _documents(nodes), "edges": _documents(edges)}
    return {"type": "batchCreateElements", "sheetId": sheet_id, **documents}


def deleted(sheet_id: str, nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, Any]:
    """Returns the message about nodes and edges deleted from a sheet."""
    keys = {"nodeKeys": [node.key for node in nodes], "edgeKeys": [edge.key for edge in edges]}
    return {"type": "batchDeleteElements", "sheetId": sheet_id, **keys}


def entries(
    operation: Literal["Create", "Delete"], nodes: Sequence[Node], edges: Sequence[Edge]
) -> list[Message]:
    """Returns the history entries of created or deleted elements, nodes before their edges on
    creation and after them on deletion.
    """
    parts = [("node", nodes), ("edge", edges)]
    return [
        {"type": f"{kind}{operation}", f"{kind}s": _documents(documents)}
        for kind, documents in (parts if operation == "Create" else reversed(parts))
        if documents
    ]


def of_sheet(
    operation: Literal["Create", "Rename", "Delete"], key: str, name: str, **more: str
) -> tuple[Message, Message]:
    """Returns the message and the history entry of an operation on a sheet."""
    message = {
        "type": f"{operation.lower()}Sheet",
        "key": key,
        **({} if operation == "Delete" else {"name": name}),
    }
    return message, {"type": f"sheet{operation}", "key": key, "name": name, **more}


def create_elements(
    draft: GraphDraft,
    sheet_id: str,
    nodes: Sequence[Mapping[str, Any]],
    edges: Sequence[Mapping[str, Any]],
) -> Edit:
    """Adds nodes and edges to a sheet. Raises: EditRefused."""
    _check_count(len(nodes) + len(edges))
    check_sheet(draft, sheet_id, "sheetId")
    new_nodes = [
        _read_element(Node, raw, draft, sheet_id, f"nodes.{i}") for i, raw in enumerate(nodes)
    ]
    new_edges = [
        _read_element(Edge, raw, draft, sheet_id, f"edges.{i}") for i, raw in enumerate(edges)
    ]
    for i, node in enumerate(new_nodes):
        if draft.node(node.key) is not None:
            raise EditRefused(where=f"nodes.{i}", reason=f"the node key {node.key!r} is taken")
        draft.put_node(node)
    for i, edge in enumerate(new_edges):
        if draft.edge(edge.key) is not None:
            raise EditRefused(where=f"edges.{i}", reason=f"the edge key {edge.key!r} is taken")
        check_ends(draft, edge, f"edges.{i}")
        draft.put_edge(edge)
    message = created(sheet_id, new_nodes, new_edges)
    history = entries("Create", new_nodes, new_edges)
    return Edit(message=message, sheets=frozenset((sheet_id,)), history=tuple(history))


def delete_elements(
    draft: GraphDraft, sheet_id: str, node_keys: Sequence[str], edge_keys: Sequence[str]
) -> Edit:
    """Deletes edges of a sheet, and nodes with all their edges. Raises: EditRefused."""
    _check_count(len(node_keys) + len(edge_keys))
    check_sheet(draft, sheet_id, "sheetId")
    deleted_nodes: list[Node] = []
    deleted_edges: list[Edge] = []
    for i, key in enumerate(edge_keys):
        deleted_edges.append(
            element_on_sheet(draft.edge(key), f"edge {key[:80]!r}", sheet_id, f"edgeKeys.{i}")
        )
        draft.delete_edge(key)
    for i, key in enumerate(node_keys):
        deleted_nodes.append(
            element_on_sheet(draft.node(key), f"node {key[:80]!r}", sheet_id, f"nodeKeys.{i}")
        )
        deleted_edges += draft.delete_node(key)
    return Edit(
        message=deleted(sheet_id, deleted_nodes, deleted_edges),
        sheets=frozenset((sheet_id, *(edge.sheet for edge in deleted_edges))),
        history=tuple(entries("Delete", deleted_nodes, deleted_edges)),
    )


def create_sheet(draft: GraphDraft, name: str, key: str | None = None) -> Edit:
    """Adds a sheet, under the next number if `key` is None. Raises: EditRefused."""
    sheets = _sheets_to_change(draft, name=name)
    if len(sheets) >= EDIT_LIMITS.sheets:
        raise EditRefused(where="name", reason=f"a graph has at most {EDIT_LIMITS.sheets} sheets")
    if key is None:
        key = str(1 + max((int(sheet) for sheet in sheets if _is_number(sheet)), default=-1))
    elif not _is_number(key):
        raise EditRefused(where="key", reason="the key of a sheet is a small whole number, as text")
    elif key in sheets:
        raise EditRefused(where="key", reason=f"the sheet key {key!r} is taken")
    return _with_sheets(draft, {**sheets, key: name}, *of_sheet("Create", key, name))


def rename_sheet(draft: GraphDraft, key: str, name: str) -> Edit:
    """Renames a sheet. Raises: EditRefused."""
    sheets = _sheets_to_change(draft, key=key, name=name)
    step = of_sheet("Rename", key, name, previousName=sheets[key])
    return _with_sheets(draft, {**sheets, key: name}, *step)


def delete_sheet(draft: GraphDraft, key: str) -> Edit:
    """Deletes a sheet with its contents, unless it is the only one. Raises: EditRefused."""
    sheets = _sheets_to_change(draft, key=key)
    if len(sheets) == 1:
        raise EditRefused(where="key", reason="a graph must have at least one sheet")
    nodes = sorted(
        (node for node in draft.iter_nodes() if node.sheet == key), key=lambda node: node.key
    )
    edges = sorted(
        (edge for edge in draft.iter_edges() if edge.sheet == key), key=lambda edge: edge.key
    )
    for edge in edges:
        draft.delete_edge(edge.key)
    for node in nodes:
        edges += draft.delete_node(node.key)
    remaining = {k: name for k, name in sheets.items() if k != key}
    message, entry = of_sheet("Delete", key, sheets[key])
    return _with_sheets(draft, remaining, message, *entries("Delete", nodes, edges), entry)


def _sheets_to_change(
    draft: GraphDraft, *, key: str | None = None, name: str | None = None
) -> dict[str, str]:
    """Returns the sheets of the graph after checking `key` and `name`. Raises: EditRefused."""
    if (draft.graph.metadata or {}).get("noMultipleSheet"):
        raise EditRefused(where="graphKey", reason="this graph is limited to one sheet")
    if key is not None:
        check_sheet(draft, key, "key")
    if name is not None and (
        not name.strip() or len(name) > EDIT_LIMITS.name_chars or json_fault(name)
    ):
        raise EditRefused(
            where="name", reason=f"the name must have 1 to {EDIT_LIMITS.name_chars} characters"
        )
    return draft.graph.sheets_list


def _with_sheets(
    draft: GraphDraft, sheets: dict[str, str], message: Message, *history: Message
) -> Edit:
    draft.set_graph(draft.graph.replace(sheets_list=sheets))
    return Edit(message=message, sheets=None, history=history)


def element_on_sheet(element: E | None, label: str, sheet_id: str, where: str) -> E:
    """Returns the element if it is on the sheet. `label` names it in the error, as `node 'n1'`.

    Raises: EditRefused.
    """
    if element is None or element.sheet != sheet_id:
        raise EditRefused(where=where, reason=f"there is no {label} on sheet {sheet_id[:80]!r}")
    return element


def check_sheet(draft: GraphDraft, sheet_id: str, where: str) -> None:
    if sheet_id not in draft.graph.sheets_list:
        raise EditRefused(where=where, reason=f"the graph has no sheet {sheet_id[:80]!r}")


def check_ends(draft: GraphDraft, edge: Edge, where: str) -> None:
    """Raises EditRefused unless both ends of the edge exist."""
    for end in (edge.source, edge.target):
        if draft.node(end) is None:
            raise EditRefused(
                where=where, reason=f"there is no node {end!r} for the edge {edge.key!r}"
            )


def _read_element(
    model: type[D], raw: Mapping[str, Any], draft: GraphDraft, sheet_id: str, where: str
) -> D:
    """Reads a node or edge that a client sent for this graph and sheet. Raises: EditRefused."""
    fault = json_fault(raw if isinstance(raw, dict) else dict(raw))
    if fault:
        raise EditRefused(where=where, reason=fault)
    for name, expected in (("graphKey", draft.graph.key), ("sheet", sheet_id)):
        if raw.get(name) != expected:
            raise EditRefused(where=f"{where}.{name}", reason=f"is not {expected!r}")
    return check_document(model, raw, where)


def check_document(model: type[D], raw: Mapping[str, Any], where: str) -> D:
    """Returns the document as it is stored. Raises EditRefused for a wrong structure or size."""
    try:
        document = parse_document(model, raw, "elements")
        size = len(encode_document(document, "elements", str(raw.get("_key"))))
    except BadDocument as exc:
        raise EditRefused(where=f"{where}.{exc.field}", reason=exc.reason) from exc
    if size > EDIT_LIMITS.element_bytes:
        raise EditRefused(
            where=where, reason=f"it would have {size} bytes, more than {EDIT_LIMITS.element_bytes}"
        )
    return document


def _check_count(count: int) -> None:
    if not 0 < count <= EDIT_LIMITS.elements:
        raise EditRefused(
            where="nodes", reason=f"a request names 1 to {EDIT_LIMITS.elements} nodes and edges"
        )


def _is_number(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) <= 6 and str(int(key)) == key


def _documents(elements: Sequence[Document]) -> list[dict[str, Any]]:
    return [json_document(element) for element in elements]
