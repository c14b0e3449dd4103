"""What editors ask of a live graph, checked and carried out on a draft: all of a request or none.

Each function changes the draft it is given, or raises and the draft is thrown away.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from datasources.errors import BadDocument
from datasources.instructions import json_fault
from datasources.mutations import encode_document
from datasources.types import Document, Edge, Graph, Node, parse_document
from graphrag.changes.draft import GraphDraft
from graphrag.live.errors import EditRefused
from tools.write_tools.field_changes import json_document

D = TypeVar("D", bound=Document)

MAX_ELEMENTS = 5_000
"""Nodes and edges that one request may create or delete."""

MAX_ELEMENT_BYTES = 2_000_000
MAX_SHEETS = 200
MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What was done: the message for the others, on which sheets (None: on all), and the history entries.

    `others` are the messages for them where one cannot say it.
    """

    message: dict[str, Any]
    sheets: frozenset[str] | None
    history: tuple[dict[str, Any], ...]
    others: tuple[tuple[dict[str, Any], frozenset[str] | None], ...] | None = None

    @property
    def broadcasts(self) -> tuple[tuple[dict[str, Any], frozenset[str] | None], ...]:
        return ((self.message, self.sheets),) if self.others is None else self.others


def new_key() -> str:
    """Return a key that nothing has: 60 random bits, as letters and digits."""
    return f"n{secrets.token_hex(8)[:15]}"


def create_elements(
    draft: GraphDraft, sheet_id: str, nodes: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]
) -> Edit:
    """Add nodes and edges to a sheet. Raises: EditRefused."""
    _check_count(len(nodes) + len(edges))
    check_sheet(draft, sheet_id, "sheetId")
    new_nodes = [read_element(Node, raw, draft, sheet_id, f"nodes.{i}") for i, raw in enumerate(nodes)]
    new_edges = [read_element(Edge, raw, draft, sheet_id, f"edges.{i}") for i, raw in enumerate(edges)]
    for i, node in enumerate(new_nodes):
        if draft.node(node.key) is not None:
            raise EditRefused(where=f"nodes.{i}", reason=f"the node key {node.key!r} is taken")
        draft.put_node(node)
    for i, edge in enumerate(new_edges):
        if draft.edge(edge.key) is not None:
            raise EditRefused(where=f"edges.{i}", reason=f"the edge key {edge.key!r} is taken")
        check_ends(draft, edge, f"edges.{i}")
        draft.put_edge(edge)
    shown_nodes, shown_edges = _documents(new_nodes), _documents(new_edges)
    return Edit(
        message={
            "type": "batchCreateElements",
            "sheetId": sheet_id,
            "nodes": shown_nodes,
            "edges": shown_edges,
        },
        sheets=frozenset((sheet_id,)),
        history=_entries(("nodeCreate", "nodes", shown_nodes), ("edgeCreate", "edges", shown_edges)),
    )


def delete_elements(
    draft: GraphDraft, sheet_id: str, node_keys: Sequence[str], edge_keys: Sequence[str]
) -> Edit:
    """Delete nodes of a sheet, with all their edges, and edges. Raises: EditRefused."""
    _check_count(len(node_keys) + len(edge_keys))
    check_sheet(draft, sheet_id, "sheetId")
    gone_nodes: list[Node] = []
    gone_edges: list[Edge] = []
    for i, key in enumerate(edge_keys):
        gone_edges.append(known_edge(draft, key, sheet_id, f"edgeKeys.{i}"))
        draft.delete_edge(key)
    for i, key in enumerate(node_keys):
        gone_nodes.append(known_node(draft, key, sheet_id, f"nodeKeys.{i}"))
        gone_edges += draft.delete_node(key)
    return Edit(
        message={
            "type": "batchDeleteElements",
            "sheetId": sheet_id,
            "nodeKeys": [node.key for node in gone_nodes],
            "edgeKeys": [edge.key for edge in gone_edges],
        },
        sheets=frozenset((sheet_id, *(edge.sheet for edge in gone_edges))),
        history=_deleted(gone_nodes, gone_edges),
    )


def create_sheet(draft: GraphDraft, name: str, key: str | None = None) -> Edit:
    """Add a sheet; without a key it gets the next number. Raises: EditRefused."""
    sheets = draft.graph.sheets_list
    _check_sheets_allowed(draft.graph)
    check_name(name)
    if len(sheets) >= MAX_SHEETS:
        raise EditRefused(where="name", reason=f"a graph has at most {MAX_SHEETS} sheets")
    if key is None:
        key = str(1 + max((int(known) for known in sheets if _is_number(known)), default=-1))
    elif not _is_number(key):
        raise EditRefused(where="key", reason="the key of a sheet is a small whole number, as text")
    elif key in sheets:
        raise EditRefused(where="key", reason=f"the sheet key {key!r} is taken")
    draft.set_graph(draft.graph.replace(sheets_list={**sheets, key: name}))
    return Edit(
        message={"type": "createSheet", "key": key, "name": name},
        sheets=None,
        history=({"type": "sheetCreate", "key": key, "name": name},),
    )


def rename_sheet(draft: GraphDraft, key: str, name: str) -> Edit:
    """Raises: EditRefused."""
    sheets = draft.graph.sheets_list
    _check_sheets_allowed(draft.graph)
    check_sheet(draft, key, "key")
    check_name(name)
    draft.set_graph(draft.graph.replace(sheets_list={**sheets, key: name}))
    return Edit(
        message={"type": "renameSheet", "key": key, "name": name},
        sheets=None,
        history=({"type": "sheetRename", "key": key, "name": name, "previousName": sheets[key]},),
    )


def delete_sheet(draft: GraphDraft, key: str) -> Edit:
    """Delete a sheet with all that is on it; a graph keeps at least one. Raises: EditRefused."""
    sheets = draft.graph.sheets_list
    _check_sheets_allowed(draft.graph)
    check_sheet(draft, key, "key")
    if len(sheets) == 1:
        raise EditRefused(where="key", reason="a graph keeps at least one sheet")
    nodes = sorted((node for node in draft.iter_nodes() if node.sheet == key), key=lambda node: node.key)
    edges = sorted((edge for edge in draft.iter_edges() if edge.sheet == key), key=lambda edge: edge.key)
    for edge in edges:
        draft.delete_edge(edge.key)
    for node in nodes:
        edges += draft.delete_node(node.key)
    draft.set_graph(draft.graph.replace(sheets_list={k: name for k, name in sheets.items() if k != key}))
    return Edit(
        message={"type": "deleteSheet", "key": key},
        sheets=None,
        history=(*_deleted(nodes, edges), {"type": "sheetDelete", "key": key, "name": sheets[key]}),
    )


def known_node(draft: GraphDraft, key: str, sheet_id: str, where: str) -> Node:
    """Raises: EditRefused when the sheet has no such node."""
    node = draft.node(key)
    if node is None or node.sheet != sheet_id:
        raise EditRefused(where=where, reason=f"there is no node {key[:80]!r} on sheet {sheet_id[:80]!r}")
    return node


def known_edge(draft: GraphDraft, key: str, sheet_id: str, where: str) -> Edge:
    """Raises: EditRefused when the sheet has no such edge."""
    edge = draft.edge(key)
    if edge is None or edge.sheet != sheet_id:
        raise EditRefused(where=where, reason=f"there is no edge {key[:80]!r} on sheet {sheet_id[:80]!r}")
    return edge


def check_sheet(draft: GraphDraft, sheet_id: str, where: str) -> None:
    if sheet_id not in draft.graph.sheets_list:
        raise EditRefused(where=where, reason=f"the graph has no sheet {sheet_id[:80]!r}")


def check_name(name: str) -> None:
    if not name.strip() or len(name) > MAX_NAME_CHARS or json_fault(name):
        raise EditRefused(where="name", reason=f"the name must have 1 to {MAX_NAME_CHARS} characters")


def check_ends(draft: GraphDraft, edge: Edge, where: str) -> None:
    """Raises: EditRefused for an edge whose ends are not both there."""
    for end in (edge.source, edge.target):
        if draft.node(end) is None:
            raise EditRefused(where=where, reason=f"there is no node {end!r} for the edge {edge.key!r}")


def read_element(model: type[D], raw: Mapping[str, Any], draft: GraphDraft, sheet_id: str, where: str) -> D:
    """Read a node or edge that a client sent for this graph and sheet. Raises: EditRefused."""
    fault = json_fault(raw if isinstance(raw, dict) else dict(raw))
    if fault:
        raise EditRefused(where=where, reason=fault)
    for name, wanted in (("graphKey", draft.graph.key), ("sheet", sheet_id)):
        if raw.get(name) != wanted:
            raise EditRefused(where=f"{where}.{name}", reason=f"is not {wanted!r}")
    return check_document(model, raw, where)


def check_document(model: type[D], raw: Mapping[str, Any], where: str) -> D:
    """Return the document as it will be stored. Raises: EditRefused for one of the wrong shape or size."""
    try:
        document = parse_document(model, raw, "elements")
        size = len(encode_document(document, "elements", str(raw.get("_key"))))
    except BadDocument as exc:
        raise EditRefused(where=f"{where}.{exc.field}", reason=exc.reason) from exc
    if size > MAX_ELEMENT_BYTES:
        raise EditRefused(where=where, reason=f"it would have {size} bytes, more than {MAX_ELEMENT_BYTES}")
    return document


def _check_count(count: int) -> None:
    if not 0 < count <= MAX_ELEMENTS:
        raise EditRefused(where="nodes", reason=f"a request names 1 to {MAX_ELEMENTS} nodes and edges")


def _check_sheets_allowed(graph: Graph) -> None:
    if (graph.metadata or {}).get("noMultipleSheet"):
        raise EditRefused(where="graphKey", reason="this graph has one sheet and keeps it")


def _is_number(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) <= 6 and str(int(key)) == key


def _documents(elements: Sequence[Document]) -> list[dict[str, Any]]:
    return [json_document(element) for element in elements]


def _deleted(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[dict[str, Any], ...]:
    return _entries(("edgeDelete", "edges", _documents(edges)), ("nodeDelete", "nodes", _documents(nodes)))


def _entries(*parts: tuple[str, str, list[dict[str, Any]]]) -> tuple[dict[str, Any], ...]:
    return tuple({"type": kind, name: documents} for kind, name, documents in parts if documents)
