"""Reads history: what editors did to a live graph, one request each, and what an undo takes back next.

A record of history holds what one save stored. The entries of one request share their time, which
no other request of the graph has: that is the deed's id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from datasources.base import RecordStore
from graphrag.live.history_records import KIND, Entry

SEARCHED = 200
"""Records of history that are looked through: what is older is taken back from an export."""

TAKES_BACK = "takesBack"
UNDO, REDO = "undo", "redo"
_KEYS = ("nodes", "edges")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """One accepted request of an editor. Units: `at` in milliseconds since 1970.

    `takes_back` is the deed that it took back; `taken_back_by` the one that took it back.
    """

    id: str
    at: int
    user_id: str
    is_saved: bool
    entries: tuple[Entry, ...]
    takes_back: str | None = None
    taken_back_by: str | None = None
    by: str | None = None
    """UNDO or REDO, where it was made by one."""

    def steps(self) -> list[dict[str, Any]]:
        """Return what was done, without the documents: each step's type, its keys, the field or name."""
        return [_step(entry) for entry in self.entries]


async def change_sets_of(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], *, limit: int
) -> list[ChangeSet]:
    """Return the latest deeds of a graph, newest first. Raises: SourceError."""
    newest: list[ChangeSet] = []
    async for change_set in _newest_first(records, graph_key, unsaved):
        newest.append(change_set)
        if len(newest) == limit:
            break
    by = {
        change_set.takes_back: change_set.id
        for change_set in reversed(newest)
        if change_set.takes_back is not None
    }
    return [replace(change_set, taken_back_by=by.get(change_set.id)) for change_set in newest]


async def find_change_set(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], edit_id: str
) -> ChangeSet | None:
    """Return a deed by its id, or nothing. Raises: SourceError."""
    async for change_set in _newest_first(records, graph_key, unsaved):
        if change_set.id == edit_id:
            return change_set
    return None


async def next_to_undo(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], user_id: str, *, redo: bool
) -> ChangeSet | None:
    """Return the deed that a person's undo takes back next, or with `redo` the undo that a redo does.

    A deed counts unless a later deed that counts takes it back. An undo takes back the latest own one
    that counts and is no undo; a redo the latest own undo that counts, while no other edit of the
    person came after it. Raises: SourceError.
    """
    taken: set[str] = set()
    async for change_set in _newest_first(records, graph_key, unsaved):
        counts, is_own = change_set.id not in taken, change_set.user_id == user_id
        if counts and change_set.takes_back is not None:
            taken.add(change_set.takes_back)
        if not is_own:
            continue
        if redo and change_set.by is None:
            return None
        if counts and (change_set.by == UNDO if redo else change_set.by != UNDO):
            return change_set
    return None


async def _newest_first(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry]
) -> AsyncIterator[ChangeSet]:
    """Read only as much as is asked for: a record may be large."""
    seen: set[str] = set()  # a save meanwhile stores what was unsaved
    for change_set in reversed(_grouped(unsaved, is_saved=False)):
        seen.add(change_set.id)
        yield change_set
    read = 0
    for limit in (1, 8, SEARCHED):
        where = {"graphKey": graph_key}
        found = await records.query(KIND, where, order_by="timestamp", descending=True, limit=limit)
        for record in found[read:]:
            for change_set in reversed(_grouped(record.data["history"], is_saved=True)):
                if change_set.id not in seen:
                    seen.add(change_set.id)
                    yield change_set
        if len(found) < limit:
            return
        read = limit


def _grouped(entries: Iterable[Entry], *, is_saved: bool) -> list[ChangeSet]:
    found: list[ChangeSet] = []
    for at, group in groupby(entries, key=lambda entry: int(entry["timestamp"])):
        own = tuple(group)
        back = own[0].get(TAKES_BACK)
        found.append(
            ChangeSet(
                id=str(at),
                at=at,
                user_id=str(own[0].get("userId", "")),
                is_saved=is_saved,
                entries=own,
                takes_back=None if back is None else str(back),
                by=own[0].get("by"),
            )
        )
    return found


def _step(entry: Entry) -> dict[str, Any]:
    step: dict[str, Any] = {"type": str(entry.get("type")), "keys": _keys(entry)}
    instruction: Mapping[str, Any] = entry.get("instruction") or {}
    if instruction:
        step["field"] = ".".join(str(part) for part in instruction.get("p") or ())
    if isinstance(entry.get("name"), str):
        step["name"] = entry["name"]
    return step


def _keys(entry: Entry) -> list[str]:
    for name in _KEYS:
        if name in entry:
            return [str(document.get("_key")) for document in entry[name]]
    return [str(entry[name]) for name in ("nodeId", "edgeId", "key") if entry.get(name) is not None]
