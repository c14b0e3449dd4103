"""Records on ArangoDB, with compare-and-set by revision."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from arango.exceptions import ArangoServerError

from datasources.arango import statements_records as aql
from datasources.arango.record_documents import (
    collection_of,
    fields_checked,
    from_document,
    is_storable,
    names_of,
    to_document,
    written_by,
)
from datasources.arango.transactions import (
    CONFLICT,
    NOT_REACHED,
    UNIQUE,
    Connection,
    Running,
    Session,
    Statements,
)
from datasources.base import Record, RecordWrite
from datasources.errors import DatabaseBusy, RecordConflict

ATTEMPTS = 6
_PAUSE_S = 0.05
_GREATEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ArangoRecords:
    """Implements RecordStore for one workspace."""

    connection: Connection
    workspace: str

    async def get(self, kind: str, key: str) -> Record | None:
        if not (is_storable(kind) and is_storable(key)):
            return None
        return await self.connection.run(lambda session: _get(session, self.workspace, kind, key))

    async def put(self, record: Record, *, expected_version: str | None) -> Record:
        write = RecordWrite(
            kind=record.kind, key=record.key, data=record.data, expected_version=expected_version
        )
        step = prepared(self.workspace, write)
        version = await self.connection.run(lambda session: _write_alone(session, self.workspace, step))
        return from_document(record.kind, {**step.document, "_key": step.names[0], "_rev": version})

    async def delete(self, kind: str, key: str, *, expected_version: str) -> None:
        write = RecordWrite(kind=kind, key=key, data=None, expected_version=expected_version)
        step = prepared(self.workspace, write)
        await self.connection.run(lambda session: _write_alone(session, self.workspace, step))

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
            "@records": collection_of(kind),
            "workspace": self.workspace,
            "order": order_by.split(".") if order_by else ["rag", "key"],
            "limit": min(limit, _GREATEST),
        }
        text = aql.RECORDS_ALL_BACKWARDS if descending else aql.RECORDS_ALL
        if conditions:
            text = aql.RECORDS_WHERE_BACKWARDS if descending else aql.RECORDS_WHERE
            (first, value), *others = conditions.items()
            binds |= {
                "field": first.split("."),
                "value": value,
                "others": [{"field": name, "value": wanted} for name, wanted in others],
            }
        found = await self.connection.run(lambda session: Running(session.db).rows(text, binds))
        return [from_document(kind, document) for document in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write as it is sent. `document` is empty for a removal; `names` are the `_key`s it may have."""

    write: RecordWrite
    names: Sequence[str]
    document: Mapping[str, Any]
    token: str

    @property
    def collection(self) -> str:
        return collection_of(self.write.kind)

    @property
    def statement(self) -> str:
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
    for (collection, statement), run in groupby(steps, lambda step: (step.collection, step.statement)):
        _write_run(at, workspace, collection, statement, list(run))


def _write_run(
    at: Statements, workspace: str, collection: str, statement: str, steps: Sequence[Step]
) -> dict[str, str]:
    """Send one statement; return the new revision of each record's key."""
    if statement in (aql.RECORDS_INSERT, aql.RECORDS_EXIST):
        _refuse_existing(at, workspace, collection, steps)
        if statement == aql.RECORDS_EXIST:
            return {}
        writes = [{**step.document, "_key": step.names[0]} for step in steps]
        revisions = at.rows(aql.RECORDS_INSERT, {"@records": collection, "writes": writes})
        return {step.write.key: rev for step, rev in zip(steps, revisions, strict=True)}
    changes = [
        {"key": s.write.key, "names": s.names, "rev": s.write.expected_version, "document": s.document}
        for s in steps
    ]
    rows = at.rows(statement, {"@records": collection, "writes": changes, "workspace": workspace})
    found = {row["key"]: row["rev"] for row in rows}
    for step in steps:
        if step.write.key not in found:
            raise step.conflict()
    return found


def _refuse_existing(at: Statements, workspace: str, collection: str, steps: Sequence[Step]) -> None:
    names = [name for step in steps for name in step.names]
    there = set(at.rows(aql.RECORDS_EXIST, {"@records": collection, "workspace": workspace, "names": names}))
    taken: set[str] = set()
    for step in steps:
        if there.intersection(step.names) or step.write.key in taken:
            raise step.conflict()
        if step.write.data is not None:
            taken.add(step.write.key)


def _get(session: Session, workspace: str, kind: str, key: str) -> Record | None:
    document = _stored(session, workspace, names_of(workspace, kind, key), collection_of(kind))
    return None if document is None else from_document(kind, document)


def _stored(
    session: Session, workspace: str, names: Sequence[str], collection: str
) -> Mapping[str, Any] | None:
    binds = {"@records": collection, "names": names, "workspace": workspace}
    rows = Running(session.db).rows(aql.RECORD_GET, binds)
    return rows[0] if rows else None


def _write_alone(session: Session, workspace: str, step: Step) -> str:
    """Write one record outside of a transaction and return its revision; '' for a removal.

    A write whose answer was lost is looked for before it is sent again: the record says who wrote it.
    Raises: RecordConflict, DatabaseBusy, and what the connection raises when it cannot be reached.
    """
    began, doubtful = time.monotonic(), False
    cause: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, _PAUSE_S * 2**attempt))
        try:
            if doubtful:
                done = _already(session, workspace, step)
                if done is not None:
                    return done
            return _sent(session, workspace, step)
        except NOT_REACHED as exc:
            cause, doubtful = exc, True
        except ArangoServerError as exc:
            if exc.error_code == UNIQUE:
                done = _already(session, workspace, step)
                if done is None:  # its name is taken where we do not see it
                    raise step.conflict() from exc
                return done
            if exc.error_code not in (CONFLICT, 503):
                raise session.translated(exc) from exc
            cause, doubtful = exc, True
    assert cause is not None
    if isinstance(cause, ArangoServerError) and cause.error_code != 503:
        raise DatabaseBusy(path=session.url, seconds=time.monotonic() - began) from cause
    raise session.translated(cause) from cause


def _sent(session: Session, workspace: str, step: Step) -> str:
    running = Running(session.db)
    if step.statement == aql.RECORDS_INSERT:
        # Not looked for first: the server refuses a name that is taken.
        written = {**step.document, "_key": step.names[0]}
        return running.rows(aql.RECORDS_INSERT, {"@records": step.collection, "writes": [written]})[0]
    return _write_run(running, workspace, step.collection, step.statement, [step]).get(step.write.key, "")


def _already(session: Session, workspace: str, step: Step) -> str | None:
    """Return the revision a lost write left, None if it was not carried out. Raises: RecordConflict."""
    now = _stored(session, workspace, step.names, step.collection)
    if step.write.data is None:
        return "" if now is None else _still_expected(now, step)
    if now is None:
        if step.write.expected_version is None:
            return None
        raise step.conflict()
    return str(now["_rev"]) if written_by(now) == step.token else _still_expected(now, step)


def _still_expected(now: Mapping[str, Any], step: Step) -> None:
    if now["_rev"] != step.write.expected_version:
        raise step.conflict()
