"""Records in PostgreSQL, with compare-and-set by version.

Decision: the fields by which a kind may be queried are rows of `record_fields`, as text that is
ordered like the values. One index serves every kind and field, and row-level security leaves it
usable: comparisons of text are leakproof, those of JSON are not. A record has the same values in
`fields`, in declared order, so that a query by several fields looks it up once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack, final

import orjson

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument, RecordConflict
from datasources.notices import WorkspaceNotices, notice_payloads
from datasources.postgres import statements as sql
from datasources.postgres.graph_header import check_text, is_text, limited
from datasources.postgres.server_pool import Bound, Row, ServerPool, Session
from datasources.record_kinds import RECORD_INDEXES, QueryOptions, RecordQuery, Where

# The first character of a stored field orders values of different types: missing ones come first.
MISSING = ""
_BOOLEAN, _NUMBER, _TEXT = "0", "1", "2"
LONGEST = 400  # characters of a text that are stored; longer ones end with a digest

_GREATEST = 1.7e308


@final
@dataclass(frozen=True, slots=True)
class PostgresRecords(RecordStore):
    """The records of one workspace."""

    pool: ServerPool
    workspace: str
    notices: WorkspaceNotices

    async def get(self, kind: str, key: str) -> Record | None:
        if not all(map(is_text, (self.workspace, kind, key))):
            self.pool.check_open()
            return None
        values = {"workspace": self.workspace, "kind": kind, "key": key}
        rows = await self.pool.read(self.workspace, lambda s: s.rows(sql.RECORD_GET, values))
        if not rows:
            return None
        version, data = rows[0]
        return Record(kind=kind, key=key, data=orjson.loads(data), version=str(version))

    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        if not writes:
            return []
        work = RecordWrites(self.workspace, writes)
        bound = work.statements()

        def write(session: Session) -> list[str | None]:
            session.tell(notice_payloads(self.workspace, writes))
            return work.versions(session.batch(*bound))

        versions = await self.pool.write(self.workspace, write)
        return [one.stored(version) for one, version in zip(writes, versions, strict=True)]

    async def query(
        self, kind: str, where: Where | None = None, **how: Unpack[QueryOptions]
    ) -> list[Record]:
        asked = RecordQuery.of(kind, where, **how)
        wanted = [value for value in asked.where.values() if isinstance(value, str)]
        if not all(map(is_text, (self.workspace, asked.kind, *wanted))):
            self.pool.check_open()
            return []
        return await self._records(asked.kind, *query_statement(self.workspace, asked))

    async def get_page(self, kind: str, *, after: str | None = None, limit: int) -> list[Record]:
        if not all(map(is_text, (self.workspace, kind, after or ""))):
            self.pool.check_open()
            return []
        names = {"workspace": self.workspace, "kind": kind, "after": after}
        return await self._records(kind, sql.RECORD_PAGE, {**names, "limit": limited(limit)})

    async def _records(self, kind: str, statement: str, values: Mapping[str, Any]) -> list[Record]:
        rows = await self.pool.read(self.workspace, lambda s: s.rows(statement, values))
        return [
            Record(kind=kind, key=key, data=orjson.loads(data), version=str(version))
            for key, version, data in rows
        ]


@final
@dataclass(frozen=True, slots=True)
class RecordWrites:
    """Record writes as statements that join a transaction."""

    workspace: str
    writes: Sequence[RecordWrite]

    def statements(self) -> list[Bound]:
        """Returns one statement for each write, in an order that keeps writers of the same records
        from waiting for each other in a circle. Raises: BadDocument.
        """
        return [_statement(self.workspace, self.writes[place]) for place in self._order()]

    def _order(self) -> list[int]:
        return sorted(
            range(len(self.writes)), key=lambda i: (self.writes[i].kind, self.writes[i].key)
        )

    def versions(self, found: Sequence[list[Row]]) -> list[str | None]:
        """Returns the new versions in the order of the writes, given the rows of the statements.

        Raises: RecordConflict if a statement found no record of the expected version.
        """
        versions: list[str | None] = [None] * len(self.writes)
        for place, rows in zip(self._order(), found, strict=True):
            write = self.writes[place]
            if not rows:
                raise RecordConflict(
                    kind=write.kind, key=write.key, expected=write.expected_version
                )
            versions[place] = None if write.data is None else str(rows[0][0])
        return versions


def _statement(workspace: str, write: RecordWrite) -> Bound:
    check_text(write.kind, collection=write.kind, key=write.key, field="kind")
    check_text(write.key, collection=write.kind, key=write.key, field="_key")
    names = list(RECORD_INDEXES.get(write.kind, ()))
    values: dict[str, Any] = {
        "workspace": workspace,
        "kind": write.kind,
        "key": write.key,
        "names": names,
        "expected": _version(write.expected_version),
    }
    is_new = write.expected_version is None
    if write.data is None:
        return Bound(sql.RECORD_ABSENT if is_new else sql.RECORD_DELETE, values)
    values["data"] = _encoded(write, write.data)
    values["values"] = record_fields(write.kind, write.key, write.data)
    return Bound(sql.RECORD_INSERT if is_new else sql.RECORD_UPDATE, values)


def _version(expected: str | None) -> int:
    """Returns the number of a version; one that no record has for any other text."""
    if expected is None or not (expected.isascii() and expected.isdecimal() and len(expected) < 19):
        return -1
    return int(expected)


def _encoded(write: RecordWrite, data: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(data).decode()
    except TypeError as exc:
        raise BadDocument(
            collection=write.kind, key=write.key, field="data", reason=str(exc)
        ) from exc


def record_fields(kind: str, key: str, data: Mapping[str, Any]) -> list[str]:
    """Returns the fields to query by as they are stored, in declared order. Raises: BadDocument."""
    fields: list[str] = []
    for name in RECORD_INDEXES.get(kind, ()):
        value = data.get(name)
        if isinstance(value, str):
            check_text(value, collection=kind, key=key, field=name)
        fields.append(stored_field(value))
    return fields


def stored_field(value: object) -> str:
    """Returns a value as text that is ordered like the values: missing, booleans, numbers, texts.

    Equal numbers have equal texts, whether whole or not. Lists and objects count as missing.
    """
    if isinstance(value, bool):
        return _BOOLEAN + ("1" if value else "0")
    if isinstance(value, int | float):
        return _NUMBER + _ordered_number(value)
    if isinstance(value, str):
        return _TEXT + _short(value)
    return MISSING


def _ordered_number(value: float) -> str:
    """Returns the bits of a number so that their order is that of the numbers, and what a whole
    number of 64 bits has beyond the precision of these.
    """
    near = float(max(-_GREATEST, min(value, _GREATEST)))
    (bits,) = struct.unpack(">Q", struct.pack(">d", near + 0.0))  # -0.0 becomes 0.0
    bits = ~bits & 0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else bits | 1 << 63
    beyond = value - int(near) if isinstance(value, int) else 0
    return f"{bits:016x}{max(0, min(beyond + 0x8000, 0xFFFF)):04x}"


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\N{HORIZONTAL ELLIPSIS}{hashlib.sha256(text.encode()).hexdigest()}"


def query_statement(workspace: str, asked: RecordQuery) -> tuple[str, dict[str, Any]]:
    """Returns the SQL and its values. Every name and value is bound.

    The first field finds keys by an index; the others are read in the records themselves. OFFSET 0
    keeps the planner from joining otherwise: while a table has no statistics, as in a new database,
    it expects one row of every index, and would compare all records with all others.
    """
    values: dict[str, Any] = {
        "workspace": workspace,
        "kind": asked.kind,
        "limit": limited(asked.limit),
    }
    fields = _asked_fields(asked, values)
    direction = "DESC" if asked.descending else "ASC"
    order = f"records.key {direction}"
    if asked.order_by is not None:
        order = f"{fields[-1].place} {direction}, records.key"
    start = f"(SELECT * FROM records WHERE {_OF_KIND}) records"
    if fields:
        values["name"] = fields[0].name
        start = (
            f"(SELECT key, value FROM record_fields WHERE {_OF_KIND} AND name = %(name)s) first "
            f"CROSS JOIN LATERAL (SELECT * FROM records WHERE {_OF_KIND} AND key = first.key "
            "OFFSET 0) records"
        )
    conditions = " AND ".join(field.condition for field in fields) or "TRUE"
    text = (
        f"SELECT records.key, records.version, records.data FROM {start} "
        f"WHERE {conditions} ORDER BY {order} LIMIT %(limit)s"
    )
    return text, values


_OF_KIND = "workspace = %(workspace)s AND kind = %(kind)s"


@final
@dataclass(frozen=True, slots=True)
class _AskedField:
    """A field of a query: its name, its value in SQL, and what must hold for it."""

    name: str
    place: str
    condition: str


def _asked_fields(asked: RecordQuery, values: dict[str, Any]) -> list[_AskedField]:
    """Returns the fields of a query, that of its order last; adds to the values to be bound."""
    indexed = asked.fields()
    fields: list[_AskedField] = []

    def add(name: str, condition: str) -> None:
        place = f"records.fields[{indexed.index(name) + 1}]" if fields else "first.value"
        fields.append(_AskedField(name, place, condition.format(place)))

    for number, (name, value) in enumerate(asked.where.items()):
        values[f"f{number}"] = stored_field(value)
        add(name, f"{{}} = %(f{number})s")
    if asked.order_by is not None:
        if asked.bounded:
            values["least"], values["most"] = _bounds(asked.at_least, asked.at_most)
            add(asked.order_by, "{0} >= %(least)s AND {0} <= %(most)s")
        else:
            add(asked.order_by, "TRUE")
    return fields


def _bounds(at_least: int | None, at_most: int | None) -> tuple[str, str]:
    """Returns the least and the greatest stored number within the bounds."""
    least = _NUMBER if at_least is None else stored_field(at_least)
    return least, f"{_NUMBER}~" if at_most is None else stored_field(at_most)
