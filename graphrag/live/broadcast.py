"""Describes changes that no editor asked for as messages to editors and as history entries.

Such are approvals, undos, and what other programs store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import orjson

from datasources.instructions import Instruction, Op
from datasources.types import Edge, Node
from graphrag.changes.draft import Changes, Readable
from graphrag.live.edits import Edit
from graphrag.live.history_entries import update_entry
from graphrag.live.instruction_batch import in_messages
from tools.write_tools.field_changes import json_document

E = TypeVar("E", Node, Edge)
Message = dict[str, Any]
Broadcast = tuple[Message, frozenset[str] | None]


def described(before: Readable, changes: Changes) -> Edit:
    """Return the messages and the history entries of changes that are not made yet.

    That a graph was renamed stands in the audit log alone: editors do not do it.
    """
    graph = changes.graph or before.graph
    old_sheets, new_sheets = before.graph.sheets_list, graph.sheets_list
    messages, history = _sheets_made(old_sheets, new_sheets)
    if graph.name != before.graph.name:
        messages.append(({"type": "renameGraph", "name": graph.name}, None))
    nodes = _Sorted.of(((before.node(key), node) for key, node in changes.nodes.items()))
    edges = _Sorted.of(((before.edge(key), edge) for key, edge in changes.edges.items()))
    edges.renew({edge.key: edge for node in nodes.gone for edge in before.edges_of(node.key)}, changes)
    messages += _deletions(nodes.gone, edges.gone)
    history += _entries("edgeDelete", "edges", edges.gone) + _entries("nodeDelete", "nodes", nodes.gone)
    messages += _creations(nodes.new, edges.new, old_sheets)
    history += _entries("nodeCreate", "nodes", nodes.new) + _entries("edgeCreate", "edges", edges.new)
    for kind, pairs in (("node", nodes.changed), ("edge", edges.changed)):
        found = [step for old, new in pairs for step in _steps(kind, old, new)]
        for sheet in sorted({asked["sheetId"] for asked, _ in found}):
            messages += in_messages([asked for asked, _ in found if asked["sheetId"] == sheet])
        history += [entry for _, entry in found]
    for key, name in old_sheets.items():
        if key not in new_sheets:
            messages.append(({"type": "deleteSheet", "key": key}, None))
            history.append({"type": "sheetDelete", "key": key, "name": name})
    return Edit(message={}, sheets=None, history=tuple(history), others=tuple(messages))


def _sheets_made(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[list[Broadcast], list[Message]]:
    messages: list[Broadcast] = []
    history: list[Message] = []
    for key, name in new.items():
        if key not in old:
            messages.append(({"type": "createSheet", "key": key, "name": name}, None))
            history.append({"type": "sheetCreate", "key": key, "name": name})
        elif old[key] != name:
            messages.append(({"type": "renameSheet", "key": key, "name": name}, None))
            history.append({"type": "sheetRename", "key": key, "name": name, "previousName": old[key]})
    return messages, history


class _Sorted:
    """Documents that came, went and changed; one that went to another sheet did both of the first."""

    def __init__(self) -> None:
        self.gone: list[Any] = []
        self.new: list[Any] = []
        self.changed: list[tuple[Any, Any]] = []

    @staticmethod
    def of(pairs: Iterable[tuple[E | None, E | None]]) -> _Sorted:
        found = _Sorted()
        for old, new in pairs:
            if old is not None and new is not None and old.sheet == new.sheet:
                found.changed.append((old, new))
                continue
            if old is not None:
                found.gone.append(old)
            if new is not None:
                found.new.append(new)
        return found

    def renew(self, carried: Mapping[str, Edge], changes: Changes) -> None:
        """Delete and create again the edges that a client removes together with a deleted node."""
        kept = [edge for key, edge in carried.items() if key not in changes.edges]
        again = [pair for pair in self.changed if pair[0].key in carried]
        self.changed = [pair for pair in self.changed if pair[0].key not in carried]
        self.gone += [*kept, *(old for old, _ in again)]
        self.new += [*kept, *(new for _, new in again)]


def _entries(kind: str, name: str, documents: list[Any]) -> list[Message]:
    return [{"type": kind, name: [json_document(document) for document in documents]}] if documents else []


def _by_sheet(documents: Iterable[E]) -> dict[str, list[E]]:
    found: dict[str, list[E]] = {}
    for document in documents:
        found.setdefault(document.sheet, []).append(document)
    return found


def _deletions(nodes: list[Node], edges: list[Edge]) -> list[Broadcast]:
    nodes_on, edges_on = _by_sheet(nodes), _by_sheet(edges)
    return [
        (
            {
                "type": "batchDeleteElements",
                "sheetId": sheet,
                "nodeKeys": [node.key for node in nodes_on.get(sheet, ())],
                "edgeKeys": [edge.key for edge in edges_on.get(sheet, ())],
            },
            frozenset((sheet,)),
        )
        for sheet in sorted(nodes_on.keys() | edges_on.keys())
    ]


def _creations(nodes: list[Node], edges: list[Edge], known_sheets: Mapping[str, str]) -> list[Broadcast]:
    """Nobody is on a sheet that is made here: what is on it goes to all."""
    nodes_on, edges_on = _by_sheet(nodes), _by_sheet(edges)
    return [
        (
            {
                "type": "batchCreateElements",
                "sheetId": sheet,
                "nodes": [json_document(node) for node in nodes_on.get(sheet, ())],
                "edges": [json_document(edge) for edge in edges_on.get(sheet, ())],
            },
            frozenset((sheet,)) if sheet in known_sheets else None,
        )
        for sheet in sorted(nodes_on.keys() | edges_on.keys())
    ]


def _steps(kind: str, old: Node | Edge, new: Node | Edge) -> list[tuple[Message, Message]]:
    """Return for each field that changed the instruction to send and the entry to keep."""
    before, after = json_document(old), json_document(new)
    place = {"sheetId": new.sheet, f"{kind}Id": new.key}
    steps: list[tuple[Message, Message]] = []
    for name in sorted(before.keys() | after.keys()):
        if name in before and name in after and orjson.dumps(before[name]) == orjson.dumps(after[name]):
            continue
        asked = _put(name, after)
        entry = update_entry(new, after, asked, [_put(name, before)])
        steps.append(({"i": asked.to_document(), **place}, entry))
    return steps


def _put(name: str, document: Mapping[str, Any]) -> Instruction:
    if name not in document:
        return Instruction(o=Op.REM, p=(name,))
    return Instruction(o=Op.SET, p=(name,), v=document[name])
