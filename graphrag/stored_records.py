"""Reads records, skipping unreadable ones, and writes them only over the version that was read."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from datasources.base import Record, RecordStore
from datasources.errors import BadDocument, RecordConflict

log = logging.getLogger(__name__)

T = TypeVar("T")
_TRIES: Final = 8  # Number of attempts to write while other writes change the record.
_PAGE: Final = 50  # Number of records per query.


def readable(
    records: Iterable[Record], read: Callable[[Record], T], *also: type[Exception]
) -> list[T]:
    """Returns the results of `read` for all records. Skips records for which it raises BadDocument
    or one of `also`.
    """
    results: list[T] = []
    for record in records:
        try:
            results.append(read(record))
        except (BadDocument, *also) as exc:
            fault = exc.field if isinstance(exc, BadDocument) else type(exc).__name__
            log.warning(
                "record_unreadable", extra={"kind": record.kind, "key": record.key, "error": fault}
            )
    return results


def given(**fields: str | int | bool | None) -> dict[str, str | int | bool]:
    """Returns the fields that have a value, as the filter of a query."""
    return {name: value for name, value in fields.items() if value is not None}


def check_version(record: Record, newest: int) -> None:
    """Raises: BadDocument for a record that a newer version of the program stored."""
    version = record.data.get("schemaVersion", 0)
    if isinstance(version, int) and version > newest:
        reason = f"{version} is of a newer program"
        raise BadDocument(
            collection=record.kind, key=record.key, field="schemaVersion", reason=reason
        )


async def put_over(records: RecordStore, record: Record, version: str | None) -> Record | None:
    """Stores a record over the version that was read; None if there was no record. Returns None if
    the record was changed since.
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
    """Stores the data that `change` returns for a record. Tries again if the record was changed
    concurrently.

    `change` is called with None if there is no record. It returns None to leave the record
    unchanged. Returns the stored record. Raises: the errors of `change`, RecordConflict after
    `tries`, SourceError.
    """
    current: Record | None = None
    for _ in range(tries):
        current = await records.get(kind, key)
        data = change(current)
        if data is None:
            return current
        version = current.version if current else None
        stored = await put_over(records, Record(kind=kind, key=key, data=data), version)
        if stored is not None:
            return stored
    raise RecordConflict(kind=kind, key=key, expected=current.version if current else None)


async def newest_first(records: RecordStore, kind: str, time_field: str) -> AsyncGenerator[Record]:
    """Yields all records of a kind, the latest first.

    `time_field` must contain integers; several records may have the same time.
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
    """Deletes the version of a record that was read. Returns False if it was changed since."""
    try:
        await records.delete(record.kind, record.key, expected_version=record.version or "")
    except RecordConflict:
        return False
    return True
