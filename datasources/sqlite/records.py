"""Records in the embedded database, with compare-and-set by version."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import orjson

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument, RecordConflict
from datasources.record_kinds import RECORD_INDEXES, QueryOptions, RecordQuery, Where
from datasources.sqlite import statements as sql
from datasources.sqlite.pool import Pool
from datasources.types import is_storable

GREATEST = 2**63 - 1  # greatest integer in SQLite

# Kinds whose last writes may be lost in a power cut: their durability is not promised.
NOT_DURABLE = frozenset({"lease", "thread", "trace"})


@dataclass(frozen=True, slots=True)
class SqliteRecords(RecordStore):
    """The records of one workspace."""

    pool: Pool
    workspace: str

    async def get(self, kind: str, key: str) -> Record | None:
        if not (is_comparable(kind) and is_comparable(key)):
            self.pool.check_open()
            return None
        return await self.pool.read(lambda c: read_record(c, self.workspace, kind, key))

    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        def work(connection: sqlite3.Connection) -> list[Record | None]:
            return [
                write.stored(write_record(connection, self.workspace, write)) for write in writes
            ]

        durable = any(write.kind not in NOT_DURABLE for write in writes)
        return await self.pool.write(work, durable=durable)

    async def query(
        self, kind: str, where: Where | None = None, **how: Unpack[QueryOptions]
    ) -> list[Record]:
        asked = RecordQuery.of(kind, where, **how)
        if not all(map(is_comparable, (asked.kind, *asked.where.values()))):
            self.pool.check_open()
            return []
        statement, values = query_statement(self.workspace, asked)
        return await self._records(asked.kind, statement, values)

    async def get_page(self, kind: str, *, after: str | None = None, limit: int) -> list[Record]:
        start = after or ""
        if not (is_comparable(kind) and is_comparable(start)):
            self.pool.check_open()
            return []
        statement = sql.RECORD_FIRST_PAGE if after is None else sql.RECORD_PAGE
        names: dict[str, Any] = {"workspace": self.workspace, "kind": kind}
        return await self._records(
            kind, statement, {**names, "after": start, "limit": max(0, limit)}
        )

    async def _records(self, kind: str, statement: str, values: dict[str, Any]) -> list[Record]:
        return await self.pool.read(
            lambda c: [
                Record(kind=kind, key=key, data=orjson.loads(data), version=str(version))
                for key, version, data in c.execute(statement, values)
            ]
        )


def read_record(
    connection: sqlite3.Connection, workspace: str, kind: str, key: str
) -> Record | None:
    row = connection.execute(
        sql.RECORD_GET, {"workspace": workspace, "kind": kind, "key": key}
    ).fetchone()
    return (
        None
        if row is None
        else Record(kind=kind, key=key, data=orjson.loads(row[1]), version=str(row[0]))
    )


def write_record(connection: sqlite3.Connection, workspace: str, write: RecordWrite) -> str | None:
    """Compares and sets one record inside a transaction; returns its version, None if deleted.

    Raises: RecordConflict, BadDocument.
    """
    _check_names(write)
    name = {"workspace": workspace, "kind": write.kind, "key": write.key}
    row = connection.execute(sql.RECORD_VERSION, name).fetchone()
    if (None if row is None else str(row[0])) != write.expected_version:
        raise RecordConflict(kind=write.kind, key=write.key, expected=write.expected_version)
    if write.data is None:
        connection.execute(sql.RECORD_DELETE, name)
        return None
    try:
        data = orjson.dumps(write.data).decode()
    except TypeError as exc:
        raise BadDocument(
            collection=write.kind, key=write.key, field="data", reason=str(exc)
        ) from exc
    # One counter for all records: a record that is deleted and created again gets a new version.
    (version,) = connection.execute(sql.RECORD_NEXT_VERSION).fetchone()
    connection.execute(sql.RECORD_PUT, {**name, "version": version, "data": data})
    return str(version)


def is_comparable(value: object) -> bool:
    """Returns True if a stored value can equal this: storable text, or a number of 64 bits."""
    if isinstance(value, str):
        return _text_fault(value) is None
    return not isinstance(value, int) or -GREATEST <= value <= GREATEST


def _text_fault(text: str) -> str | None:
    if "\0" in text:  # SQLite's JSON ends a text at NUL: it would be stored under another name
        return "has a zero character"
    return None if is_storable(text) else "has half of a surrogate pair"


def _check_names(write: RecordWrite) -> None:
    """Checks that the key and the fields to query by can be found again. Raises: BadDocument."""
    fields = {name: (write.data or {}).get(name) for name in RECORD_INDEXES.get(write.kind, ())}
    for field, text in {"kind": write.kind, "_key": write.key, **fields}.items():
        reason = _text_fault(text) if isinstance(text, str) else None
        if reason:
            raise BadDocument(collection=write.kind, key=write.key, field=field, reason=reason)


def query_statement(workspace: str, asked: RecordQuery) -> tuple[str, dict[str, Any]]:
    """Returns the SQL and its values. Names of fields were checked; every value is bound."""
    kind = asked.kind
    order_by = asked.order_by
    where = asked.where
    fields = asked.fields()
    # The kind is written into the text because a partial index serves only a constant; it is one
    # of RECORD_INDEXES, or it matches nothing and is bound.
    condition = f"kind = '{kind}'" if fields else "kind = :kind"
    values: dict[str, Any] = {"workspace": workspace, "limit": min(asked.limit, GREATEST)}
    if not fields:
        values["kind"] = kind
    for i, (name, value) in enumerate(where.items()):
        condition += f" AND json_extract(data, '$.{name}') = :v{i}"
        values[f"v{i}"] = value
    if asked.bounded:  # to SQLite every text is greater than any number
        values["least"] = -math.inf if asked.at_least is None else _in_64_bits(asked.at_least)
        condition += f" AND json_extract(data, '$.{order_by}') >= :least"
        if asked.at_most is not None:
            values["most"] = _in_64_bits(asked.at_most)
        upper = "<= :most" if "most" in values else "< ''"
        condition += f" AND json_extract(data, '$.{order_by}') {upper}"
    direction = "DESC" if asked.descending else "ASC"
    order = (
        f"json_extract(data, '$.{order_by}') {direction}, key ASC"
        if order_by
        else f"key {direction}"
    )
    if order_by in where:
        order = "key ASC"  # all values are equal; with this the index gives the order
    # Without INDEXED BY the planner reads all records of the kind by the primary key.
    chosen = order_by if asked.bounded else next((name for name in fields if name in where), None)
    source = f"records INDEXED BY records_{kind}_{chosen}" if chosen else "records"
    text = f"SELECT key, version, data FROM {source} WHERE workspace = :workspace AND {condition} "
    return text + f"ORDER BY {order} LIMIT :limit", values


def _in_64_bits(number: int) -> int:
    return max(-GREATEST, min(number, GREATEST))
