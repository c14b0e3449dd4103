"""Marks by which one can see from outside that some server runs automations."""

from __future__ import annotations

import logging
from typing import Final

from datasources.base import Record, RecordStore
from datasources.errors import SourceError
from graphrag.automations.last_seen import KIND

log = logging.getLogger(__name__)

_PREFIX: Final = "tick/"
_LOOKED_AT: Final = 200


async def mark_tick(records: RecordStore, server: str, now: int) -> None:
    """Store that a server is at work. Raises nothing: it is marked again in a minute."""
    key = f"{_PREFIX}{server}"
    try:
        found = await records.get(KIND, key)
        record = Record(kind=KIND, key=key, data={"seenTime": now})
        await records.put(record, expected_version=found.version if found else None)
    except SourceError as exc:
        log.warning("tick_not_marked", extra={"error": type(exc).__name__})


async def last_tick(records: RecordStore) -> int | None:
    """Return when a server was last at work, None: none ever was. Units: milliseconds since 1970."""
    found = await records.query(KIND, order_by="seenTime", descending=True, limit=_LOOKED_AT)
    times = [record.data.get("seenTime") for record in found if record.key.startswith(_PREFIX)]
    return max((at for at in times if isinstance(at, int)), default=None)
