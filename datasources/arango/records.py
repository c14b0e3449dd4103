"""Records on ArangoDB, with compare-and-set by revision.

The fields of a record are stored unchanged in its document, so that other clients can read threads
and approvals in the form of the reference. Our own data is in `rag`: the kind and key of the
record, the name of the last write, and fields whose names the collection reserves.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Unpack, cast
from urllib.parse import quote

import orjson
from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import statements_read as read
from datasources.arango import statements_write as aql
from datasources.arango.connection import ArangoConnection, RetryBudget
from datasources.arango.errors import UNIQUE
from datasources.arango.graph_documents import encoded, is_plain
from datasources.arango.layout import RECORD_COLLECTIONS, collection_of
from datasources.arango.statements import Statement
from datasources.arango.transactions import NOT_REACHED, Mark, Rows, in_transaction, may_pass
from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument, RecordConflict
from datasources.record_kinds import QueryOptions, RecordQuery, Where
from datasources.types import is_storable

LEASES_KEPT_S = 86_400
"""A lease that ended so long ago is removed by the server."""

_UNIQUE_ALONE = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def names_of(workspace: str, kind: str, key: str) -> list[str]:
    """Returns the possible `_key`s of a record, beginning with that of a new one.

    Decision: a thread with a unique key has it as its `_key`, as in the reference. The `_key` of
    any other record contains its workspace, since other workspaces may use the same key. Threads
    created by the reference are found by the key that it chose.
    """
    parts = [workspace, key] if kind in RECORD_COLLECTIONS else [workspace, kind, key]
    scoped = encoded(":".join(quote(part, safe="-_.@()+,=;$!'") for part in parts))
    if kind != "thread" or not is_plain(key):
        return [scoped]
    return [key] if _UNIQUE_ALONE.fullmatch(key) else [scoped, key]


def to_document(
    workspace: str, kind: str, key: str, data: Mapping[str, Any], *, write: str
) -> dict[str, Any]:
    """Returns the document of a record, without its `_key`.

    Raises: BadDocument for values that JSON cannot represent.
    """
    if not (is_storable(kind) and is_storable(key)):
        raise BadDocument(
            collection=kind, key=key, field="_key", reason="it has half of a surrogate pair"
        )
    try:
        plain = orjson.loads(orjson.dumps(data))  # apart from the caller's objects
    except TypeError as exc:
        raise BadDocument(collection=kind, key=key, field="data", reason=str(exc)) from exc
    rag: dict[str, Any] = {"kind": kind, "key": key, "write": write}
    if "workspace" not in plain:
        rag["bare"] = True
    hidden = {
        name: value for name, value in plain.items() if name[:1] in ("", "_") or name == "rag"
    }
    if plain.get("workspace", workspace) != workspace:
        hidden["workspace"] = plain["workspace"]
    if hidden:
        rag["hidden"] = hidden
    until = plain.get("expiresTime")
    if kind == "lease" and isinstance(until, int | float):
        rag["until"] = until // 1000 + LEASES_KEPT_S
    shown = {name: value for name, value in plain.items() if name not in hidden}
    return {**shown, "workspace": workspace, "rag": rag}


def from_document(kind: str, document: Mapping[str, Any]) -> Record:
    """Returns the record in a stored document, which another client may have written."""
    rag = _own(document)
    data = {name: value for name, value in document.items() if name[:1] != "_" and name != "rag"}
    if rag.get("bare"):
        data.pop("workspace", None)
    data.update(rag.get("hidden", {}))
    key = str(rag.get("key", document["_key"]))
    return Record(kind=kind, key=key, data=data, version=str(document["_rev"]))


def _own(document: Mapping[str, Any]) -> Mapping[str, Any]:
    rag = document.get("rag")
    return cast(Mapping[str, Any], rag) if isinstance(rag, dict) else {}


ATTEMPTS = 6
_GREATEST = 2**31 - 1
_FARTHEST = 2**63 - 1
_ALL = sys.float_info.max


@dataclass(frozen=True, slots=True)
class ArangoRecords(RecordStore):
    """The records of one workspace."""

    connection: ArangoConnection
    workspace: str

    async def get(self, kind: str, key: str) -> Record | None:
        if not (is_storable(kind) and is_storable(key)):
            return None
        names = names_of(self.workspace, kind, key)
        rows = await self.connection.query(
            read.RECORDS_GET, kind=kind, names=names, workspace=self.workspace
        )
        return from_document(kind, rows[0]) if rows else None

    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        all_sent = [prepared(self.workspace, write) for write in writes]
        collections = sorted({collection_of(write.kind) for write in writes})
        revisions: list[str] = []

        def carry_out(rows: Rows, mark: Mark) -> int:
            # of the attempt that comes through
            revisions[:] = write_records(rows, self.workspace, all_sent)
            rows(aql.MARK_PUT, mark=mark(0))
            return 0

        def alone(database: StandardDatabase) -> str:
            return write_alone(
                partial(self.connection.execute, database), self.workspace, all_sent[0]
            )

        if len(all_sent) == 1:
            revisions = [await self.connection.run(alone)]
        elif all_sent:
            await in_transaction(self.connection, collections, carry_out)
        return [write.stored(revision) for write, revision in zip(writes, revisions, strict=True)]

    async def query(
        self, kind: str, where: Where | None = None, **how: Unpack[QueryOptions]
    ) -> list[Record]:
        asked = RecordQuery.of(kind, where, **how)
        texts = [asked.kind, *(value for value in asked.where.values() if isinstance(value, str))]
        if not asked.limit or not all(map(is_storable, texts)):
            return []
        # it shares its collection
        of_kind = None if asked.kind in RECORD_COLLECTIONS else asked.kind
        if asked.bounded:  # every number lies between these, and nothing else
            statement = read.RECORDS_WITHIN_DOWN if asked.descending else read.RECORDS_WITHIN_UP
            least = -_ALL if asked.at_least is None else max(asked.at_least, -_FARTHEST)
            most = _ALL if asked.at_most is None else min(asked.at_most, _FARTHEST)
            indexed: dict[str, Any] = {"least_value": least, "most_value": most}
        else:
            statement = read.RECORDS_DOWN if asked.descending else read.RECORDS_UP
            indexed = self._of_kind(asked.kind)
            if of_kind is None and asked.where:
                field, value = next(iter(asked.where.items()))
                indexed = {"field": [field], "value": value}
        found = await self.connection.query(
            statement,
            kind=asked.kind,
            of_kind=of_kind,
            workspace=self.workspace,
            **indexed,
            conditions=[{"field": name, "value": wanted} for name, wanted in asked.where.items()],
            order=[asked.order_by] if asked.order_by else ["rag", "key"],
            limit=min(asked.limit, _GREATEST),
        )
        return [from_document(asked.kind, document) for document in found]

    async def get_page(self, kind: str, *, after: str | None = None, limit: int) -> list[Record]:
        if limit <= 0 or not is_storable(kind) or not is_storable(after or ""):
            return []
        found = await self.connection.query(
            read.RECORDS_PAGE,
            kind=kind,
            workspace=self.workspace,
            **self._of_kind(kind),
            after=after,
            limit=min(limit, _GREATEST),
        )
        return [from_document(kind, document) for document in found]

    def _of_kind(self, kind: str) -> dict[str, Any]:
        """Returns the indexed field, and its value, that all records of a kind have."""
        if kind in RECORD_COLLECTIONS:
            return {"field": ["workspace"], "value": self.workspace}
        return {"field": ["rag", "kind"], "value": kind}  # kinds share this collection


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedWrite:
    """One prepared write. `bound` are the values of its statement: the record's `key`, its possible
    `_key`s (`names`), the expected revision (`rev`) and the `document`, empty for a removal.
    """

    kind: str
    statement: Statement
    bound: Mapping[str, Any]

    def conflict(self) -> RecordConflict:
        return RecordConflict(kind=self.kind, key=self.bound["key"], expected=self.bound["rev"])


def prepared(workspace: str, write: RecordWrite) -> PreparedWrite:
    """Returns a prepared write. The removal of a record that must not exist only reads.

    Raises: BadDocument.
    """
    document = to_document(
        workspace, write.kind, write.key, write.data or {}, write=uuid.uuid4().hex
    )
    names = names_of(workspace, write.kind, write.key)
    if write.expected_version is None:
        statement = read.RECORDS_ABSENT if write.data is None else aql.RECORDS_INSERT
    else:
        statement = aql.RECORDS_REMOVE if write.data is None else aql.RECORDS_REPLACE
    document["_key"] = names[0]
    bound = {"key": write.key, "names": names, "rev": write.expected_version, "document": document}
    return PreparedWrite(kind=write.kind, statement=statement, bound=bound)


def write_records(rows: Rows, workspace: str, writes: Sequence[PreparedWrite]) -> list[str]:
    """Executes writes in order, inside a transaction. Returns the new revisions, "" for a removal.

    Adjacent writes with the same statement are sent together. Raises: RecordConflict.
    """
    runs = groupby(writes, lambda sent: (sent.kind, sent.statement.text))
    return [revision for _, run in runs for revision in _write_run(rows, workspace, list(run))]


def _write_run(rows: Rows, workspace: str, writes: Sequence[PreparedWrite]) -> list[str]:
    """Sends one statement. Returns the new revision of each record. Raises: RecordConflict."""
    seen: set[str] = set()
    for sent in writes:
        if sent.bound["key"] in seen:  # its version is gone with the first
            raise sent.conflict()
        seen.add(sent.bound["key"])
    kind = writes[0].kind
    bound = [sent.bound for sent in writes]
    try:
        done = rows(writes[0].statement, kind=kind, writes=bound, workspace=workspace)
    except ArangoServerError as exc:
        if exc.error_code != UNIQUE:  # another inserts it at the same moment
            raise
        raise writes[0].conflict() from exc
    found: dict[str, str] = {row["key"]: row["rev"] for row in done}
    for sent in writes:
        if sent.bound["key"] not in found:
            raise sent.conflict()
    return [found[sent.bound["key"]] for sent in writes]


def write_alone(rows: Rows, workspace: str, sent: PreparedWrite) -> str:
    """Writes one record outside of a transaction. Returns its revision, "" for a removal.

    If the answer is lost, the write is sent again. If the second attempt is rejected, the record
    shows whether the first attempt had succeeded.
    Raises: RecordConflict, and errors of an unreachable or busy server.
    """
    budget = RetryBudget(ATTEMPTS)
    was_sent = False
    while True:
        try:
            return _write_run(rows, workspace, [sent])[0]
        except RecordConflict:
            done = _done_before(rows, workspace, sent) if was_sent else None
            if done is None:
                raise
            return done
        except (ArangoServerError, *NOT_REACHED) as exc:
            if not may_pass(exc) or not budget.wait():
                raise
            was_sent = True


def _done_before(rows: Rows, workspace: str, sent: PreparedWrite) -> str | None:
    """Returns the revision written by an earlier attempt, None if it did not succeed."""
    found = rows(read.RECORDS_GET, kind=sent.kind, names=sent.bound["names"], workspace=workspace)
    if sent.statement is aql.RECORDS_REMOVE:
        return None if found else ""
    is_ours = bool(found) and _own(found[0]).get("write") == sent.bound["document"]["rag"]["write"]
    return str(found[0]["_rev"]) if is_ours else None
