"""Entries of history: what an editor did to a graph, in the form of `nodius_graphs_history`.

A large new value is not stored: the graph holds it, and the entry its digest. So a series of large
edits of one place is stored once, as the values before each.
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
from tools.write_tools.field_changes import value_at

Entry = Mapping[str, Any]
LARGE_BYTES = 8_000
_DONE = {"node": ("Create", "Delete", "Update"), "edge": ("Create", "Delete", "Update")} | {
    "sheet": ("Create", "Rename", "Delete")
}
KINDS: Mapping[str, tuple[Any, str]] = {
    f"{of}{done}": (of, done) for of in _DONE for done in _DONE[of]
}
"""The types of entries, each with what it is about and what was done."""
_MODELS: Mapping[str, type[Node | Edge]] = {"node": Node, "edge": Edge}


def update_entry(
    target: Node | Edge, after: dict[str, Any], done: Instruction, undoing: Sequence[Instruction]
) -> dict[str, Any]:
    """Return the entry of an instruction that made `target` the document `after`."""
    kind = "node" if isinstance(target, Node) else "edge"
    instruction = done.to_document()
    if "v" in instruction and len(orjson.dumps(instruction["v"])) > LARGE_BYTES:
        del instruction["v"]
        instruction["digest"] = _digest(value_at(after, done.p))
    return {
        "type": f"{kind}Update",
        "sheetId": target.sheet,
        f"{kind}Id": target.key,
        "instruction": instruction,
        "reversedInstruction": [each.to_document() for each in undoing],
    }


def document_edits(graph_key: str, entries: Sequence[Entry]) -> list[DocumentEdit]:
    """Read what entries did. Raises: EditRefused for an entry that cannot be read."""
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
    of, done = KINDS[kind]
    if of == "sheet":
        before = (
            MISSING if done == "Create" else entry["previousName" if done == "Rename" else "name"]
        )
        name = MISSING if done == "Delete" else entry["name"]
        change = FieldChange(path=("sheetsList", str(entry["key"])), before=before, after=name)
        yield DocumentEdit(kind="graph", key=graph_key, fields=(change,))
    elif done == "Update":
        yield DocumentEdit(kind=of, key=str(entry[f"{of}Id"]), fields=(InstructionEdit(entry),))
    else:
        for raw in entry[f"{of}s"]:
            document = parse_document(_MODELS[of], raw, "history")
            before, after = (None, document) if done == "Create" else (document, None)
            yield DocumentEdit(kind=of, key=document.key, before=before, after=after)


@dataclass(frozen=True, slots=True)
class InstructionEdit:
    """An instruction that changed a document, with the instructions that undo it: a FieldEdit."""

    entry: Entry

    @property
    def name(self) -> str:
        return ".".join(str(part) for part in self.entry["instruction"]["p"])

    def undone(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the document as it was before; None where the place was changed since."""
        done = self.entry["instruction"]
        undone = dict(document)
        try:
            for instruction in self.entry["reversedInstruction"]:
                undone = apply_instruction(undone, instruction, protected=IDENTITY_FIELDS)
            # Done once more it must give what is there now; else a later change would be lost.
            if "digest" in done:
                is_there = _digest(value_at(document, done["p"])) == done["digest"]
            else:
                again = apply_instruction(undone, done, protected=IDENTITY_FIELDS)
                is_there = _digest(again) == _digest(document)
        except InstructionError:
            return None
        return undone if is_there else None


def _digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
