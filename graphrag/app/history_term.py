"""Removes the data that undoes old changes. It is limited in days, and in size for each workspace.

Changes themselves, their authors and reasons stay, with the audit log. A change whose undo data was
removed cannot be undone, and earlier states of the graph cannot be shown.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from datasources.base import Record, RecordStore
from datasources.errors import RecordConflict
from graphrag.app.databases import open_database
from graphrag.approvals import stored_parts
from graphrag.approvals.approval import KIND, from_record
from graphrag.config import Settings
from graphrag.leases import now_ms
from graphrag.stored_records import delete_record, newest_first, readable

DAY_MS = 86_400_000
MB = 1_000_000
_AT_ONCE = 50  # parts deleted in one round


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """Number of approvals whose parts were `moved` out of their record, and of `removed` parts."""

    moved: int = 0
    removed: int = 0


async def compact_history(
    records: RecordStore, *, now: int, days: int, max_mb: int, move: bool = False
) -> Compacted:
    """Removes parts older than `days`, then the oldest parts beyond `max_mb`.

    With `move`, approvals of older versions, which contain their parts, are stored in the present
    form. Units: `now` in milliseconds since 1970, `max_mb` in megabytes of the compressed parts.
    Raises: SourceError.
    """
    moved = 0
    kept_bytes = 0
    oldest = now - days * DAY_MS
    async with aclosing(newest_first(records, KIND, "createdTime")) as approvals:
        async for record in approvals:
            if move and await _moved(records, record):
                moved += 1
                record = await records.get(KIND, record.key) or record
            kept_bytes += int(record.data.get("apartBytes", 0))
            if kept_bytes > max_mb * MB:
                oldest = max(oldest, _settled_at(record))
    removed = [await _remove(records, kind, oldest) for kind in stored_parts.PARTS]
    return Compacted(moved=moved, removed=sum(removed))


def _settled_at(record: Record) -> int:
    result: dict[str, Any] = record.data.get("result") or {}
    return int(result.get("at", record.data["createdTime"]))


async def _moved(records: RecordStore, record: Record) -> bool:
    """Moves the parts of an approval out of its record; returns False if it has none inside."""
    result: dict[str, Any] = record.data.get("result") or {}
    if "mutation" not in result or record.data.get("apart"):
        return False
    for approval in readable([record], from_record):
        approval, parts = await asyncio.to_thread(stored_parts.apart, approval)
        try:
            await records.write([stored_parts.head_write(approval), *parts])
        except RecordConflict:  # the approval was changed meanwhile
            return False
        return True
    return False


async def _remove(records: RecordStore, kind: stored_parts.Apart, oldest: int) -> int:
    """Deletes the parts stored at `oldest` or before; returns their number."""
    removed = 0
    while page := await records.query(kind, order_by="time", at_most=oldest, limit=_AT_ONCE):
        deleted = sum([await delete_record(records, record) for record in page])
        removed += deleted
        if not deleted:  # another server deletes them
            return removed
    return removed


async def compact_database(
    settings: Settings, *, days: int | None = None, max_mb: int | None = None
) -> dict[str, dict[str, int]]:
    """Applies the limits to every workspace; returns the counts for each.

    A file keeps its size, but the space is used again. Raises: InvalidDatabaseUrl, the errors of
    opening the database.
    """
    results: dict[str, dict[str, int]] = {}
    async with open_database(settings.db, settings.workspace) as database:
        for name in await database.workspaces(KIND):
            compacted = await compact_history(
                database.records(name),
                now=now_ms(),
                days=days or settings.undo.days,
                max_mb=max_mb or settings.undo.mb,
                move=True,
            )
            results[name] = asdict(compacted)
    return results
