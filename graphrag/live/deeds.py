"""Deeds: what editors did to a live graph, one request each, as history keeps them. Reads; changes nothing.

A record of history holds what one save stored. The entries of one request share their time, which
no other request of the graph has: that is the deed's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from datasources.base import RecordStore
from graphrag.live.history import KIND, Entry

SEARCHED = 200
"""Records of history that are looked through: what is older is taken back from an export."""

TAKES_BACK = "takesBack"
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

    def steps(self) -> list[dict[str, Any]]:
        """Return what was done, without the documents: each step's type, its keys, the field or name."""
        return [_step(entry) for entry in self.entries]


async def deeds_of(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], *, limit: int
) -> list[Deed]:
    """Return the latest deeds of a graph, newest first. Raises: SourceError."""
    found = {deed.id: deed for deed in _grouped(unsaved, is_saved=False)}
    where = {"graphKey": graph_key}
    wanted = min(SEARCHED, limit)  # a record holds at least one deed
    for record in await records.query(KIND, where, order_by="timestamp", descending=True, limit=wanted):
        found |= {deed.id: deed for deed in _grouped(record.data["history"], is_saved=True)}
    newest = sorted(found.values(), key=lambda deed: deed.at, reverse=True)[:limit]
    by = {deed.takes_back: deed.id for deed in reversed(newest) if deed.takes_back is not None}
    return [replace(deed, taken_back_by=by.get(deed.id)) for deed in newest]


async def find_deed(
    records: RecordStore, graph_key: str, unsaved: Sequence[Entry], deed_id: str
) -> Deed | None:
    """Return a deed by its id, or nothing. Raises: SourceError."""
    for deed in _grouped(unsaved, is_saved=False):
        if deed.id == deed_id:
            return deed
    where = {"graphKey": graph_key}
    for record in await records.query(KIND, where, order_by="timestamp", descending=True, limit=SEARCHED):
        for deed in _grouped(record.data["history"], is_saved=True):
            if deed.id == deed_id:
                return deed
    return None


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
