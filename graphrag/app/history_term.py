"""Removes what undoes old changes: history has a term in days, and a size for each workspace.

What was changed, by whom and why stays, with the audit log. A change whose part was removed cannot
be undone, and the graph of an earlier time is not known.
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
    """Approvals whose parts were `moved` out of their record, and parts that were `removed`."""

    moved: int = 0
    removed: int = 0


async def compact_history(
    records: RecordStore, *, now: int, days: int, max_mb: int, move: bool = False
) -> Compacted:
    """Removes what is older than `days`, then the oldest parts beyond `max_mb`.

    With `move`, approvals of older programs, which hold their parts inside, are stored as
    new ones are.
    Units: `now` in milliseconds since 1970, `max_mb` in megabytes of the compressed parts.
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
    """Stores the parts of an approval apart that has them inside; False where it has none."""
    result: dict[str, Any] = record.data.get("result") or {}
    if "mutation" not in result or record.data.get("apart"):
        return False
    for approval in readable([record], from_record):
        approval, parts = await asyncio.to_thread(stored_parts.apart, approval)
        try:
            await records.write([stored_parts.head_write(approval), *parts])
        except RecordConflict:  # somebody undoes or discusses it now
            return False
        return True
    return False


async def _remove(records: RecordStore, kind: stored_parts.Apart, oldest: int) -> int:
    """Deletes the parts that were stored at a time or before it; returns how many."""
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
    """Removes what undoes changes beyond its term, of every workspace; returns what was
    done in each.

    A file keeps its size, and uses the room again. Raises: InvalidDatabaseUrl and what opening
    the database raises.
    """
    done: dict[str, dict[str, int]] = {}
    async with open_database(settings.db, settings.workspace) as database:
        for name in await database.workspaces(KIND):
            found = await compact_history(
                database.records(name),
                now=now_ms(),
                days=days or settings.undo_days,
                max_mb=max_mb or settings.undo_mb,
                move=True,
            )
            done[name] = asdict(found)
    return done
