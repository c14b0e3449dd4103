"""Describes changes that no editor asked for as messages to editors and as history entries.

Such are approvals, undos, and what other programs store.
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
from tools.write_tools.field_changes import json_document

E = TypeVar("E", Node, Edge)


def described(before: Readable, changes: Changes) -> Edit:
    """Return the messages and the history entries of changes that are not made yet.

    That a graph was renamed stands in the audit log alone: editors do not do it.
    """
    graph = changes.graph or before.graph
    old_sheets = before.graph.sheets_list
    new_sheets = graph.sheets_list
    made = [
        of_sheet("Create", key, name)
        if key not in old_sheets
        else of_sheet("Rename", key, name, previousName=old_sheets[key])
        for key, name in new_sheets.items()
        if old_sheets.get(key) != name
    ]
    messages: list[tuple[Message, Sheets]] = [(message, None) for message, _ in made]
    history = [entry for _, entry in made]
    if graph.name != before.graph.name:
        messages.append(({"type": "renameGraph", "name": graph.name}, None))
    nodes = _Sorted({key: (before.node(key), node) for key, node in changes.nodes.items()})
    edges = _Sorted({key: (before.edge(key), edge) for key, edge in changes.edges.items()})
    edges.renew(
        {edge.key: edge for node in nodes.gone for edge in before.edges_of(node.key)}, changes
    )
    for sheet, (of_nodes, of_edges) in _by_sheet(nodes.gone, edges.gone):
        messages.append((deleted(sheet, of_nodes, of_edges), frozenset((sheet,))))
    for sheet, (of_nodes, of_edges) in _by_sheet(nodes.new, edges.new):
        # Nobody is on a sheet that is made here: what is on it goes to all.
        to = frozenset((sheet,)) if sheet in old_sheets else None
        messages.append((created(sheet, of_nodes, of_edges), to))
    history += entries("Delete", nodes.gone, edges.gone) + entries("Create", nodes.new, edges.new)
    for kind, pairs in (("node", nodes.changed), ("edge", edges.changed)):
        found = [step for old, new in pairs for step in _steps(kind, old, new)]
        for sheet in sorted({asked["sheetId"] for asked, _ in found}):
            messages += in_messages([asked for asked, _ in found if asked["sheetId"] == sheet])
        history += [entry for _, entry in found]
    for message, entry in [
        of_sheet("Delete", k, n) for k, n in old_sheets.items() if k not in new_sheets
    ]:
        messages.append((message, None))
        history.append(entry)
    return Edit(message={}, sheets=None, history=tuple(history), others=tuple(messages))


class _Sorted(Generic[E]):
    """Documents that came, went and changed; one that went to another sheet did both
    of the first.
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
        """Delete and create again the edges that a client removes together with a deleted node."""
        kept = [edge for key, edge in carried.items() if key not in changes.edges]
        again = [pair for pair in self.changed if pair[0].key in carried]
        self.changed = [pair for pair in self.changed if pair[0].key not in carried]
        self.gone += [*kept, *(old for old, _ in again)]
        self.new += [*kept, *(new for _, new in again)]


def _by_sheet(
    nodes: list[Node], edges: list[Edge]
) -> list[tuple[str, tuple[list[Node], list[Edge]]]]:
    found = defaultdict[str, tuple[list[Node], list[Edge]]](lambda: ([], []))
    for node in nodes:
        found[node.sheet][0].append(node)
    for edge in edges:
        found[edge.sheet][1].append(edge)
    return sorted(found.items(), key=lambda one: one[0])


def _steps(kind: str, old: Node | Edge, new: Node | Edge) -> list[tuple[Message, Message]]:
    """Return for each field that changed the instruction to send and the entry to keep."""
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
        asked = _put(name, after)
        entry = update_entry(new, after, asked, [_put(name, before)])
        steps.append(({"i": asked.to_document(), **place}, entry))
    return steps


def _put(name: str, document: Mapping[str, Any]) -> Instruction:
    if name not in document:
        return Instruction(o=Op.REM, p=(name,))
    return Instruction(o=Op.SET, p=(name,), v=document[name])
