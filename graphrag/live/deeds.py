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
from graphrag.live.history import KIND, Entry

SEARCHED = 200
"""Records of history that are looked through: what is older is taken back from an export."""

TAKES_BACK = "takesBack"
UNDO, REDO = "undo", "redo"
_KEYS = ("nodes", "edges")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
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


async def deeds_of(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], *, limit: int
) -> list[Deed]:
    """Return the latest deeds of a graph, newest first. Raises: SourceError."""
    newest: list[Deed] = []
    async for deed in _newest_first(records, graph_key, unsaved):
        newest.append(deed)
        if len(newest) == limit:
            break
    by = {deed.takes_back: deed.id for deed in reversed(newest) if deed.takes_back is not None}
    return [replace(deed, taken_back_by=by.get(deed.id)) for deed in newest]


async def find_deed(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], deed_id: str
) -> Deed | None:
    """Return a deed by its id, or nothing. Raises: SourceError."""
    async for deed in _newest_first(records, graph_key, unsaved):
        if deed.id == deed_id:
            return deed
    return None


async def next_to_take_back(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], user_id: str, *, redo: bool
) -> Deed | None:
    """Return the deed that a person's undo takes back next, or with `redo` the undo that a redo does.

    A deed counts unless a later deed that counts takes it back. An undo takes back the latest own one
    that counts and is no undo; a redo the latest own undo that counts, while no other edit of the
    person came after it. Raises: SourceError.
    """
    taken: set[str] = set()
    async for deed in _newest_first(records, graph_key, unsaved):
        counts, is_own = deed.id not in taken, deed.user_id == user_id
        if counts and deed.takes_back is not None:
            taken.add(deed.takes_back)
        if not is_own:
            continue
        if redo and deed.by is None:
            return None
        if counts and (deed.by == UNDO if redo else deed.by != UNDO):
            return deed
    return None


async def _newest_first(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry]
) -> AsyncIterator[Deed]:
    """Read only as much as is asked for: a record may be large."""
    seen: set[str] = set()  # a save meanwhile stores what was unsaved
    for deed in reversed(_grouped(unsaved, is_saved=False)):
        seen.add(deed.id)
        yield deed
    read = 0
    for limit in (1, 8, SEARCHED):
        where = {"graphKey": graph_key}
        found = await records.query(KIND, where, order_by="timestamp", descending=True, limit=limit)
        for record in found[read:]:
            for deed in reversed(_grouped(record.data["history"], is_saved=True)):
                if deed.id not in seen:
                    seen.add(deed.id)
                    yield deed
        if len(found) < limit:
            return
        read = limit


def _grouped(entries: Iterable[Entry], *, is_saved: bool) -> list[Deed]:
    found: list[Deed] = []
    for at, group in groupby(entries, key=lambda entry: int(entry["timestamp"])):
        own = tuple(group)
        back = own[0].get(TAKES_BACK)
        found.append(
            Deed(
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
