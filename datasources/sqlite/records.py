"""Records in the embedded database, with compare-and-set by version."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from datasources.base import Record, RecordWrite
from datasources.errors import BadDocument, RecordConflict
from datasources.record_kinds import RECORD_INDEXES, indexed_fields
from datasources.sqlite import statements as sql
from datasources.sqlite.pool import Pool
from datasources.types import is_storable

GREATEST = 2**63 - 1
PASSING = frozenset({"lease", "thread"})
"""Kinds whose last seconds a power cut may take: nobody was promised that these are kept."""


@dataclass(frozen=True, slots=True)
class SqliteRecords:
    """Implements RecordStore for one workspace."""

    pool: Pool
    workspace: str

    async def get(self, kind: str, key: str) -> Record | None:
        if not (is_comparable(kind) and is_comparable(key)):
            self.pool.check_open()
            return None
        return await self.pool.read(lambda c: read_record(c, self.workspace, kind, key))

    async def put(self, record: Record, *, expected_version: str | None) -> Record:
        write = RecordWrite(
            kind=record.kind, key=record.key, data=record.data, expected_version=expected_version
        )

        def work(connection: sqlite3.Connection) -> Record:
            write_record(connection, self.workspace, write)
            stored = read_record(connection, self.workspace, write.kind, write.key)
            assert stored is not None
            return stored

        return await self.pool.write(work, durable=_are_durable([write]))

    async def delete(self, kind: str, key: str, *, expected_version: str) -> None:
        write = RecordWrite(kind=kind, key=key, data=None, expected_version=expected_version)
        await self.pool.write(lambda c: write_record(c, self.workspace, write), durable=_are_durable([write]))

    async def write(self, writes: Sequence[RecordWrite]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for write in writes:
                write_record(connection, self.workspace, write)

        await self.pool.write(work, durable=_are_durable(writes))

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
        bounds = (at_least, at_most)
        statement, values = query_statement(
            self.workspace, kind, where or {}, order_by, bounds=bounds, descending=descending, limit=limit
        )
        if not (is_comparable(kind) and all(is_comparable(value) for value in (where or {}).values())):
            self.pool.check_open()
            return []
        return await self.pool.read(
            lambda c: [
                Record(kind=kind, key=key, data=orjson.loads(data), version=str(version))
                for key, version, data in c.execute(statement, values)
            ]
        )


def _are_durable(writes: Sequence[RecordWrite]) -> bool:
    return any(write.kind not in PASSING for write in writes)


def read_record(connection: sqlite3.Connection, workspace: str, kind: str, key: str) -> Record | None:
    row = connection.execute(sql.RECORD_GET, {"workspace": workspace, "kind": kind, "key": key}).fetchone()
    return None if row is None else Record(kind=kind, key=key, data=orjson.loads(row[1]), version=str(row[0]))


def write_record(connection: sqlite3.Connection, workspace: str, write: RecordWrite) -> None:
    """Compare and set one record inside a transaction. Raises: RecordConflict, BadDocument."""
    _check_names(write)
    name = {"workspace": workspace, "kind": write.kind, "key": write.key}
    row = connection.execute(sql.RECORD_VERSION, name).fetchone()
    if (None if row is None else str(row[0])) != write.expected_version:
        raise RecordConflict(kind=write.kind, key=write.key, expected=write.expected_version)
    if write.data is None:
        connection.execute(sql.RECORD_DELETE, name)
        return
    try:
        data = orjson.dumps(write.data).decode()
    except TypeError as exc:
        raise BadDocument(collection=write.kind, key=write.key, field="data", reason=str(exc)) from exc
    # One counter for all: a record that was deleted and made again never has an old version.
    (version,) = connection.execute(sql.RECORD_NEXT_VERSION).fetchone()
    connection.execute(sql.RECORD_PUT, {**name, "version": version, "data": data})


def is_comparable(value: object) -> bool:
    """Tell whether something stored can equal this: text that can be written, or a number of 64 bits."""
    if isinstance(value, str):
        return _text_fault(value) is None
    return not isinstance(value, int) or -GREATEST <= value <= GREATEST


def _text_fault(text: str) -> str | None:
    if "\0" in text:  # SQLite's JSON ends a text there: it would be found by another name
        return "has a zero character"
    return None if is_storable(text) else "has half of a surrogate pair"


def _check_names(write: RecordWrite) -> None:
    """Refuse a key, or a field to query by, that could not be found again as it is. Raises: BadDocument."""
    fields = {name: (write.data or {}).get(name) for name in RECORD_INDEXES.get(write.kind, ())}
    for field, text in {"kind": write.kind, "_key": write.key, **fields}.items():
        reason = _text_fault(text) if isinstance(text, str) else None
        if reason:
            raise BadDocument(collection=write.kind, key=write.key, field=field, reason=reason)


def query_statement(
    workspace: str,
    kind: str,
    where: Mapping[str, str | int | bool],
    order_by: str | None,
    *,
    bounds: tuple[int | None, int | None] = (None, None),
    descending: bool,
    limit: int,
) -> tuple[str, dict[str, Any]]:
    """Return the SQL and its values. Names of fields are checked; every value is bound.

    Raises: UnknownIndexField.
    """
    bounded = bounds != (None, None)
    known = indexed_fields(kind, where, order_by, bounded=bounded)
    # The kind is written into the text because a partial index serves only a constant; it is one
    # of RECORD_INDEXES, or it matches nothing and is bound.
    condition = f"kind = '{kind}'" if known else "kind = :kind"
    values: dict[str, Any] = {"workspace": workspace, "limit": min(max(0, limit), GREATEST)}
    if not known:
        values["kind"] = kind
    for i, (name, value) in enumerate(where.items()):
        condition += f" AND json_extract(data, '$.{name}') = :v{i}"
        values[f"v{i}"] = value
    if bounded:  # to SQLite every text is greater than any number
        least, most = (value if value is None else max(-GREATEST, min(value, GREATEST)) for value in bounds)
        upper = "< ''" if most is None else "<= :most"
        condition += f" AND json_extract(data, '$.{order_by}') >= :least"
        condition += f" AND json_extract(data, '$.{order_by}') {upper}"
        values |= {"least": -math.inf if least is None else least} | ({} if most is None else {"most": most})
    direction = "DESC" if descending else "ASC"
    order = f"json_extract(data, '$.{order_by}') {direction}, key ASC" if order_by else f"key {direction}"
    if order_by in where:
        order = "key ASC"  # all are equal in it; said so, the index gives the order
    # Left to itself the planner goes through all records of the kind: it takes a primary key for as good.
    chosen = order_by if bounded else next((name for name in known if name in where), None)
    source = f"records INDEXED BY records_{kind}_{chosen}" if chosen else "records"
    text = f"SELECT key, version, data FROM {source} WHERE workspace = :workspace AND {condition} "
    return text + f"ORDER BY {order} LIMIT :limit", values
