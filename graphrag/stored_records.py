"""Reads records of the store, whatever else cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from datasources.base import Record
from datasources.errors import BadDocument

log = logging.getLogger(__name__)

T = TypeVar("T")


def readable(records: Iterable[Record], read: Callable[[Record], T], *also: type[Exception]) -> list[T]:
    """Return what `read` makes of each record; without those for which it raises BadDocument, or `also`."""
    found: list[T] = []
    for record in records:
        try:
            found.append(read(record))
        except (BadDocument, *also) as exc:
            fault = exc.field if isinstance(exc, BadDocument) else type(exc).__name__
            log.warning("record_unreadable", extra={"kind": record.kind, "key": record.key, "error": fault})
    return found


def check_version(record: Record, newest: int) -> None:
    """Raise BadDocument for a record of a newer program."""
    found = record.data.get("schemaVersion", 0)
    if isinstance(found, int) and found > newest:
        reason = f"{found} is of a newer program"
        raise BadDocument(collection=record.kind, key=record.key, field="schemaVersion", reason=reason)
