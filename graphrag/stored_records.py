"""Reads records of the store, whatever else cannot be read, and writes them over what was read."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from datasources.base import Record, RecordStore
from datasources.errors import BadDocument, RecordConflict

log = logging.getLogger(__name__)

T = TypeVar("T")
_TRIES: Final = 8
_PAGE: Final = 50  # records read at once


def readable(
    records: Iterable[Record], read: Callable[[Record], T], *also: type[Exception]
) -> list[T]:
    """Return what `read` makes of each record; without those for which it raises
    BadDocument, or `also`.
    """
    found: list[T] = []
    for record in records:
        try:
            found.append(read(record))
        except (BadDocument, *also) as exc:
            fault = exc.field if isinstance(exc, BadDocument) else type(exc).__name__
            log.warning(
                "record_unreadable", extra={"kind": record.kind, "key": record.key, "error": fault}
            )
    return found


def given(**fields: str | int | bool | None) -> dict[str, str | int | bool]:
    """Return the fields that have a value: what records are asked for by."""
    return {name: value for name, value in fields.items() if value is not None}


def check_version(record: Record, newest: int) -> None:
    """Raise BadDocument for a record of a newer program."""
    found = record.data.get("schemaVersion", 0)
    if isinstance(found, int) and found > newest:
        reason = f"{found} is of a newer program"
        raise BadDocument(
            collection=record.kind, key=record.key, field="schemaVersion", reason=reason
        )


async def put_over(records: RecordStore, record: Record, version: str | None) -> Record | None:
    """Store a record over the version that was read (None: there was none); None: it
    was changed since.
    """
    try:
        return await records.put(record, expected_version=version)
    except RecordConflict:
        return None


async def change_record(
    records: RecordStore,
    kind: str,
    key: str,
    change: Callable[[Record | None], Mapping[str, Any] | None],
    *,
    tries: int = _TRIES,
) -> Record | None:
    """Store what `change` makes of a record's data, again where it was changed meanwhile.

    `change` is given None where there is no record, and returns None to leave all as it is.
    Returns the record as it is stored then. Raises: what `change` raises, RecordConflict
    after `tries`, SourceError.
    """
    found: Record | None = None
    for _ in range(tries):
        found = await records.get(kind, key)
        data = change(found)
        if data is None:
            return found
        version = found.version if found else None
        stored = await put_over(records, Record(kind=kind, key=key, data=data), version)
        if stored is not None:
            return stored
    raise RecordConflict(kind=kind, key=key, expected=found.version if found else None)


async def newest_first(records: RecordStore, kind: str, time_field: str) -> AsyncGenerator[Record]:
    """Yields all records of a kind, the latest first; of those of one millisecond all are
    in one page.
    """
    last = None
    seen = set[str]()
    size = _PAGE
    while True:
        page = await records.query(
            kind, order_by=time_field, descending=True, at_most=last, limit=size
        )
        new = [record for record in page if record.key not in seen]
        for record in new:
            yield record
        if len(page) < size:
            return
        last = int(page[-1].data[time_field])
        size = _PAGE if new else 2 * size
        seen = {record.key for record in page}


async def delete_record(records: RecordStore, record: Record) -> bool:
    """Delete a record as it was read; False: it was changed since."""
    try:
        await records.delete(record.kind, record.key, expected_version=record.version or "")
    except RecordConflict:
        return False
    return True
