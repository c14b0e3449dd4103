"""Records in memory, with compare-and-set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson

from datasources.base import Record, RecordWrite
from datasources.errors import BadDocument, RecordConflict
from datasources.record_kinds import indexed_fields

_versions = count(1)
Name = tuple[str, str]


@dataclass(slots=True)
class MemoryRecords:
    """The records of one workspace. Implements RecordStore."""

    stored: dict[Name, Record] = field(default_factory=dict[Name, Record])

    async def get(self, kind: str, key: str) -> Record | None:
        return self.stored.get((kind, key))

    async def put(self, record: Record, *, expected_version: str | None) -> Record:
        self.stored = self.after(
            [
                RecordWrite(
                    kind=record.kind, key=record.key, data=record.data, expected_version=expected_version
                )
            ]
        )
        return self.stored[record.kind, record.key]

    async def delete(self, kind: str, key: str, *, expected_version: str) -> None:
        self.stored = self.after(
            [RecordWrite(kind=kind, key=key, data=None, expected_version=expected_version)]
        )

    async def write(self, writes: Sequence[RecordWrite]) -> None:
        self.stored = self.after(writes)

    def after(self, writes: Iterable[RecordWrite]) -> dict[Name, Record]:
        """Return the records as they are after the writes, one upon the other; changes nothing yet.

        Raises: RecordConflict, BadDocument.
        """
        records = dict(self.stored)
        for write in writes:
            name = (write.kind, write.key)
            current = records.get(name)
            if (current.version if current else None) != write.expected_version:
                raise RecordConflict(kind=write.kind, key=write.key, expected=write.expected_version)
            if write.data is None:
                records.pop(name, None)
            else:
                records[name] = Record(
                    kind=write.kind, key=write.key, data=_stored(write), version=str(next(_versions))
                )
        return records

    async def query(
        self,
        kind: str,
        where: Mapping[str, str | int | bool] | None = None,
        *,
        order_by: str | None = None,
        at_least: int | None = None,
        at_most: int | None = None,
        descending: bool = False,
        limit: int = 100,
    ) -> list[Record]:
        bounded = at_least is not None or at_most is not None
        indexed_fields(kind, where or {}, order_by, bounded=bounded)
        found = [
            record
            for (of_kind, _), record in sorted(self.stored.items())
            if of_kind == kind
            and all(record.data.get(name) == value for name, value in (where or {}).items())
            and (not bounded or _is_within(record.data.get(order_by or ""), at_least, at_most))
        ]
        if order_by:  # the sort is stable, also backwards: ties stay in key order
            found.sort(key=lambda record: _rank(record.data.get(order_by)), reverse=descending)
        elif descending:
            found.reverse()
        return found[: max(0, limit)]


def _stored(write: RecordWrite) -> Mapping[str, Any]:
    try:
        return orjson.loads(orjson.dumps(write.data))
    except TypeError as exc:
        raise BadDocument(collection=write.kind, key=write.key, field="data", reason=str(exc)) from exc


def _is_within(value: Any, at_least: int | None, at_most: int | None) -> bool:
    if not isinstance(value, int | float):
        return False
    return (at_least is None or value >= at_least) and (at_most is None or value <= at_most)


def _rank(value: Any) -> tuple[int, float, str]:
    """Order values of several types: what is missing, then numbers, then text."""
    if isinstance(value, bool | int | float):
        return (1, value, "")
    return (2, 0, value) if isinstance(value, str) else (0, 0, "")
