"""Entries of the history: the edits of a graph, in the form of `nodius_graphs_history`.

For a large new value the entry stores a digest, because the graph has the value itself. So a series
of large edits at one path stores each value once, as the previous value of the next edit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from datasources.errors import BadDocument, InstructionError
from datasources.instructions import IDENTITY_FIELDS, Instruction, apply_instruction
from datasources.types import Edge, Node, parse_document
from graphrag.changes.change_set import DocumentEdit
from graphrag.changes.field_diff import MISSING, FieldChange
from graphrag.live.errors import EditRefused
from tools.actions.field_changes import value_at

Entry = Mapping[str, Any]
# Size of JSON above which a new value is replaced by its digest.
LARGE_BYTES = 8_000
_OPERATIONS = {"node": ("Create", "Delete", "Update"), "edge": ("Create", "Delete", "Update")} | {
    "sheet": ("Create", "Rename", "Delete")
}
# Types of entries, with the kind of element and the operation.
KINDS: Mapping[str, tuple[Any, str]] = {
    f"{kind}{operation}": (kind, operation)
    for kind in _OPERATIONS
    for operation in _OPERATIONS[kind]
}
_MODELS: Mapping[str, type[Node | Edge]] = {"node": Node, "edge": Edge}


def update_entry(
    target: Node | Edge,
    after: dict[str, Any],
    applied: Instruction,
    undoing: Sequence[Instruction],
) -> dict[str, Any]:
    """Returns the entry of an instruction that changed `target` to the document `after`.

    `undoing` are the instructions that undo it.
    """
    kind = "node" if isinstance(target, Node) else "edge"
    instruction = applied.to_document()
    if "v" in instruction and len(orjson.dumps(instruction["v"])) > LARGE_BYTES:
        del instruction["v"]
        instruction["digest"] = _digest(value_at(after, applied.p))
    return {
        "type": f"{kind}Update",
        "sheetId": target.sheet,
        f"{kind}Id": target.key,
        "instruction": instruction,
        "reversedInstruction": [inverse.to_document() for inverse in undoing],
    }


def document_edits(graph_key: str, entries: Sequence[Entry]) -> list[DocumentEdit]:
    """Converts entries to document edits. Raises EditRefused for an unreadable entry."""
    edits: list[DocumentEdit] = []
    for number, entry in enumerate(entries):
        try:
            edits += _edits_of(graph_key, entry)
        except (KeyError, TypeError, BadDocument) as exc:
            raise EditRefused(
                where=f"history.{number}", reason=f"the entry is damaged: {exc}"
            ) from exc
    return edits


def _edits_of(graph_key: str, entry: Entry) -> Iterator[DocumentEdit]:
    kind = str(entry.get("type"))
    if kind not in KINDS:
        raise TypeError(f"it is of type {kind!r}")
    element, operation = KINDS[kind]
    if element == "sheet":
        before = (
            MISSING
            if operation == "Create"
            else entry["previousName" if operation == "Rename" else "name"]
        )
        name = MISSING if operation == "Delete" else entry["name"]
        change = FieldChange(path=("sheetsList", str(entry["key"])), before=before, after=name)
        yield DocumentEdit(kind="graph", key=graph_key, fields=(change,))
    elif operation == "Update":
        yield DocumentEdit(
            kind=element, key=str(entry[f"{element}Id"]), fields=(InstructionEdit(entry),)
        )
    else:
        for raw in entry[f"{element}s"]:
            document = parse_document(_MODELS[element], raw, "history")
            before, after = (None, document) if operation == "Create" else (document, None)
            yield DocumentEdit(kind=element, key=document.key, before=before, after=after)


@dataclass(frozen=True, slots=True)
class InstructionEdit:
    """Implements FieldEdit by an instruction and the instructions that undo it."""

    entry: Entry

    @property
    def name(self) -> str:
        return ".".join(str(part) for part in self.entry["instruction"]["p"])

    def undone(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the document before the edit, None if the place was changed since."""
        applied = self.entry["instruction"]
        undone = dict(document)
        try:
            for instruction in self.entry["reversedInstruction"]:
                undone = apply_instruction(undone, instruction, protected=IDENTITY_FIELDS)
            # Applied again, the instruction must give the present document. Otherwise undoing it
            # would also undo a later change.
            if "digest" in applied:
                is_unchanged = _digest(value_at(document, applied["p"])) == applied["digest"]
            else:
                again = apply_instruction(undone, applied, protected=IDENTITY_FIELDS)
                is_unchanged = _digest(again) == _digest(document)
        except InstructionError:
            return None
        return undone if is_unchanged else None


def _digest(value: Any) -> str:
    """Returns the SHA-256 of a JSON value, independent of the order of its keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
