"""Stores and reads the history of live edits: the effect of each accepted request of an editor.

A history record holds the entries of one save. The entries of one request have the same time, which
no other request of the graph has; it is the id of the edit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, repeat
from typing import Any, Final

import orjson

from datasources.base import RecordStore, RecordWrite
from datasources.types import Edge, Node
from graphrag.changes.change_set import invert
from graphrag.changes.draft import GraphDraft
from graphrag.live.broadcast import edit_of_changes
from graphrag.live.edits import Edit, check_document
from graphrag.live.errors import EditRefused
from graphrag.live.history_entries import Entry, document_edits
from tools.actions.field_changes import json_document

KIND = "history"
TOTAL = "totalBytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimits:
    """Limits of undoing and redoing edits."""

    # Records in which the next undo of a person is searched.
    searched: int = 200
    # Records read at once: one may be large.
    page: int = 32
    id_chars: int = 16
    # Difference between the counted and the stored size of an entry.
    slack_bytes: int = 2
    # Characters of a value that a step shows.
    value_chars: int = 60
    # Conflicts named in an answer.
    shown: int = 5


HISTORY_LIMITS: Final = HistoryLimits()


# The field with the id of the undone edit.
TAKES_BACK = "takesBack"
UNDO, REDO = "undo", "redo"
_KEYS = ("nodes", "edges")
_PLACES = ("posX", "posY", "size")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastEdit:
    """One accepted request of an editor. Units: `at` in milliseconds since 1970.

    `undoes` is the id of the edit that it undid.
    """

    id: str
    at: int
    user_id: str
    is_saved: bool
    entries: tuple[Entry, ...]
    undoes: str | None = None
    # UNDO or REDO for the edit of an undo or redo, otherwise None.
    by: str | None = None

    def steps(self) -> list[dict[str, Any]]:
        """Returns the type, the keys, and the field or name of each step, without the documents;
        of short plain values also `from` and `to`.
        """
        return [_step(entry) for entry in self.entries]


def history_write(
    graph_key: str, entries: Sequence[Entry], *, total_bytes: int
) -> list[RecordWrite]:
    """Returns the record of the edits since the last save, as a list that is empty without edits.

    `total_bytes` is the size of the whole history so far: the difference between two records is the
    size of those between them.
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
    key = f"{graph_key}/{timestamp:015}"
    return [RecordWrite(kind=KIND, key=key, data=data, expected_version=None)]


def undo(draft: GraphDraft, past: PastEdit, *, by: str | None = None) -> Edit:
    """Undoes an edit completely or not at all. `by` is UNDO or REDO, None for an edit chosen by its
    id.

    Raises: EditRefused if later changes depend on the edit.
    """
    trial = GraphDraft(draft)
    conflicts = invert(document_edits(draft.graph.key, past.entries), trial)
    if conflicts:
        shown = "; ".join(conflicts[: HISTORY_LIMITS.shown])
        raise EditRefused(where="history", reason=f"it was changed since: {shown}")
    changes = trial.changes()
    for model, documents in ((Node, changes.nodes), (Edge, changes.edges)):
        for key, document in documents.items():
            if document is not None:
                check_document(model, json_document(document), f"history.{key}")
    edit = edit_of_changes(draft, changes)
    draft.add(changes)
    marks = {TAKES_BACK: past.id} if by is None else {TAKES_BACK: past.id, "by": by}
    return replace(edit, history=tuple({**entry, **marks} for entry in edit.history))


async def find_edit(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], edit_id: str
) -> PastEdit | None:
    """Returns the edit with an id, None if there is none. Raises: SourceError."""
    if not (edit_id.isascii() and edit_id.isdigit() and len(edit_id) < HISTORY_LIMITS.id_chars):
        return None
    stored = await records.query(
        KIND, {"graphKey": graph_key}, order_by="timestamp", at_least=int(edit_id), limit=1
    )
    saved = [entry for record in stored for entry in record.data["history"]]
    edits = [*_grouped(saved, is_saved=True), *_grouped(unsaved, is_saved=False)]
    return next((edit for edit in edits if edit.id == edit_id), None)


async def next_to_undo(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], user_id: str, *, redo: bool
) -> PastEdit | None:
    """Returns the edit that a person's next undo undoes or, with `redo`, the undo to be undone.

    An edit is effective unless a later effective edit undoes it. An undo applies to the person's
    latest effective edit that is no undo; a redo to their latest effective undo, if they made no
    other edit after it.
    Raises: SourceError.
    """
    undone: set[str] = set()
    async for edit in edits_newest_first(records, graph_key, unsaved, most=HISTORY_LIMITS.searched):
        is_effective = edit.id not in undone
        is_own = edit.user_id == user_id
        if is_effective and edit.undoes is not None:
            undone.add(edit.undoes)
        if not is_own:
            continue
        if redo and edit.by is None:
            return None
        if is_effective and (edit.by == UNDO if redo else edit.by != UNDO):
            return edit
    return None


async def edits_newest_first(
    records: RecordStore,
    graph_key: str,
    unsaved: Sequence[Entry],
    *,
    most: int | None = None,
    on_end: Callable[[bool], None] | None = None,
) -> AsyncGenerator[PastEdit]:
    """Yields the edits of a graph from at most `most` records, which are read as the iteration
    needs them.

    Calls `on_end` at the end with True if older edits were deleted. Raises: SourceError.
    """
    seen: set[str] = set()  # unsaved edits may be saved during the iteration
    for edit in reversed(_grouped(unsaved, is_saved=False)):
        seen.add(edit.id)
        yield edit
    end: int | None = None
    read, last = 0, None
    for limit in chain((1, 8), repeat(HISTORY_LIMITS.page)):
        page = await records.query(
            KIND,
            {"graphKey": graph_key},
            order_by="timestamp",
            at_most=end,
            descending=True,
            limit=limit,
        )
        for record in page:
            await asyncio.sleep(0)  # a record may hold thousands of edits
            for edit in reversed(_grouped(record.data["history"], is_saved=True)):
                if edit.id not in seen:
                    yield edit
        last = page[-1] if page else last
        read += len(page)
        if len(page) < limit or (most is not None and read >= most):
            break
        end = int(page[-1].data["timestamp"]) - 1
    if on_end is not None:
        # If the total at the oldest record exceeds its own size, earlier records were deleted.
        history = last.data["history"] if last else ()
        size = len(orjson.dumps(history)) + HISTORY_LIMITS.slack_bytes * len(history)
        on_end(last is not None and int(last.data.get(TOTAL, 0)) > size)


def _grouped(entries: Iterable[Entry], *, is_saved: bool) -> list[PastEdit]:
    edits: list[PastEdit] = []
    for at, group in groupby(entries, key=lambda entry: int(entry["timestamp"])):
        edit_entries = tuple(group)
        undoes = edit_entries[0].get(TAKES_BACK)
        edits.append(
            PastEdit(
                id=str(at),
                at=at,
                user_id=str(edit_entries[0].get("userId", "")),
                is_saved=is_saved,
                entries=edit_entries,
                undoes=None if undoes is None else str(undoes),
                by=edit_entries[0].get("by"),
            )
        )
    return edits


def _step(entry: Entry) -> dict[str, Any]:
    step: dict[str, Any] = {"type": str(entry.get("type")), "keys": keys_of(entry)}
    instruction: Mapping[str, Any] = entry.get("instruction") or {}
    if instruction:
        step["field"] = ".".join(str(part) for part in instruction.get("p") or ())
        step |= _values(instruction, entry.get("reversedInstruction") or ())
    if isinstance(entry.get("name"), str):
        step["name"] = entry["name"]
    return step


def _values(instruction: Mapping[str, Any], undoing: Sequence[Any]) -> dict[str, Any]:
    """Returns `from` and `to` of a field that had a short plain value and got another.

    Places and sizes of nodes are left out.
    """
    path = instruction.get("p")
    before: Mapping[str, Any] = undoing[0] if len(undoing) == 1 else {}
    values = (before.get("v"), instruction.get("v"))
    is_place = path and path[0] in _PLACES
    if is_place or before.get("p") != path or not all(map(_is_short, values)):
        return {}
    return {"from": values[0], "to": values[1]}


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= HISTORY_LIMITS.value_chars and "\n" not in value
    return isinstance(value, int | float)


def keys_of(entry: Entry) -> list[str]:
    for name in _KEYS:
        if name in entry:
            return [str(document.get("_key")) for document in entry[name]]
    return [str(entry[name]) for name in ("nodeId", "edgeId", "key") if entry.get(name) is not None]
