"""Stores and reads the history of live edits: what each accepted request of an editor did.

A record of history holds what one save stored. The entries of one request share their time, which
no other request of the graph has: that is the edit's id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, repeat
from typing import Any

import orjson

from datasources.base import RecordStore, RecordWrite
from datasources.types import Edge, Node
from graphrag.changes.change_set import invert
from graphrag.changes.draft import GraphDraft
from graphrag.live.broadcast import described
from graphrag.live.edits import Edit, check_document
from graphrag.live.errors import EditRefused
from graphrag.live.history_entries import Entry, document_edits
from tools.write_tools.field_changes import json_document

KIND = "history"
TOTAL = "totalBytes"
SEARCHED = 200
"""Records of history in which a person's next undo is looked for."""
PAGE = 32
"""Records that are read at once: one may be large."""
MAX_ID_CHARS = 16
SLACK_BYTES = 2
"""Of an entry, by which the bytes counted when it was made and those of its record may differ."""

MAX_SHOWN = 5
TAKES_BACK = "takesBack"
UNDO, REDO = "undo", "redo"
_KEYS = ("nodes", "edges")


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
    by: str | None = None
    """UNDO or REDO, where it was made by one."""

    def steps(self) -> list[dict[str, Any]]:
        """Return what was done, without the documents: each step's type, its keys, the
        field or name.
        """
        return [_step(entry) for entry in self.entries]


def history_write(
    graph_key: str, entries: Sequence[Entry], *, total_bytes: int
) -> list[RecordWrite]:
    """Return the record of what was done since the last save; none for nothing.

    `total_bytes` is how much history the graph has had so far: the difference between two records
    is how much is stored between them.
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
    """Undo an edit, all of it or nothing. `by` is UNDO or REDO, or None where it was named.

    Raises: EditRefused where a later change rests on it.
    """
    trial = GraphDraft(draft)
    conflicts = invert(document_edits(draft.graph.key, past.entries), trial)
    if conflicts:
        shown = "; ".join(conflicts[:MAX_SHOWN])
        raise EditRefused(where="history", reason=f"it was changed since: {shown}")
    changes = trial.changes()
    for model, documents in ((Node, changes.nodes), (Edge, changes.edges)):
        for key, document in documents.items():
            if document is not None:
                check_document(model, json_document(document), f"history.{key}")
    edit = described(draft, changes)
    draft.add(changes)
    marks = {TAKES_BACK: past.id} if by is None else {TAKES_BACK: past.id, "by": by}
    return replace(edit, history=tuple({**entry, **marks} for entry in edit.history))


async def find_edit(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], edit_id: str
) -> PastEdit | None:
    """Return an edit by its id, or nothing. Raises: SourceError."""
    if not (edit_id.isascii() and edit_id.isdigit() and len(edit_id) < MAX_ID_CHARS):
        return None
    stored = await records.query(
        KIND, {"graphKey": graph_key}, order_by="timestamp", at_least=int(edit_id), limit=1
    )
    saved = [entry for record in stored for entry in record.data["history"]]
    found = [*_grouped(saved, is_saved=True), *_grouped(unsaved, is_saved=False)]
    return next((edit for edit in found if edit.id == edit_id), None)


async def next_to_undo(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], user_id: str, *, redo: bool
) -> PastEdit | None:
    """Return the edit that a person's undo undoes next, or with `redo` the undo that is undone.

    An edit counts unless a later edit that counts undoes it. An undo undoes the person's latest
    edit that counts and is no undo; a redo their latest undo that counts, while they made no other
    edit after it.
    Raises: SourceError.
    """
    taken: set[str] = set()
    async for edit in edits_newest_first(records, graph_key, unsaved, most=SEARCHED):
        counts = edit.id not in taken
        is_own = edit.user_id == user_id
        if counts and edit.undoes is not None:
            taken.add(edit.undoes)
        if not is_own:
            continue
        if redo and edit.by is None:
            return None
        if counts and (edit.by == UNDO if redo else edit.by != UNDO):
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
    """Yield the edits of a graph, of at most so many records; reads only as much as is asked for.

    `on_end` gets at the end whether older ones were deleted. Raises: SourceError.
    """
    seen: set[str] = set()  # a save meanwhile stores what was unsaved
    for edit in reversed(_grouped(unsaved, is_saved=False)):
        seen.add(edit.id)
        yield edit
    end: int | None = None
    read, last = 0, None
    for limit in chain((1, 8), repeat(PAGE)):
        found = await records.query(
            KIND,
            {"graphKey": graph_key},
            order_by="timestamp",
            at_most=end,
            descending=True,
            limit=limit,
        )
        for record in found:
            await asyncio.sleep(0)  # a record may hold thousands of edits
            for edit in reversed(_grouped(record.data["history"], is_saved=True)):
                if edit.id not in seen:
                    yield edit
        last = found[-1] if found else last
        read += len(found)
        if len(found) < limit or (most is not None and read >= most):
            break
        end = int(found[-1].data["timestamp"]) - 1
    if (
        on_end is not None
    ):  # more was taken in until the oldest than it holds: there were others before it
        history = last.data["history"] if last else ()
        held = len(orjson.dumps(history)) + SLACK_BYTES * len(history)
        on_end(last is not None and int(last.data.get(TOTAL, 0)) > held)


def _grouped(entries: Iterable[Entry], *, is_saved: bool) -> list[PastEdit]:
    found: list[PastEdit] = []
    for at, group in groupby(entries, key=lambda entry: int(entry["timestamp"])):
        own = tuple(group)
        back = own[0].get(TAKES_BACK)
        found.append(
            PastEdit(
                id=str(at),
                at=at,
                user_id=str(own[0].get("userId", "")),
                is_saved=is_saved,
                entries=own,
                undoes=None if back is None else str(back),
                by=own[0].get("by"),
            )
        )
    return found


def _step(entry: Entry) -> dict[str, Any]:
    step: dict[str, Any] = {"type": str(entry.get("type")), "keys": keys_of(entry)}
    instruction: Mapping[str, Any] = entry.get("instruction") or {}
    if instruction:
        step["field"] = ".".join(str(part) for part in instruction.get("p") or ())
    if isinstance(entry.get("name"), str):
        step["name"] = entry["name"]
    return step


def keys_of(entry: Entry) -> list[str]:
    for name in _KEYS:
        if name in entry:
            return [str(document.get("_key")) for document in entry[name]]
    return [str(entry[name]) for name in ("nodeId", "edgeId", "key") if entry.get(name) is not None]
