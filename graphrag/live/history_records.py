"""What editors did, kept so that it can be taken back; the form is that of `nodius_graphs_history`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from datasources.base import RecordWrite
from datasources.errors import InstructionError
from datasources.instructions import IDENTITY_FIELDS, apply_instruction
from datasources.types import Edge, Node
from graphrag.live.broadcast import described
from graphrag.live.edits import Edit, check_document, check_ends, check_sheet
from graphrag.live.entries import digest, value_at
from graphrag.live.errors import EditRefused
from graphrag.live.graph_state import GraphDraft, same
from tools.write_tools.field_changes import json_document

KIND = "history"
TOTAL = "totalBytes"
Entry = Mapping[str, Any]


def history_key(graph_key: str, timestamp: int) -> str:
    return f"{graph_key}/{timestamp:015}"


def history_write(graph_key: str, entries: Sequence[Entry], *, total_bytes: int) -> list[RecordWrite]:
    """Return the record of what was done since the last save; none for nothing.

    `total_bytes` is what the graph's history has taken in so far: the difference of two records' tells
    how much is stored between them.
    """
    if not entries:
        return []
    timestamp = int(entries[-1]["timestamp"])
    data = {
        "timestamp": timestamp,
        "graphKey": graph_key,
        "type": "WF",
        "history": list(entries),
        TOTAL: total_bytes,
    }
    key = history_key(graph_key, timestamp)
    return [RecordWrite(kind=KIND, key=key, data=data, expected_version=None)]


def undo(draft: GraphDraft, entries: Sequence[Entry]) -> Edit:
    """Take entries back, the last one first: all of them or none.

    Raises: EditRefused where a later change is in the way.
    """
    before = draft
    trial = GraphDraft(before)
    for number in reversed(range(len(entries))):
        entry, where = entries[number], f"history.{number}"
        step = _STEPS.get(str(entry.get("type")))
        if step is None:
            raise EditRefused(
                where=where, reason=f"entries of type {entry.get('type')!r} cannot be taken back"
            )
        try:
            step(trial, entry, where)
        except InstructionError as exc:
            raise EditRefused(where=where, reason=str(exc)) from exc
    changes = trial.changes()
    edit = described(before, changes)
    draft.add(changes)
    return edit


def _uncreate_nodes(draft: GraphDraft, entry: Entry, where: str) -> None:
    for raw in entry["nodes"]:
        key = str(raw["_key"])
        node = draft.node(key)
        if node is None:
            raise EditRefused(where=where, reason=f"the node {key!r} was deleted")
        if not same(node, check_document(Node, raw, where)):
            raise EditRefused(where=where, reason=f"the node {key!r} was changed since")
        if draft.edges_of(key):
            raise EditRefused(where=where, reason=f"edges hang on the node {key!r} now")
        draft.delete_node(key)


def _uncreate_edges(draft: GraphDraft, entry: Entry, where: str) -> None:
    for raw in entry["edges"]:
        key = str(raw["_key"])
        edge = draft.edge(key)
        if edge is None:
            raise EditRefused(where=where, reason=f"the edge {key!r} was deleted")
        if not same(edge, check_document(Edge, raw, where)):
            raise EditRefused(where=where, reason=f"the edge {key!r} was changed since")
        draft.delete_edge(key)


def _undelete_nodes(draft: GraphDraft, entry: Entry, where: str) -> None:
    for raw in entry["nodes"]:
        node = check_document(Node, raw, where)
        if draft.node(node.key) is not None:
            raise EditRefused(where=where, reason=f"there is a node {node.key!r} again")
        check_sheet(draft, node.sheet, where)
        draft.put_node(node)


def _undelete_edges(draft: GraphDraft, entry: Entry, where: str) -> None:
    for raw in entry["edges"]:
        edge = check_document(Edge, raw, where)
        if draft.edge(edge.key) is not None:
            raise EditRefused(where=where, reason=f"there is an edge {edge.key!r} again")
        check_sheet(draft, edge.sheet, where)
        check_ends(draft, edge, where)
        draft.put_edge(edge)


def _unchange_node(draft: GraphDraft, entry: Entry, where: str) -> None:
    node = draft.node(str(entry["nodeId"]))
    if node is None:
        raise EditRefused(where=where, reason=f"the node {entry['nodeId']!r} was deleted")
    draft.put_node(check_document(Node, _undone(json_document(node), entry, where), where))


def _unchange_edge(draft: GraphDraft, entry: Entry, where: str) -> None:
    edge = draft.edge(str(entry["edgeId"]))
    if edge is None:
        raise EditRefused(where=where, reason=f"the edge {entry['edgeId']!r} was deleted")
    restored = check_document(Edge, _undone(json_document(edge), entry, where), where)
    check_ends(draft, restored, where)
    draft.put_edge(restored)


def _undone(document: dict[str, Any], entry: Entry, where: str) -> dict[str, Any]:
    """Return the document as it was before. Raises: EditRefused when the place was changed since."""
    undone = document
    for instruction in entry["reversedInstruction"]:
        undone = apply_instruction(undone, instruction, protected=IDENTITY_FIELDS)
    # Done once more it must give what stands there now; else it would take a later change away.
    done = entry["instruction"]
    if "digest" in done:
        is_there = digest(value_at(document, done["p"])) == done["digest"]
    else:
        is_there = digest(apply_instruction(undone, done, protected=IDENTITY_FIELDS)) == digest(document)
    if not is_there:
        raise EditRefused(where=where, reason="the place was changed since")
    return undone


def _uncreate_sheet(draft: GraphDraft, entry: Entry, where: str) -> None:
    key, sheets = str(entry["key"]), draft.graph.sheets_list
    check_sheet(draft, key, where)
    if len(sheets) == 1 or any(node.sheet == key for node in draft.iter_nodes()):
        raise EditRefused(where=where, reason=f"the sheet {key!r} is in use")
    draft.set_graph(draft.graph.replace(sheets_list={k: n for k, n in sheets.items() if k != key}))


def _unrename_sheet(draft: GraphDraft, entry: Entry, where: str) -> None:
    key, sheets = str(entry["key"]), draft.graph.sheets_list
    check_sheet(draft, key, where)
    if sheets[key] != entry["name"]:
        raise EditRefused(where=where, reason=f"the sheet {key!r} was renamed since")
    draft.set_graph(draft.graph.replace(sheets_list={**sheets, key: str(entry["previousName"])}))


def _undelete_sheet(draft: GraphDraft, entry: Entry, where: str) -> None:
    key, sheets = str(entry["key"]), draft.graph.sheets_list
    if key in sheets:
        raise EditRefused(where=where, reason=f"there is a sheet {key!r} again")
    draft.set_graph(draft.graph.replace(sheets_list={**sheets, key: str(entry["name"])}))


_STEPS: Mapping[str, Callable[[GraphDraft, Entry, str], None]] = {
    "nodeCreate": _uncreate_nodes,
    "edgeCreate": _uncreate_edges,
    "nodeDelete": _undelete_nodes,
    "edgeDelete": _undelete_edges,
    "nodeUpdate": _unchange_node,
    "edgeUpdate": _unchange_edge,
    "sheetCreate": _uncreate_sheet,
    "sheetRename": _unrename_sheet,
    "sheetDelete": _undelete_sheet,
}
