"""Records on ArangoDB, with compare-and-set by revision."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import statements_records as aql
from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import CONFLICT, CURSOR_LOST, UNIQUE
from datasources.arango.record_documents import (
    fields_checked,
    from_document,
    is_storable,
    names_of,
    to_document,
    written_by,
)
from datasources.arango.statements import Statement
from datasources.arango.transactions import NOT_REACHED, Mark, Patience, Running, Statements, Transactions
from datasources.base import Record, RecordWrite
from datasources.errors import RecordConflict

ATTEMPTS = 6
_GREATEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ArangoRecords:
    """Implements RecordStore for one workspace."""

    connection: ArangoConnection
    workspace: str

    async def get(self, kind: str, key: str) -> Record | None:
        if not (is_storable(kind) and is_storable(key)):
            return None
        names = names_of(self.workspace, kind, key)
        rows = await self.connection.query(aql.RECORD_GET, kind=kind, names=names, workspace=self.workspace)
        return from_document(kind, rows[0]) if rows else None

    async def put(self, record: Record, *, expected_version: str | None) -> Record:
        write = RecordWrite(
            kind=record.kind, key=record.key, data=record.data, expected_version=expected_version
        )
        step = prepared(self.workspace, write)
        version = await self.connection.run(lambda database: self._write(database, step))
        return from_document(record.kind, {**step.document, "_key": step.names[0], "_rev": version})

    async def delete(self, kind: str, key: str, *, expected_version: str) -> None:
        write = RecordWrite(kind=kind, key=key, data=None, expected_version=expected_version)
        step = prepared(self.workspace, write)
        await self.connection.run(lambda database: self._write(database, step))

    async def write(self, writes: Sequence[RecordWrite]) -> None:
        """See RecordStore. In a sharded cluster a crash within the commit may leave a part of them."""
        steps = [prepared(self.workspace, write) for write in writes]
        collections = sorted({aql.collection_of(step.write.kind) for step in steps})

        def work(database: StandardDatabase) -> int:
            transactions = Transactions(
                connection=self.connection, database=database, write=collections, mark=uuid.uuid4().hex
            )
            return transactions.do(carry_out)

        def carry_out(at: Statements, mark: Mark) -> int:
            write_records(at, self.workspace, steps)
            at.rows(aql.MARK_PUT, mark=mark(0))
            return 0

        if steps:
            await self.connection.run(work)

    async def query(
        self,
        kind: str,
        where: Mapping[str, str | int | bool] | None = None,
        *,
        order_by: str | None = None,
        descending: bool = False,
        limit: int = 100,
    ) -> list[Record]:
        conditions = dict(where or {})
        known = fields_checked(kind, [*conditions, *([order_by] if order_by is not None else [])])
        texts = [kind, *(value for value in conditions.values() if isinstance(value, str))]
        if limit <= 0 or not all(is_storable(text) for text in texts):
            return []
        if not known:
            conditions = {"rag.kind": kind}
        binds: dict[str, Any] = {
            "kind": kind,
            "workspace": self.workspace,
            "order": order_by.split(".") if order_by else ["rag", "key"],
            "limit": min(limit, _GREATEST),
        }
        statement = aql.RECORDS_ALL_BACKWARDS if descending else aql.RECORDS_ALL
        if conditions:
            statement = aql.RECORDS_WHERE_BACKWARDS if descending else aql.RECORDS_WHERE
            (first, value), *others = conditions.items()
            binds |= {
                "field": first.split("."),
                "value": value,
                "others": [{"field": name, "value": wanted} for name, wanted in others],
            }
        found = await self.connection.query(statement, **binds)
        return [from_document(kind, document) for document in found]

    def _write(self, database: StandardDatabase, step: Step) -> str:
        return write_alone(Running(self.connection, database), self.workspace, step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write as it is sent. `document` is empty for a removal; `names` are the `_key`s it may have."""

    write: RecordWrite
    names: Sequence[str]
    document: Mapping[str, Any]
    token: str

    @property
    def statement(self) -> Statement:
        """The statement that carries it out; none for the removal of what must not be there."""
        if self.write.expected_version is None:
            return aql.RECORDS_EXIST if self.write.data is None else aql.RECORDS_INSERT
        return aql.RECORDS_REMOVE if self.write.data is None else aql.RECORDS_REPLACE

    def conflict(self) -> RecordConflict:
        w = self.write
        return RecordConflict(kind=w.kind, key=w.key, expected=w.expected_version)


def prepared(workspace: str, write: RecordWrite) -> Step:
    """Return a write ready to be sent. Raises: BadDocument."""
    token = uuid.uuid4().hex
    document = to_document(workspace, write.kind, write.key, write.data or {}, write=token)
    names = names_of(workspace, write.kind, write.key)
    return Step(write=write, names=names, document=document, token=token)


def write_records(at: Statements, workspace: str, steps: Sequence[Step]) -> None:
    """Carry out writes in their order, inside a transaction. Raises: RecordConflict.

    Neighbours that need the same statement are sent together.
    """
    for _, run in groupby(steps, lambda step: (step.write.kind, step.statement.name)):
        _write_run(at, workspace, list(run))


def _write_run(at: Statements, workspace: str, steps: Sequence[Step]) -> dict[str, str]:
    """Send one statement; return the new revision of each record's key."""
    kind, statement = steps[0].write.kind, steps[0].statement
    if statement is aql.RECORDS_EXIST:
        _refuse_existing(at, workspace, steps)
        return {}
    if statement is aql.RECORDS_INSERT:
        return _insert(at, workspace, steps)
    _refuse_repeated(steps)
    changes = [
        {"key": s.write.key, "names": s.names, "rev": s.write.expected_version, "document": s.document}
        for s in steps
    ]
    rows = at.rows(statement, kind=kind, writes=changes, workspace=workspace)
    found: dict[str, str] = {row["key"]: row["rev"] for row in rows}
    for step in steps:
        if step.write.key not in found:
            raise step.conflict()
    return found


def _refuse_repeated(steps: Sequence[Step]) -> None:
    """Refuse the second write of a record: its version is gone with the first.

    In one statement the server would take it for another writer, and it would be tried again in vain.
    """
    seen: set[str] = set()
    for step in steps:
        if step.write.key in seen:
            raise step.conflict()
        seen.add(step.write.key)


def _insert(at: Statements, workspace: str, steps: Sequence[Step]) -> dict[str, str]:
    kind = steps[0].write.kind
    writes = [{**step.document, "_key": step.names[0]} for step in steps]
    if any(len(step.names) > 1 for step in steps):
        _refuse_existing(at, workspace, steps)
    try:
        revisions = at.rows(aql.RECORDS_INSERT, kind=kind, writes=writes)
    except ArangoServerError as exc:
        if exc.error_code == UNIQUE:
            _refuse_existing(at, workspace, steps)  # says which it is
        raise
    return {step.write.key: rev for step, rev in zip(steps, revisions, strict=True)}


def _refuse_existing(at: Statements, workspace: str, steps: Sequence[Step]) -> None:
    names = [name for step in steps for name in step.names]
    rows = at.rows(aql.RECORDS_EXIST, kind=steps[0].write.kind, workspace=workspace, names=names)
    there: set[str] = set(rows)
    taken: set[str] = set()
    for step in steps:
        if there.intersection(step.names) or step.write.key in taken:
            raise step.conflict()
        if step.write.data is not None:
            taken.add(step.write.key)


def write_alone(at: Statements, workspace: str, step: Step) -> str:
    """Write one record outside of a transaction and return its revision; '' for a removal.

    A write whose answer was lost is looked for before it is sent again: the record says who wrote it.
    Raises: RecordConflict, and what the server raises that cannot be reached or is always busy.
    """
    patience, doubtful = Patience(ATTEMPTS), False
    while True:
        try:
            done = _already(at, workspace, step) if doubtful else None
            return _sent(at, workspace, step) if done is None else done
        except ArangoServerError as exc:
            if exc.error_code == UNIQUE:  # taken by another, or by this one when it was sent before
                done = _already(at, workspace, step)
                if done is None:
                    raise step.conflict() from exc
                return done
            if exc.error_code not in (CONFLICT, CURSOR_LOST) or not patience.lasts():
                raise
        except NOT_REACHED:
            if not patience.lasts():
                raise
        doubtful = True


def _sent(at: Statements, workspace: str, step: Step) -> str:
    if step.statement is not aql.RECORDS_INSERT:
        return _write_run(at, workspace, [step]).get(step.write.key, "")
    if len(step.names) > 1:
        _refuse_existing(at, workspace, [step])  # the server refuses no more than the one name
    written = {**step.document, "_key": step.names[0]}
    return at.rows(aql.RECORDS_INSERT, kind=step.write.kind, writes=[written])[0]


def _already(at: Statements, workspace: str, step: Step) -> str | None:
    """Return the revision a lost write left, None if it was not carried out. Raises: RecordConflict."""
    rows = at.rows(aql.RECORD_GET, kind=step.write.kind, names=step.names, workspace=workspace)
    now: Mapping[str, Any] | None = rows[0] if rows else None
    removes, expected = step.write.data is None, step.write.expected_version
    if now is None:
        if removes:
            return ""
        if expected is None:
            return None
        raise step.conflict()
    if not removes and written_by(now) == step.token:
        return str(now["_rev"])
    if now["_rev"] != expected:
        raise step.conflict()
    return None
