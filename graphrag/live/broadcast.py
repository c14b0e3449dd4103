"""Describes changes that no editor requested, as messages to editors and as entries of the history.

Such changes are approvals, undos, and writes of other programs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import orjson

from datasources.instructions import Instruction, Op
from datasources.types import Edge, Node
from graphrag.changes.draft import Changes, Readable
from graphrag.live.edits import Edit, Message, Sheets, created, deleted, entries, of_sheet
from graphrag.live.history_entries import update_entry
from graphrag.live.instruction_batch import in_messages
from tools.actions.field_changes import json_document

E = TypeVar("E", Node, Edge)


def edit_of_changes(before: Readable, changes: Changes) -> Edit:
    """Returns the messages and the history entries of changes that are not applied yet.

    A new name of the graph has no history entry, only one in the audit log: editors cannot rename a
    graph.
    """
    graph = changes.graph or before.graph
    old_sheets = before.graph.sheets_list
    new_sheets = graph.sheets_list
    sheet_edits = [
        of_sheet("Create", key, name)
        if key not in old_sheets
        else of_sheet("Rename", key, name, previousName=old_sheets[key])
        for key, name in new_sheets.items()
        if old_sheets.get(key) != name
    ]
    messages: list[tuple[Message, Sheets]] = [(message, None) for message, _ in sheet_edits]
    history = [entry for _, entry in sheet_edits]
    if graph.name != before.graph.name:
        messages.append(({"type": "renameGraph", "name": graph.name}, None))
    nodes = _Sorted({key: (before.node(key), node) for key, node in changes.nodes.items()})
    edges = _Sorted({key: (before.edge(key), edge) for key, edge in changes.edges.items()})
    edges.renew(
        {edge.key: edge for node in nodes.gone for edge in before.edges_of(node.key)}, changes
    )
    for sheet, (sheet_nodes, sheet_edges) in _by_sheet(nodes.gone, edges.gone):
        messages.append((deleted(sheet, sheet_nodes, sheet_edges), frozenset((sheet,))))
    for sheet, (sheet_nodes, sheet_edges) in _by_sheet(nodes.new, edges.new):
        # No editor has opened a new sheet yet, so its elements are sent to all editors.
        to = frozenset((sheet,)) if sheet in old_sheets else None
        messages.append((created(sheet, sheet_nodes, sheet_edges), to))
    history += entries("Delete", nodes.gone, edges.gone) + entries("Create", nodes.new, edges.new)
    for kind, pairs in (("node", nodes.changed), ("edge", edges.changed)):
        steps = [step for old, new in pairs for step in _steps(kind, old, new)]
        for sheet in sorted({instruction["sheetId"] for instruction, _ in steps}):
            messages += in_messages([i for i, _ in steps if i["sheetId"] == sheet])
        history += [entry for _, entry in steps]
    for message, entry in [
        of_sheet("Delete", k, n) for k, n in old_sheets.items() if k not in new_sheets
    ]:
        messages.append((message, None))
        history.append(entry)
    return Edit(message={}, sheets=None, history=tuple(history), others=tuple(messages))


class _Sorted(Generic[E]):
    """Deleted, new and changed documents. One that moved to another sheet counts as deleted and
    new.
    """

    def __init__(self, pairs: Mapping[str, tuple[E | None, E | None]]) -> None:
        self.changed = [
            (old, new)
            for old, new in pairs.values()
            if old is not None and new is not None and old.sheet == new.sheet
        ]
        stays = {new.key for _, new in self.changed}
        self.gone = [old for key, (old, _) in pairs.items() if old is not None and key not in stays]
        self.new = [new for key, (_, new) in pairs.items() if new is not None and key not in stays]

    def renew(self, carried: Mapping[str, E], changes: Changes) -> None:
        """Deletes and creates again the edges that a client removes together with a deleted
        node.
        """
        kept = [edge for key, edge in carried.items() if key not in changes.edges]
        again = [pair for pair in self.changed if pair[0].key in carried]
        self.changed = [pair for pair in self.changed if pair[0].key not in carried]
        self.gone += [*kept, *(old for old, _ in again)]
        self.new += [*kept, *(new for _, new in again)]


def _by_sheet(
    nodes: list[Node], edges: list[Edge]
) -> list[tuple[str, tuple[list[Node], list[Edge]]]]:
    sheets = defaultdict[str, tuple[list[Node], list[Edge]]](lambda: ([], []))
    for node in nodes:
        sheets[node.sheet][0].append(node)
    for edge in edges:
        sheets[edge.sheet][1].append(edge)
    return sorted(sheets.items(), key=lambda item: item[0])


def _steps(kind: str, old: Node | Edge, new: Node | Edge) -> list[tuple[Message, Message]]:
    """Returns the instruction to send and the history entry of each changed field."""
    before = json_document(old)
    after = json_document(new)
    place = {"sheetId": new.sheet, f"{kind}Id": new.key}
    steps: list[tuple[Message, Message]] = []
    for name in sorted(before.keys() | after.keys()):
        if (
            name in before
            and name in after
            and orjson.dumps(before[name]) == orjson.dumps(after[name])
        ):
            continue
        instruction = _put(name, after)
        entry = update_entry(new, after, instruction, [_put(name, before)])
        steps.append(({"i": instruction.to_document(), **place}, entry))
    return steps


def _put(name: str, document: Mapping[str, Any]) -> Instruction:
    if name not in document:
        return Instruction(o=Op.REM, p=(name,))
    return Instruction(o=Op.SET, p=(name,), v=document[name])
